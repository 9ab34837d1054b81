// SPDX-License-Identifier: BSD-3-Clause
//
// uroce0 where nobody says where it is: on all of 127.0.0.0/8, in a network namespace without other tests.
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/descriptor.hpp"
#include "ibverbs-glue/context.hpp"
#include "ibverbs-glue/devices.hpp"
#include "ibverbs-glue/uroce_contexts.hpp"
#include "tests/cmocka.hpp"

using sluice::Descriptor;
using sluice::Result;
using sluice::glue::Address;
using sluice::glue::Context;
using sluice::glue::Device;

namespace {

// What this process has used is no name of the device: another process has used other ones.
TEST(list__address_that_was_taken_by_use__is_no_name_of_the_device) {
    const Result<Context> context = Context::open("uroce0");
    assert_true(context.ok());
    assert_true(sluice::glue::use_address(context->get(), *Address::from_text("127.0.0.5")).ok());
    const Result<std::vector<Device>> devices = sluice::glue::list_devices();
    assert_true(devices.ok());
    const Device* const by_name = sluice::glue::find_device(*devices, "uroce0");
    assert_non_null(by_name);
    assert_ptr_equal(sluice::glue::find_device(*devices, "127.0.0.1"), by_name);
    assert_null(sluice::glue::find_device(*devices, "127.0.0.5"));
}

bool is_loopback_up() {
    const Descriptor control(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq loopback{};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP;
    return ioctl(control.get(), SIOCSIFFLAGS, &loopback) == 0;
}

} // namespace

int main() {
    if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) != 0 || !is_loopback_up()) {
        std::puts("SKIP: no network namespace can be made here");
        return 77;
    }
    unsetenv("SLUICE_UROCE"); // NOLINT(concurrency-mt-unsafe): the only thread
    return sluice::test::run_all_tests();
}
