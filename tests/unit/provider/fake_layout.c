// SPDX-License-Identifier: BSD-3-Clause
//
// One layout of libibverbs, compiled for each with
//   FAKE_VERSION  the NN of verbs_register_driver_NN
//   FAKE_SLOTS, FAKE_CONTEXT, FAKE_QP_MASK  sizes and places, as in fake_layout.h
//   FAKE_SHUFFLED two operations have changed places
//   FAKE_INSERTED_AT  an operation that nobody knows is here
//   FAKE_LACKS_LOG  it has no log function, as before rdma-core 37
//   FAKE_LACKS_SET_OPS  a function that providers need is not there
#include "tests/unit/provider/fake_layout.h"

#ifdef FAKE_SHUFFLED
#define IS_SHUFFLED true
#else
#define IS_SHUFFLED false
#endif

#ifndef FAKE_INSERTED_AT
#define FAKE_INSERTED_AT FAKE_SLOTS
#endif

const struct FakeLayout fake_layout = {FAKE_SLOTS, FAKE_CONTEXT, FAKE_QP_MASK, IS_SHUFFLED, FAKE_INSERTED_AT};

#define EXPORTED __attribute__((visibility("default")))
#define REGISTER_NAME(version) verbs_register_driver_##version
#define REGISTER(version) REGISTER_NAME(version)

EXPORTED void REGISTER(FAKE_VERSION)(const void* ops) {
    fake_register(ops);
}

#ifndef FAKE_LACKS_LOG
// NOLINTNEXTLINE(bugprone-reserved-identifier): libibverbs' name
EXPORTED void __verbs_log(void) {}
#endif

#ifndef FAKE_LACKS_SET_OPS
EXPORTED void verbs_set_ops(void* base, const void* table) {
    fake_set_ops(base, table);
}
#endif
