// SPDX-License-Identifier: BSD-3-Clause
//
// Two endpoints on two devices, and what tests do with them.
#pragma once

#include "tests/unit/udapl/dapl.hpp"

namespace sluice::dapl::test {

// Longer than anything takes; who waits so long has lost an event.
constexpr DAT_TIMEOUT kLong = 60'000'000;
constexpr char kHello[] = "from the active side";
constexpr char kWelcome[] = "from the passive side";

inline DAT_EVENT next(DAT_EVD_HANDLE evd) {
    DAT_EVENT event{};
    DAT_COUNT left = 0;
    assert_int_equal(dat_evd_wait(evd, kLong, 1, &event, &left), DAT_SUCCESS);
    return event;
}

inline DAT_PVOID mutable_data(const char* text) {
    return const_cast<char*>(text); // NOLINT: DAT's const is the pointer's
}

// One endpoint with everything that it needs, on an IA of its own.
struct Side {
    explicit Side(unsigned number, unsigned privileges = DAT_MEM_PRIV_ALL_FLAG,
                  const DAT_EP_ATTR* attr = nullptr)
        : opened(own_device(number)), pz(opened.make_pz()),
          transfers(opened.make_evd(32, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG)),
          connections(opened.make_evd(8, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG)),
          block(opened, pz, privileges) {
        assert_int_equal(dat_ep_create(opened.ia, pz, transfers, transfers, connections, attr, &ep),
                         DAT_SUCCESS);
    }
    DAT_EP_STATE state() const {
        DAT_EP_STATE its{};
        assert_int_equal(dat_ep_get_status(ep, &its, nullptr, nullptr), DAT_SUCCESS);
        return its;
    }
    DAT_RETURN connect_to(DAT_IA_ADDRESS_PTR address, DAT_CONN_QUAL qualifier) const {
        return dat_ep_connect(ep, address, qualifier, DAT_TIMEOUT_INFINITE, 0, nullptr, DAT_QOS_BEST_EFFORT,
                              DAT_CONNECT_DEFAULT_FLAG);
    }
    DAT_RETURN receive(std::size_t offset, DAT_VLEN length, std::uint64_t cookie = 1) const {
        DAT_LMR_TRIPLET part = block.part(offset, length);
        return dat_ep_post_recv(ep, 1, &part, cookie_of(cookie), DAT_COMPLETION_DEFAULT_FLAG);
    }
    DAT_RETURN send(std::size_t offset, DAT_VLEN length, std::uint64_t cookie = 2,
                    DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG) const {
        DAT_LMR_TRIPLET part = block.part(offset, length);
        return dat_ep_post_send(ep, 1, &part, cookie_of(cookie), flags);
    }
    static DAT_DTO_COOKIE cookie_of(std::uint64_t number) {
        DAT_DTO_COOKIE cookie{};
        cookie.as_64 = number;
        return cookie;
    }
    void must_complete(std::uint64_t cookie, DAT_DTO_COMPLETION_STATUS status, DAT_VLEN length = 0) const {
        const DAT_EVENT event = next(transfers);
        assert_int_equal(event.event_number, DAT_DTO_COMPLETION_EVENT);
        const DAT_DTO_COMPLETION_EVENT_DATA& data = event.event_data.dto_completion_event_data;
        assert_ptr_equal(data.ep_handle, ep);
        assert_int_equal(data.user_cookie.as_64, cookie);
        assert_int_equal(data.status, status);
        if (status == DAT_DTO_SUCCESS) {
            assert_int_equal(data.transfered_length, length);
        }
    }
    DAT_EVENT must_hear(DAT_EVENT_NUMBER number) const {
        const DAT_EVENT event = next(connections);
        assert_int_equal(event.event_number, number);
        return event;
    }

    Opened opened;
    DAT_PZ_HANDLE pz;
    DAT_EVD_HANDLE transfers;
    DAT_EVD_HANDLE connections;
    Block block;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
};

// Two devices; the passive one listens.
struct Pair {
    Pair() {
        assert_int_equal(dat_psp_create_any(passive.opened.ia, &qualifier, passive.connections,
                                            DAT_PSP_CONSUMER_FLAG, &psp),
                         DAT_SUCCESS);
    }
    DAT_IA_ADDRESS_PTR address() const {
        DAT_IA_ATTR attr{};
        assert_int_equal(
            dat_ia_query(passive.opened.ia, nullptr, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr, 0, nullptr),
            DAT_SUCCESS);
        return attr.ia_address_ptr;
    }
    DAT_RETURN try_ask(DAT_TIMEOUT timeout = DAT_TIMEOUT_INFINITE) const {
        return dat_ep_connect(active.ep, address(), qualifier, timeout, sizeof kHello, mutable_data(kHello),
                              DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
    }
    void ask() const { assert_int_equal(try_ask(), DAT_SUCCESS); }
    DAT_CR_HANDLE request() const {
        return passive.must_hear(DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data.cr_handle;
    }
    void connect() const {
        ask();
        assert_int_equal(dat_cr_accept(request(), passive.ep, sizeof kWelcome, mutable_data(kWelcome)),
                         DAT_SUCCESS);
        active.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
        passive.must_hear(DAT_CONNECTION_EVENT_ESTABLISHED);
    }

    Side active{0};
    Side passive{1};
    DAT_CONN_QUAL qualifier = 0;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
};

} // namespace sluice::dapl::test
