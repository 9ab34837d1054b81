// SPDX-License-Identifier: BSD-3-Clause
//
// Interface adapters of our provider: opening, asking, closing, and what every handle knows.
#include <dat/dat_registry.h>
#include <dlfcn.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "tests/unit/udapl/dapl.hpp"
#include "tests/unit/udapl/limit.hpp"
#include "tests/unit/udapl/logged.hpp"

using namespace sluice::dapl::test;

namespace {

DAT_RETURN open(std::string name, DAT_EVD_HANDLE& evd, DAT_IA_HANDLE& ia, DAT_COUNT length = 8) {
    return dat_ia_open(name.data(), length, &evd, &ia);
}

// The first test: no other open has told libdat yet where the provider's handles are.
TEST(provider__initialised_by_the_program__serves_its_name_until_it_is_told_to_end) {
    void* const library = dlopen("libdapl-sluice.so.1", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    const auto init = reinterpret_cast<decltype(&dat_provider_init)>(dlsym(library, "dat_provider_init"));
    const auto fini = reinterpret_cast<decltype(&dat_provider_fini)>(dlsym(library, "dat_provider_fini"));
    const DAT_PROVIDER_INFO info{"mine", 1, 2, DAT_TRUE};
    init(&info, own_device().c_str());
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open("mine", evd, ia), DAT_SUCCESS);
    DAT_HANDLE_TYPE type{};
    assert_int_equal(dat_get_handle_type(ia, &type), DAT_SUCCESS);
    assert_int_equal(type, DAT_HANDLE_TYPE_IA);
    DAT_IA_ATTR attr{};
    assert_int_equal(dat_ia_query(ia, nullptr, DAT_IA_FIELD_IA_ADAPTER_NAME, &attr, 0, nullptr), DAT_SUCCESS);
    assert_string_equal(attr.adapter_name, info.ia_name); // and not the device's
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
    fini(&info);
    evd = DAT_HANDLE_NULL;
    assert_int_equal(open("mine", evd, ia), coded(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
}

TEST(open__no_such_device__quietly_not_found) {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open("nosuch0", evd, ia), coded(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
    assert_null(ia);
    assert_null(evd);
}

// uroce's port, as another program has it that isn't one of ours.
class Holder {
  public:
    explicit Holder(const std::string& address) : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        constexpr std::uint16_t kRocePort = 4791;
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_port = htons(kRocePort);
        assert_int_equal(inet_pton(AF_INET, address.c_str(), &at.sin_addr), 1);
        assert_int_equal(bind(socket_, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    }
    ~Holder() { close(socket_); }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;

  private:
    int socket_;
};

TEST(open__address_that_somebody_has__no_device_and_the_log_names_the_holder) {
    if (is_own_device_named()) {
        skip(); // the kernel's rxe has the port on every address
    }
    const std::string address = sluice::test::own_address(3);
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    {
        const Holder holder(address);
        const Logged logged = logged_by([&] { return open(address, evd, ia); });
        assert_int_equal(logged.status, coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
        assert_true(logged.text.find(address + " belongs to ") != std::string::npos);
        assert_true(logged.text.find(address + " can't be opened") != std::string::npos);
    }
    assert_null(ia);
    assert_null(evd);
    assert_int_equal(open(address, evd, ia), DAT_SUCCESS); // he has given it back
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

TEST(open__few_descriptors_left__memory_and_the_log_says_how_to_have_more) {
    if (is_own_device_named()) {
        skip(); // as above
    }
    const Opened opened; // the provider is loaded
    std::string address = sluice::test::own_address(4);
    const int next_descriptor = dup(STDERR_FILENO);
    close(next_descriptor);
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    rlim_t most = static_cast<rlim_t>(next_descriptor);
    for (; ia == DAT_HANDLE_NULL; ++most) {
        const Logged logged = logged_by([&] {
            const Limit limit(RLIMIT_NOFILE, most);
            return open(address, evd, ia);
        });
        if (logged.status != DAT_SUCCESS &&
            (logged.status != coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY) ||
             logged.text.find("raise `ulimit -n`") == std::string::npos)) {
            fail_msg("%lu descriptors: 0x%x: %s", most, logged.status, logged.text.c_str());
        }
    }
    assert_true(most > static_cast<rlim_t>(next_descriptor) + 1); // it needs some
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

TEST(open__name_like_a_device_s__not_found) {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    for (const char* const name : {"uroce", "uroce9999", "uroce_nosuch0", "uroce_at_nowhere", "192.0.2.99"}) {
        if (open(name, evd, ia) != coded(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED)) {
            fail_msg("%s is found", name);
        }
    }
}

TEST(open__no_length_for_the_dispatcher__argument_2) {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open(own_device(), evd, ia, 0), coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    assert_null(ia);
}

TEST(open__dispatcher_exists_elsewhere__out_of_scope) {
    DAT_EVD_HANDLE evd = DAT_EVD_ASYNC_EXISTS;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open(own_device(), evd, ia, 0), DAT_SUCCESS);
    assert_ptr_equal(evd, DAT_EVD_OUT_OF_SCOPE);
    evd = DAT_HANDLE_NULL;
    assert_int_equal(dat_ia_query(ia, &evd, 0, nullptr, 0, nullptr), DAT_SUCCESS);
    assert_ptr_equal(evd, DAT_EVD_OUT_OF_SCOPE);
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
}

TEST(open__another_ia_s_dispatcher__shared_and_not_freed_with_it) {
    const Opened opened;
    DAT_EVD_HANDLE evd = opened.make_evd(4, DAT_EVD_ASYNC_FLAG);
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open(own_device(), evd, ia), DAT_SUCCESS);
    assert_int_equal(dat_evd_free(evd), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_IN_USE));
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
    assert_int_equal(dat_evd_free(evd), DAT_SUCCESS);
}

TEST(close__another_ia_reports_to_its_dispatcher__that_one_has_none_any_more) {
    for (const DAT_CLOSE_FLAGS flags : {DAT_CLOSE_GRACEFUL_FLAG, DAT_CLOSE_ABRUPT_FLAG}) {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        DAT_IA_HANDLE owner = DAT_HANDLE_NULL;
        DAT_IA_HANDLE users[2] = {};
        assert_int_equal(open(own_device(), evd, owner), DAT_SUCCESS);
        for (DAT_IA_HANDLE& user : users) {
            assert_int_equal(open(own_device(), evd, user), DAT_SUCCESS);
        }
        assert_int_equal(dat_ia_close(users[0], DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
        assert_int_equal(dat_ia_close(owner, flags), DAT_SUCCESS);
        assert_int_equal(dat_ia_query(users[1], &evd, 0, nullptr, 0, nullptr), DAT_SUCCESS);
        assert_ptr_equal(evd, DAT_EVD_OUT_OF_SCOPE);
        assert_int_equal(dat_ia_close(users[1], DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
    }
}

TEST(open__dispatcher_of_another_stream__invalid_dispatcher) {
    const Opened opened;
    DAT_EVD_HANDLE evd = opened.make_evd();
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open(own_device(), evd, ia), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EVD_ASYNC));
    assert_null(ia);
}

TEST(query__everything__every_member_written) {
    const Opened opened;
    DAT_IA_ATTR attr;
    DAT_PROVIDER_ATTR provider;
    std::memset(&attr, 0xa5, sizeof attr);
    std::memset(&provider, 0xa5, sizeof provider);
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    assert_int_equal(
        dat_ia_query(opened.ia, &evd, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL, &provider),
        DAT_SUCCESS);
    assert_ptr_equal(evd, opened.async_evd);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&attr);
    assert_null(std::search_n(bytes, bytes + sizeof attr, 4, 0xa5) == bytes + sizeof attr ? nullptr : bytes);
    assert_int_equal(attr.ia_address_ptr->sa_family, AF_INET);
    sockaddr_in address{};
    std::memcpy(&address, attr.ia_address_ptr, sizeof address);
    assert_true(is_own_device_named() || ntohl(address.sin_addr.s_addr) >> 24 == 127);
    assert_true(attr.max_eps > 0 && attr.max_lmrs > 0 && attr.max_evd_qlen > 0);
    assert_string_equal(provider.provider_name, "sluice");
    assert_int_equal(provider.dapl_version_major, 1);
    assert_int_equal(provider.dapl_version_minor, 2);
    assert_int_equal(provider.is_thread_safe, DAT_TRUE);
    assert_int_equal(provider.lmr_sync_req, DAT_FALSE); // uroce is the CPU
    assert_int_equal(provider.srq_watermarks_supported, 0x111);
    assert_int_equal(provider.srq_info_supported, 0x11);
    assert_int_equal(provider.ep_recv_info_supported, 0x11);
    assert_int_equal(provider.evd_stream_merging_supported[1][3], DAT_TRUE);
    assert_int_equal(provider.evd_stream_merging_supported[5][2], DAT_FALSE);
    assert_int_equal(provider.evd_stream_merging_supported[5][5], DAT_TRUE);
}

TEST(query__adapter__named_as_it_was_opened) {
    for (const char* const prefix : {"", "RO_AWARE_"}) {
        const Opened opened(prefix + own_device());
        DAT_IA_ATTR attr{};
        assert_int_equal(dat_ia_query(opened.ia, nullptr, DAT_IA_FIELD_IA_ADAPTER_NAME, &attr, 0, nullptr),
                         DAT_SUCCESS);
        assert_string_equal(attr.adapter_name, own_device().c_str());
    }
}

TEST(query__hardware__its_vendor_s_number_and_its_firmware_s_version) {
    const Opened opened;
    DAT_IA_ATTR attr{};
    DAT_PROVIDER_ATTR provider{};
    assert_int_equal(
        dat_ia_query(opened.ia, nullptr, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL, &provider),
        DAT_SUCCESS);
    assert_int_equal(std::strncmp(attr.vendor_name, "0x", 2), 0);
    assert_int_equal(std::strlen(attr.vendor_name), std::strlen("0x00000000:0x00000000"));
    if (!is_own_device_named()) { // uroce's firmware is Sluice
        assert_int_equal(attr.firmware_version_major, provider.provider_version_major);
        assert_int_equal(attr.firmware_version_minor, provider.provider_version_minor);
    }
}

TEST(query__wild_masks_or_nowhere_to_write__argument) {
    const Opened opened;
    DAT_IA_ATTR attr{};
    assert_int_equal(dat_ia_query(opened.ia, nullptr, ~UINT64_C(0), &attr, 0, nullptr),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    assert_int_equal(dat_ia_query(opened.ia, nullptr, 1, nullptr, 0, nullptr),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4));
    assert_int_equal(dat_ia_query(opened.ia, nullptr, 0, nullptr, ~UINT64_C(0), nullptr),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5));
    assert_int_equal(dat_ia_query(opened.ia, nullptr, 0, nullptr, 1, nullptr),
                     coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG6));
}

TEST(close__gracefully_with_something_left__in_use) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    assert_int_equal(dat_ia_close(opened.ia, DAT_CLOSE_GRACEFUL_FLAG),
                     coded(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE));
    assert_int_equal(dat_pz_free(pz), DAT_SUCCESS);
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open(own_device(), evd, ia), DAT_SUCCESS);
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
}

TEST(close__abruptly__takes_all_that_lives_in_it) {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    {
        const Opened opened;
        evd = opened.make_evd();
        pz = opened.make_pz();
        lmr = Block(opened, pz).lmr;
        assert_non_null(lmr);
    }
    assert_int_equal(dat_lmr_free(lmr), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_LMR));
    assert_int_equal(dat_pz_free(pz), coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_PZ));
    assert_int_equal(dat_evd_free(evd), coded(DAT_INVALID_HANDLE));
}

TEST(async_evd__freed__in_use) {
    const Opened opened;
    assert_int_equal(dat_evd_free(opened.async_evd), coded(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_IN_USE));
}

TEST(handle__any_kind__knows_its_type_and_keeps_a_context) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    const Block block(opened, pz);
    const struct {
        DAT_HANDLE handle;
        DAT_HANDLE_TYPE type;
    } all[] = {{opened.ia, DAT_HANDLE_TYPE_IA},
               {opened.async_evd, DAT_HANDLE_TYPE_EVD},
               {pz, DAT_HANDLE_TYPE_PZ},
               {block.lmr, DAT_HANDLE_TYPE_LMR}};
    for (const auto& each : all) {
        DAT_HANDLE_TYPE type{};
        assert_int_equal(dat_get_handle_type(each.handle, &type), DAT_SUCCESS);
        assert_int_equal(type, each.type);
        DAT_CONTEXT context{};
        context.as_64 = 1;
        assert_int_equal(dat_get_consumer_context(each.handle, &context), DAT_SUCCESS);
        assert_int_equal(context.as_64, 0);
        context.as_64 = 0x1234'5678'9abc'def0;
        assert_int_equal(dat_set_consumer_context(each.handle, context), DAT_SUCCESS);
        context.as_64 = 0;
        assert_int_equal(dat_get_consumer_context(each.handle, &context), DAT_SUCCESS);
        assert_int_equal(context.as_64, 0x1234'5678'9abc'def0);
    }
}

TEST(handle__freed__nothing_works_on_it) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    assert_int_equal(dat_pz_free(pz), DAT_SUCCESS);
    DAT_HANDLE_TYPE type{};
    DAT_CONTEXT context{};
    assert_int_equal(DAT_GET_TYPE(dat_get_handle_type(pz, &type)), DAT_INVALID_HANDLE);
    assert_int_equal(DAT_GET_TYPE(dat_set_consumer_context(pz, context)), DAT_INVALID_HANDLE);
    assert_int_equal(DAT_GET_TYPE(dat_get_consumer_context(pz, &context)), DAT_INVALID_HANDLE);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
