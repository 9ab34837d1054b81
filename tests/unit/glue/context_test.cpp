// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/context.hpp"

#include <ifaddrs.h>

#include <cstdlib>
#include <memory>
#include <optional>

#include "ibverbs-glue/devices.hpp"
#include "ibverbs-glue/reach.hpp"
#include "tests/cmocka.hpp"
#include "tests/loopback.hpp"

using sluice::ErrorKind;
using sluice::Result;
using sluice::glue::Address;
using sluice::glue::Coherence;
using sluice::glue::Context;
using sluice::glue::Device;
using sluice::test::own_address;

namespace {

TEST(open__loopback_address__uroce_there) {
    const Result<Device> device = sluice::glue::resolve_device(own_address());
    assert_true(device.ok());
    assert_int_equal(device->addresses.size(), 1);
    assert_string_equal(device->addresses[0].to_string().c_str(), own_address().c_str());
}

// An IPv4 address of one of this machine's interfaces to others.
std::optional<Address> outward_address() {
    ifaddrs* first = nullptr;
    assert_int_equal(getifaddrs(&first), 0);
    const std::unique_ptr<ifaddrs, decltype([](ifaddrs* list) { freeifaddrs(list); })> list(first);
    for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET) {
            const Result<Address> address = Address::from(each->ifa_addr);
            if (address && !address->is_loopback()) {
                return *address;
            }
        }
    }
    return std::nullopt;
}

TEST(context_at__address_that_uroce_was_given__uroce_there) {
    const std::optional<Address> address = outward_address();
    if (!address) {
        print_message("this machine has only loopback addresses\n");
        skip();
    }
    assert_int_equal(setenv("SLUICE_UROCE", ("uroce7=" + address->to_string()).c_str(), 1), 0);
    const Result<ibv_context*> context = sluice::glue::context_at(*address);
    assert_int_equal(unsetenv("SLUICE_UROCE"), 0);
    assert_true(context.ok());
    assert_string_equal(ibv_get_device_name((*context)->device), "uroce7");
}

TEST(open__other_address_without_a_device__not_found) {
    const Result<Context> context = Context::open("192.0.2.1");
    assert_false(context.ok());
    assert_int_equal(context.error().kind(), ErrorKind::kNotFound);
}

TEST(query_coherence__uroce__coherent) {
    const Result<Context> context = Context::open(own_address());
    assert_true(context.ok());
    const Result<Coherence> coherence = context->query_coherence();
    assert_true(coherence.ok());
    assert_int_equal(*coherence, Coherence::kCoherent);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
