// SPDX-License-Identifier: BSD-3-Clause
//
// uroce in a process whose libibverbs is that of rdma-core 36 (a fake in its place): its call to open a
// device reads what our device doesn't have.
#include <sluice/sluice.h>

#include <cerrno>
#include <string>

#include "tests/cmocka.hpp"

namespace {

void note(void* context, int /*level*/, const char* /*area*/, const char* message) {
    *static_cast<std::string*>(context) += message;
}

TEST(open_uroce__libibverbs_of_rdma_core_36__declines_and_says_what_to_install) {
    std::string text;
    sluice_set_log_sink(note, &text);
    errno = 0;
    assert_null(sluice_open_uroce("127.0.0.1"));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_true(text.find("install rdma-core 37 or later") != std::string::npos);
    sluice_set_log_sink(nullptr, nullptr);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
