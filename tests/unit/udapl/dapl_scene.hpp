// SPDX-License-Identifier: BSD-3-Clause
//
// Two endpoints, one of them in a state that is asked for.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "tests/unit/udapl/dapl_pair.hpp"

namespace sluice::dapl::test {

// Holds up the provider's thread: an agent of the program's runs there. Events of connections wait.
class Gate {
  public:
    Gate() {
        DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        assert_int_equal(dat_cno_create(opened_.ia, {this, hold}, &cno), DAT_SUCCESS);
        assert_int_equal(dat_evd_create(opened_.ia, 1, cno, DAT_EVD_SOFTWARE_FLAG, &evd), DAT_SUCCESS);
        assert_int_equal(post(evd, 1), DAT_SUCCESS);
        is_shut_.wait(false);
    }
    ~Gate() { open(); }
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;

    // Then the agent calls LAST and returns.
    void open(std::function<void()> last = [] {}) {
        if (!is_open_) {
            last_ = std::move(last);
        }
        is_open_ = true;
        is_open_.notify_all();
    }

  private:
    static void hold(DAT_PVOID self, DAT_EVD_HANDLE) {
        auto& gate = *static_cast<Gate*>(self);
        gate.is_shut_ = true;
        gate.is_shut_.notify_all();
        gate.is_open_.wait(false);
        gate.last_();
    }

    std::atomic<bool> is_shut_{false};
    std::atomic<bool> is_open_{false};
    std::function<void()> last_;
    Opened opened_{own_device(2)}; // closed first, when the agent has returned
};

constexpr DAT_CONN_QUAL kReserved = 4711; // of each scene's own address

// Two sides, of which SUBJECT is in the state that is asked for.
struct Scene {
    explicit Scene(DAT_EP_STATE state) {
        switch (state) {
        case DAT_EP_STATE_UNCONNECTED:
            break;
        case DAT_EP_STATE_RESERVED:
            reserve();
            break;
        case DAT_EP_STATE_PASSIVE_CONNECTION_PENDING:
            reserve();
            assert_int_equal(pair.active.connect_to(pair.address(), kReserved), DAT_SUCCESS);
            request = pair.request();
            break;
        case DAT_EP_STATE_ACTIVE_CONNECTION_PENDING:
            pair.ask();
            break;
        case DAT_EP_STATE_COMPLETION_PENDING:
            pair.ask();
            accept_behind_the_gate();
            break;
        case DAT_EP_STATE_CONNECTED:
            pair.connect();
            break;
        case DAT_EP_STATE_DISCONNECT_PENDING:
            pair.connect();
            assert_int_equal(pair.active.send(0, 1), DAT_SUCCESS); // the peer isn't ready to receive
            assert_int_equal(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
            break;
        case DAT_EP_STATE_DISCONNECTED:
            pair.connect();
            assert_int_equal(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
            pair.active.must_hear(DAT_CONNECTION_EVENT_DISCONNECTED);
            break;
        default:
            fail_msg("no way to state %d", state);
        }
        assert_int_equal(subject->state(), state);
    }
    void reserve() {
        subject = &pair.passive;
        assert_int_equal(
            dat_rsp_create(pair.passive.opened.ia, kReserved, subject->ep, subject->connections, &rsp),
            DAT_SUCCESS);
    }
    void accept_behind_the_gate() {
        request = pair.request();
        gate = std::make_unique<Gate>();
        subject = &pair.passive;
        assert_int_equal(dat_cr_accept(request, pair.passive.ep, 0, nullptr), DAT_SUCCESS);
    }

    Pair pair;
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    DAT_CR_HANDLE request = DAT_HANDLE_NULL;
    DAT_EP_HANDLE connected = DAT_HANDLE_NULL; // of others, for who needs one
    std::unique_ptr<Gate> gate;                // opened before the sides are closed
    Side* subject = &pair.active;
};

} // namespace sluice::dapl::test
