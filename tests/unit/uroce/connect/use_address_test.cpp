// SPDX-License-Identifier: BSD-3-Clause
//
// sluice_use_uroce_address() on a device that has one address. What it does for the loopback device needs a
// network namespace without other tests: tests/preload/loopback.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "sluice/sluice.h"
#include "tests/loopback.hpp"
#include "tests/unit/uroce/quiet_fork.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace {

struct Device {
    Device() { assert_non_null(context); }
    ~Device() { assert_int_equal(ibv_close_device(context), 0); }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    int use(const std::string& text) const {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        assert_int_equal(inet_pton(AF_INET, text.c_str(), &to.sin_addr), 1);
        return sluice_use_uroce_address(context, reinterpret_cast<const sockaddr*>(&to));
    }
    int table_length() const {
        ibv_port_attr port{};
        assert_int_equal(ibv_query_port(context, 1, &port), 0);
        return port.gid_tbl_len;
    }

    const std::string address = sluice::test::Loopback::instance().next_address();
    ibv_context* const context = sluice_open_uroce(address.c_str());
};

TEST(use_address__home__nothing_changes) {
    const Device device;
    assert_int_equal(device.use(device.address), 0);
    assert_int_equal(device.use(device.address), 0);
    assert_int_equal(device.table_length(), 1);
}

// An address that was asked for stays alone.
TEST(use_address__another_one__not_available) {
    const Device device;
    assert_int_equal(device.use(sluice::test::Loopback::instance().next_address()), EADDRNOTAVAIL);
    assert_int_equal(device.use("192.0.2.1"), EADDRNOTAVAIL);
    assert_int_equal(device.table_length(), 1);
}

TEST(use_address__no_address__refused) {
    const Device device;
    const sockaddr unix_socket{.sa_family = AF_UNIX, .sa_data = {}};
    assert_int_equal(sluice_use_uroce_address(device.context, &unix_socket), EAFNOSUPPORT);
    assert_int_equal(sluice_use_uroce_address(device.context, nullptr), EINVAL);
    assert_int_equal(sluice_use_uroce_address(nullptr, &unix_socket), EINVAL);
}

TEST(use_address__child_of_a_fork__io_error) {
    const Device device;
    const pid_t child = sluice::uroce::test::quiet_fork();
    if (child == 0) {
        _exit(device.use(device.address) == EIO ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.connect.use_address");
}
