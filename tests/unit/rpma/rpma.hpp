// SPDX-License-Identifier: BSD-3-Clause
//
// librpma as programs see it, on devices that every machine has.
#pragma once

#include <librpma.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/loopback.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

// Of the sanitizer for leaks, where that is there.
extern "C" {
[[gnu::weak]] void __lsan_disable(); // NOLINT: its name
[[gnu::weak]] void __lsan_enable();  // NOLINT: its name
}

namespace sluice::rpma::test {

// What the device refuses to give back is lost, and librpma's rule is that the program's pointer is gone all
// the same.
class LossExpected {
  public:
    LossExpected() {
        if (__lsan_disable != nullptr) {
            __lsan_disable();
        }
    }
    ~LossExpected() {
        if (__lsan_enable != nullptr) {
            __lsan_enable();
        }
    }
    LossExpected(const LossExpected&) = delete;
    LossExpected& operator=(const LossExpected&) = delete;
};

constexpr int kAllUsages = 0xff;
constexpr int kAlways = RPMA_F_COMPLETION_ALWAYS;
constexpr int kPatienceMs = 60'000;
constexpr int kWcFlush = 8; // IBV_WC_FLUSH; younger than the header

// The kernel's device that the lab gives, instead of those of uroce.
inline const char* lab_address() {
    return std::getenv("RPMA_TEST_ADDRESS");
}

// There is no immediate data, a write is done when it has left, connecting tells at once that nobody listens,
// and the kernel's siw hands out what wasn't registered to be read: docs/rpma-compatibility.md.
inline bool is_over_iwarp() {
    const char* const device = std::getenv("LAB_DEVICE");
    return lab_address() != nullptr && device != nullptr && std::string_view(device).starts_with("siw");
}

// An address of this process alone, or the lab's, for all. uroce0 would be every other test's, too.
inline std::string own_address(unsigned number = 0) {
    if (lab_address() != nullptr) {
        return lab_address();
    }
    // Once: some tests run out of memory later.
    [[maybe_unused]] static const int alone =
        setenv("SLUICE_UROCE", ("uroce0=" + sluice::test::own_address(0)).c_str(), 0);
    return sluice::test::own_address(number);
}

// A port that no other test of this process has.
inline std::string next_port() {
    static int port = 7000;
    return std::to_string(++port);
}

inline void must(int code) {
    if (code != 0) {
        fail_msg("%s (%d)", rpma_err_2str(code), code);
    }
}

inline void wait_until_readable(int fd) {
    pollfd wanted{fd, POLLIN, 0};
    assert_int_equal(poll(&wanted, 1, kPatienceMs), 1);
}

inline ibv_context* context_of(const std::string& address,
                               rpma_util_ibv_context_type type = RPMA_UTIL_IBV_CONTEXT_LOCAL) {
    ibv_context* context = nullptr;
    must(rpma_utils_get_ibv_context(address.c_str(), type, &context));
    assert_non_null(context);
    return context;
}

// A peer with a block of memory that may be used for everything.
struct Host {
    explicit Host(unsigned number = 0, int usage = kAllUsages)
        : address(own_address(number)), context(context_of(address)) {
        must(rpma_peer_new(context, &peer));
        must(rpma_mr_reg(peer, block.data(), block.size(), usage, &mr));
    }
    ~Host() {
        assert_int_equal(rpma_mr_dereg(&mr), 0);
        assert_int_equal(rpma_peer_delete(&peer), 0);
    }
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    rpma_mr_remote* as_remote() const {
        std::array<char, 21> descriptor{};
        must(rpma_mr_get_descriptor(mr, descriptor.data()));
        rpma_mr_remote* remote = nullptr;
        must(rpma_mr_remote_from_descriptor(descriptor.data(), descriptor.size(), &remote));
        return remote;
    }

    std::string address;
    ibv_context* context;
    rpma_peer* peer = nullptr;
    alignas(4096) std::array<char, 1 << 16> block{};
    rpma_mr_local* mr = nullptr;
};

// Whether the lab says that its device does nothing by itself.
inline bool is_emulated_in_lab() {
    const char* const native = std::getenv("RPMA_TEST_NATIVE");
    return lab_address() != nullptr && native == nullptr;
}

// What the device does by itself. Only uroce promises persistence for any memory.
struct Natively {
    explicit Natively(const Host& host) {
        ibv_device_attr_ex attr{};
        assert_int_equal(ibv_query_device_ex(host.context, nullptr, &attr), 0);
        flush = (attr.device_cap_flags_ex & 1ULL << 38) != 0;
        persistent_flush = (attr.device_cap_flags_ex & 1ULL << 39) != 0 && lab_address() == nullptr;
        atomic_write = (attr.device_cap_flags_ex & 1ULL << 40) != 0;
    }
    bool flush = false;
    bool persistent_flush = false;
    bool atomic_write = false;
};

struct Config {
    Config() { must(rpma_conn_cfg_new(&cfg)); }
    ~Config() { assert_int_equal(rpma_conn_cfg_delete(&cfg), 0); }
    Config(const Config&) = delete;
    Config& operator=(const Config&) = delete;
    rpma_conn_cfg* cfg = nullptr;
};

inline rpma_conn_event next_event(rpma_conn* conn) {
    int fd = -1;
    must(rpma_conn_get_event_fd(conn, &fd));
    wait_until_readable(fd);
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    must(rpma_conn_next_event(conn, &event));
    return event;
}

struct Listening {
    explicit Listening(const Host& host) : port(next_port()) {
        must(rpma_ep_listen(host.peer, host.address.c_str(), port.c_str(), &ep));
    }
    ~Listening() { assert_int_equal(rpma_ep_shutdown(&ep), 0); }
    Listening(const Listening&) = delete;
    Listening& operator=(const Listening&) = delete;

    rpma_conn_req* next(const rpma_conn_cfg* cfg = nullptr) const {
        int fd = -1;
        must(rpma_ep_get_fd(ep, &fd));
        wait_until_readable(fd);
        rpma_conn_req* request = nullptr;
        must(rpma_ep_next_conn_req(ep, cfg, &request));
        return request;
    }

    std::string port;
    rpma_ep* ep = nullptr;
};

struct Texts {
    std::string from_client;
    std::string from_server;
};

inline const rpma_conn_private_data* as_data(const std::string& text, rpma_conn_private_data& data) {
    if (text.empty()) {
        return nullptr;
    }
    data = {const_cast<char*>(text.data()), static_cast<std::uint8_t>(text.size())}; // NOLINT: not written to
    return &data;
}

// A connection of two hosts, with both ends.
struct Connected {
    explicit Connected(const Host& client_host, const Host& server_host,
                       const rpma_conn_cfg* client_cfg = nullptr, const rpma_conn_cfg* server_cfg = nullptr,
                       const Texts& texts = {}, const std::function<void(rpma_conn_req*)>& before = {}) {
        const Listening listening(server_host);
        rpma_conn_private_data data{};
        rpma_conn_req* request = nullptr;
        must(rpma_conn_req_new(client_host.peer, server_host.address.c_str(), listening.port.c_str(),
                               client_cfg, &request));
        must(rpma_conn_req_connect(&request, as_data(texts.from_client, data), &client));
        request = listening.next(server_cfg);
        if (before) {
            before(request);
        }
        must(rpma_conn_req_connect(&request, as_data(texts.from_server, data), &server));
        assert_null(request);
        assert_int_equal(next_event(client), RPMA_CONN_ESTABLISHED);
        assert_int_equal(next_event(server), RPMA_CONN_ESTABLISHED);
    }
    ~Connected() {
        assert_int_equal(rpma_conn_delete(&client), 0);
        assert_int_equal(rpma_conn_delete(&server), 0);
    }
    Connected(const Connected&) = delete;
    Connected& operator=(const Connected&) = delete;

    rpma_conn* client = nullptr;
    rpma_conn* server = nullptr;
};

inline rpma_cq* cq_of(const rpma_conn* conn) {
    rpma_cq* cq = nullptr;
    must(rpma_conn_get_cq(conn, &cq));
    return cq;
}

// The next completion of CQ, by notification and not by polling.
inline ibv_wc take(rpma_cq* cq) {
    ibv_wc wc{};
    while (true) {
        const int code = rpma_cq_get_wc(cq, 1, &wc, nullptr);
        if (code == 0) {
            return wc;
        }
        assert_int_equal(code, RPMA_E_NO_COMPLETION);
        int fd = -1;
        must(rpma_cq_get_fd(cq, &fd));
        wait_until_readable(fd);
        must(rpma_cq_wait(cq));
    }
}

inline ibv_wc must_complete(rpma_conn* conn, const void* id, int opcode) {
    const ibv_wc wc = take(cq_of(conn));
    if (wc.status != IBV_WC_SUCCESS) {
        fail_msg("%s", ibv_wc_status_str(wc.status));
    }
    assert_int_equal(wc.wr_id, reinterpret_cast<std::uintptr_t>(id));
    assert_int_equal(wc.opcode, opcode);
    return wc;
}

// What CONN hears when its peer's host, and HOST is its own, has burnt down: nobody says goodbye, requests
// aren't answered.
inline void lose_peer(ibv_context* host, const rpma_conn* conn) {
    const auto tell_of_no_answer = [](ibv_cq*, int, ibv_wc* wc) {
        *wc = {};
        wc->status = IBV_WC_RETRY_EXC_ERR;
        return 1;
    };
    const auto before = host->ops.poll_cq;
    host->ops.poll_cq = tell_of_no_answer;
    ibv_wc wc{};
    must(rpma_cq_get_wc(cq_of(conn), 1, &wc, nullptr));
    host->ops.poll_cq = before;
}

inline std::size_t open_descriptors() {
    std::size_t count = 0;
    for (int fd = 0; fd < 1024; ++fd) {
        count += access(("/proc/self/fd/" + std::to_string(fd)).c_str(), F_OK) == 0 ? 1 : 0;
    }
    return count;
}

} // namespace sluice::rpma::test
