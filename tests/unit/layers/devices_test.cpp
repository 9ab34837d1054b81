// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libibverbs.
#include <infiniband/verbs.h>
#include <sluice/sluice.h>

#include <cerrno>
#include <memory>

#include "tests/cmocka.hpp"
#include "tests/unit/layers/own_device.hpp"

using namespace sluice::layers::preload::test;

namespace {

using List = std::unique_ptr<ibv_device*, decltype([](ibv_device** list) { ibv_free_device_list(list); })>;
using Context =
    std::unique_ptr<ibv_context, decltype([](ibv_context* context) { ibv_close_device(context); })>;

// Those of a kernel's, if this machine has some, come before.
ibv_device* own_device(const List& list, int count) {
    assert_non_null(list.get());
    assert_true(count >= 1);
    assert_null(list.get()[count]);
    return list.get()[count - 1];
}

TEST(list__uroce_device__is_the_last_and_has_its_name) {
    int count = -1;
    const List list(ibv_get_device_list(&count));
    const ibv_device* device = own_device(list, count);
    assert_string_equal(ibv_get_device_name(const_cast<ibv_device*>(device)), "uroce0");
    assert_int_equal(device->node_type, IBV_NODE_CA);
    assert_int_equal(device->transport_type, IBV_TRANSPORT_IB);
    assert_int_equal(ibv_get_device_index(const_cast<ibv_device*>(device)), -1);
}

// Where programs look for a device's files; `sluice run` shows them there.
TEST(list__uroce_device__names_its_files) {
    int count = -1;
    const List list(ibv_get_device_list(&count));
    const ibv_device* device = own_device(list, count);
    assert_string_equal(device->dev_name, "uverbs-uroce0");
    assert_string_equal(device->dev_path, "/sys/class/infiniband_verbs/uverbs-uroce0");
    assert_string_equal(device->ibdev_path, "/sys/class/infiniband/uroce0");
}

TEST(list__no_place_for_the_count__still_null_terminated) {
    const List list(ibv_get_device_list(nullptr));
    assert_non_null(list.get());
    int count = 0;
    while (list.get()[count] != nullptr) {
        ++count;
    }
    assert_string_equal(ibv_get_device_name(own_device(list, count)), "uroce0");
}

TEST(open__listed_device__context_of_that_address_and_guid) {
    int count = 0;
    List list(ibv_get_device_list(&count));
    ibv_device* const device = own_device(list, count);
    const __be64 guid = ibv_get_device_guid(device);
    const Context context(ibv_open_device(device));
    list.reset(); // a program may free it before it uses the context
    assert_non_null(context.get());
    assert_string_equal(ibv_get_device_name(context->device), "uroce0");
    ibv_device_attr attributes{};
    assert_int_equal(ibv_query_device(context.get(), &attributes), 0);
    assert_true(guid != 0 && attributes.node_guid == guid && ibv_get_device_guid(context->device) == guid);
    ibv_gid gid{};
    assert_int_equal(ibv_query_gid(context.get(), 1, 0, &gid), 0);
    in_addr address{};
    assert_int_equal(inet_pton(AF_INET, own_address().c_str(), &address), 1);
    assert_memory_equal(gid.raw + 12, &address, sizeof address);
}

TEST(open__twice__two_contexts) {
    int count = 0;
    const List list(ibv_get_device_list(&count));
    const Context one(ibv_open_device(own_device(list, count)));
    const Context other(ibv_open_device(own_device(list, count)));
    assert_true(one != nullptr && other != nullptr && one != other);
}

TEST(comp_channel__of_uroce__is_made_by_the_ordinary_call) {
    int count = 0;
    const List list(ibv_get_device_list(&count));
    const Context context(ibv_open_device(own_device(list, count)));
    ibv_comp_channel* const channel = ibv_create_comp_channel(context.get());
    assert_non_null(channel);
    ibv_cq* const queue = ibv_create_cq(context.get(), 4, nullptr, channel, 0);
    assert_non_null(queue);
    assert_int_equal(ibv_req_notify_cq(queue, 0), 0);
    assert_int_equal(ibv_destroy_cq(queue), 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

TEST(attributes__listed_device__those_of_uroce) {
    int count = 0;
    const List list(ibv_get_device_list(&count));
    sluice_device_attributes attributes{};
    assert_int_equal(sluice_query_device(own_device(list, count), &attributes, sizeof attributes), 0);
    assert_string_equal(attributes.kernel_driver.value, "none");
}

} // namespace

int main() {
    return sluice::test::run_all_tests("preload.devices", use_own_device);
}
