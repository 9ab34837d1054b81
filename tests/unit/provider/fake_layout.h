// SPDX-License-Identifier: BSD-3-Clause
//
// What one fake libibverbs has of its own, and what it calls in the code that all of them share.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct FakeLayout {
    size_t slots;         // operations in its table
    size_t context_bytes; // sizeof(struct verbs_context), as on x86-64
    size_t qp_mask_at;    // offset of comp_mask in struct verbs_qp, as on x86-64
    bool shuffled;        // two operations have changed places
    size_t inserted_at;   // an operation that nobody knows stands here, in front of those that follow
};

extern const struct FakeLayout fake_layout;

void fake_register(const void* ops);
void fake_set_ops(void* base, const void* table);

#ifdef __cplusplus
}
#endif
