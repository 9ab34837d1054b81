// SPDX-License-Identifier: BSD-3-Clause
//
// Our provider for DAT 2.0 as libdat2 sees it: functions are called through the first word of what a handle
// points to, on a device that every machine has.
#pragma once

#include <dat/dat_ib_extensions.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/loopback.hpp"
#include "tests/unit/udapl/libdat2.h"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace sluice::dapl2::test {

constexpr DAT_RETURN coded(unsigned type, unsigned subtype = DAT_NO_SUBTYPE) {
    return DAT_CLASS_ERROR | type | subtype;
}

inline const DAT_PROVIDER& table_of(DAT_HANDLE handle) {
    return **static_cast<const DAT_PROVIDER* const*>(handle);
}

// As libdat2 loads it.
inline void* library() {
    static void* const loaded = dlopen("libdapl-sluice2.so.2", RTLD_NOW | RTLD_GLOBAL);
    if (loaded == nullptr) {
        fail_msg("%s", dlerror());
    }
    return loaded;
}

template<typename Function>
Function* function_of_library(const char* name) {
    return reinterpret_cast<Function*>(dlsym(library(), name));
}

// A line of dat.conf whose library is loaded.
struct Line {
    explicit Line(const std::string& name, const std::string& data, DAT_BOOLEAN is_thread_safe = DAT_FALSE) {
        std::strncpy(info.ia_name, name.c_str(), sizeof info.ia_name - 1);
        info.dapl_version_major = 2;
        info.is_thread_safe = is_thread_safe;
        function_of_library<decltype(dat_provider_init)>("dat_provider_init")(&info, data.c_str());
    }
    ~Line() { function_of_library<decltype(dat_provider_fini)>("dat_provider_fini")(&info); }
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;
    const DAT_PROVIDER* provider() const { return test_dat2_provider(&info); }

    DAT_PROVIDER_INFO info{};
};

// An adapter, opened as libdat2 opens it. IA is the provider's handle, NUMBER the program's.
struct Adapter {
    explicit Adapter(unsigned device = 0)
        : line("adapter" + std::to_string(device), sluice::test::own_address(device) + " 0") {
        assert_non_null(line.provider());
        assert_int_equal(line.provider()->ia_open_func(line.info.ia_name, 8, &async_evd, &ia), DAT_SUCCESS);
        number = test_dat2_number(ia);
    }
    ~Adapter() {
        assert_int_equal(table_of(ia).ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
        test_dat2_forget(number);
    }
    Adapter(const Adapter&) = delete;
    Adapter& operator=(const Adapter&) = delete;

    DAT_PZ_HANDLE make_pz() const {
        DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
        assert_int_equal(table_of(ia).pz_create_func(ia, &pz), DAT_SUCCESS);
        return pz;
    }
    DAT_EVD_HANDLE make_evd(int length, int flags) const {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        assert_int_equal(table_of(ia).evd_create_func(ia, length, DAT_HANDLE_NULL,
                                                      static_cast<DAT_EVD_FLAGS>(flags), &evd),
                         DAT_SUCCESS);
        return evd;
    }

    Line line;
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_IA_HANDLE number = DAT_HANDLE_NULL;
};

constexpr unsigned kWithAtomics = DAT_MEM_PRIV_ALL_FLAG | DAT_IB_MEM_PRIV_REMOTE_ATOMIC;

struct Block {
    Block(const Adapter& adapter, DAT_PZ_HANDLE pz, unsigned privileges = kWithAtomics,
          DAT_VA_TYPE va_type = DAT_VA_TYPE_VA)
        : bytes(4096) {
        DAT_REGION_DESCRIPTION region{};
        region.for_va = bytes.data();
        status = table_of(adapter.ia)
                     .lmr_create_func(adapter.ia, DAT_MEM_TYPE_VIRTUAL, region, bytes.size(), pz,
                                      static_cast<DAT_MEM_PRIV_FLAGS>(privileges), va_type, &lmr, &context,
                                      &key, nullptr, nullptr);
    }
    DAT_VADDR address(std::size_t offset = 0) const {
        return reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
    }
    DAT_LMR_TRIPLET part(std::size_t offset, DAT_SEG_LENGTH length) const {
        return {address(offset), length, context};
    }
    DAT_RMR_TRIPLET remote(std::size_t offset, DAT_SEG_LENGTH length) const {
        return {address(offset), length, key};
    }
    std::uint64_t& number_at(std::size_t offset) {
        return *reinterpret_cast<std::uint64_t*>(bytes.data() + offset);
    }

    std::vector<std::uint8_t> bytes;
    DAT_RETURN status = DAT_SUCCESS;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context = 0;
    DAT_RMR_CONTEXT key = 0;
};

// Longer than anything takes; who waits so long has lost an event.
constexpr DAT_TIMEOUT kLong = 60'000'000;

inline DAT_EVENT next(DAT_EVD_HANDLE evd) {
    DAT_EVENT event{};
    DAT_COUNT left = 0;
    assert_int_equal(table_of(evd).evd_wait_func(evd, kLong, 1, &event, &left), DAT_SUCCESS);
    return event;
}

inline DAT_DTO_COOKIE cookie_of(std::uint64_t number) {
    DAT_DTO_COOKIE cookie{};
    cookie.as_64 = number;
    return cookie;
}

// One endpoint with everything that it needs.
struct Side {
    explicit Side(unsigned device)
        : adapter(device), pz(adapter.make_pz()),
          transfers(adapter.make_evd(32, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG)),
          connections(adapter.make_evd(8, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG)), block(adapter, pz) {
        assert_int_equal(block.status, DAT_SUCCESS);
        assert_int_equal(table_of(adapter.ia)
                             .ep_create_func(adapter.ia, pz, transfers, transfers, connections, nullptr, &ep),
                         DAT_SUCCESS);
    }
    DAT_RETURN receive(std::size_t offset, DAT_SEG_LENGTH length, std::uint64_t cookie) const {
        DAT_LMR_TRIPLET part = block.part(offset, length);
        return table_of(ep).ep_post_recv_func(ep, 1, &part, cookie_of(cookie), DAT_COMPLETION_DEFAULT_FLAG);
    }
    DAT_DTO_COMPLETION_EVENT_DATA must_complete(DAT_DTOS operation, std::uint64_t cookie) const {
        const DAT_EVENT event = next(transfers);
        assert_int_equal(event.event_number, DAT_DTO_COMPLETION_EVENT);
        return check(event, operation, cookie);
    }
    // What comes with an event of the extensions.
    DAT_IB_EXTENSION_EVENT_DATA must_complete_extended(DAT_DTOS operation, std::uint64_t cookie) const {
        const DAT_EVENT event = next(transfers);
        assert_int_equal(event.event_number, DAT_IB_DTO_EVENT);
        check(event, operation, cookie);
        DAT_IB_EXTENSION_EVENT_DATA data{};
        std::memcpy(&data, event.event_extension_data, sizeof data);
        assert_int_equal(data.status, DAT_OP_SUCCESS);
        return data;
    }
    DAT_EVENT must_hear(DAT_EVENT_NUMBER number) const {
        const DAT_EVENT event = next(connections);
        assert_int_equal(event.event_number, number);
        return event;
    }
    DAT_DTO_COMPLETION_EVENT_DATA check(const DAT_EVENT& event, DAT_DTOS operation,
                                        std::uint64_t cookie) const {
        const DAT_DTO_COMPLETION_EVENT_DATA& data = event.event_data.dto_completion_event_data;
        assert_ptr_equal(data.ep_handle, ep);
        assert_int_equal(data.status, DAT_DTO_SUCCESS);
        assert_int_equal(data.operation, operation);
        assert_int_equal(data.user_cookie.as_64, cookie);
        return data;
    }

    Adapter adapter;
    DAT_PZ_HANDLE pz;
    DAT_EVD_HANDLE transfers;
    DAT_EVD_HANDLE connections;
    Block block;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
};

// Two devices; the passive one listens.
struct Pair {
    Pair() {
        const DAT_IA_HANDLE ia = passive.adapter.ia;
        assert_int_equal(table_of(ia).psp_create_any_func(ia, &qualifier, passive.connections,
                                                          DAT_PSP_CONSUMER_FLAG, &psp),
                         DAT_SUCCESS);
    }
    DAT_CR_HANDLE ask() const { return ask(active.ep); }
    DAT_CR_HANDLE ask(DAT_EP_HANDLE ep) const {
        const DAT_IA_HANDLE ia = passive.adapter.ia;
        DAT_IA_ATTR attr{};
        assert_int_equal(table_of(ia).ia_query_func(ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr),
                         DAT_SUCCESS);
        assert_int_equal(table_of(ep).ep_connect_func(ep, attr.ia_address_ptr, qualifier,
                                                      DAT_TIMEOUT_INFINITE, 0, nullptr, DAT_QOS_BEST_EFFORT,
                                                      DAT_CONNECT_DEFAULT_FLAG),
                         DAT_SUCCESS);
        return passive.must_hear(DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data.cr_handle;
    }
    void connect() const {
        const DAT_CR_HANDLE request = ask();
        assert_int_equal(table_of(request).cr_accept_func(request, passive.ep, 0, nullptr), DAT_SUCCESS);
        active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
        passive.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    }

    Side active{0};
    Side passive{1};
    DAT_CONN_QUAL qualifier = 0;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
};

// dat_extension_op(), as libdat2 passes it on.
inline DAT_RETURN extended(DAT_HANDLE handle, int operation, ...) {
    va_list arguments;
    va_start(arguments, operation);
    const DAT_RETURN status = table_of(handle).handle_extendedop_func(handle, operation, arguments);
    va_end(arguments);
    return status;
}

} // namespace sluice::dapl2::test
