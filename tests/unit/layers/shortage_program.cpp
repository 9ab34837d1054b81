// SPDX-License-Identifier: BSD-3-Clause
//
// A program of rdma_cm under `sluice run`. What Sluice asks for, memory and the like, fails one request after
// another: each call answers with an errno or does without, and can be made again. Both ends are in one
// process.
#include <infiniband/verbs.h>
#include <link.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#define SLUICE_SHORTAGE_WITHOUT_FILES
#include "tests/loopback.hpp"
#include "tests/unit/shortage.hpp"
#include "tests/unit/shortage_sweep.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using sluice::test::after;
using sluice::test::is_counted;
using sluice::test::is_errno_of_shortage;
using sluice::test::Sweep;
using sluice::test::until_failure;

namespace {

// Where the code of Sluice's libraries is. libibverbs and librdmacm have paths of their own to fail on.
struct Code {
    std::uintptr_t first = 0;
    std::uintptr_t end = 0;
};
std::vector<Code> code_of_sluice;

int note_library(dl_phdr_info* info, std::size_t, void*) {
    if (std::string_view(info->dlpi_name).find("libsluice") == std::string_view::npos) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = info->dlpi_phdr[i];
        if (part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0) {
            const std::uintptr_t first = info->dlpi_addr + part.p_vaddr;
            code_of_sluice.push_back({first, first + part.p_memsz});
        }
    }
    return 0;
}

bool is_in_sluice(const void* address) noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return std::ranges::any_of(code_of_sluice,
                               [&](const Code& code) { return at >= code.first && at < code.end; });
}

// Whether Sluice asks, and not a library that it has called back into.
bool is_asked_by_sluice() noexcept {
    std::array<void*, 12> callers{};
    const int failure = std::exchange(until_failure, -1); // the first call of it allocates
    const int count = backtrace(callers.data(), static_cast<int>(callers.size()));
    until_failure = failure;
    return std::any_of(callers.begin(), callers.begin() + count, is_in_sluice);
}

// librdmacm's -1 and errno, or an error itself.
int error_of(int result) {
    return result == -1 ? errno : result;
}

void must(int result) {
    if (result != 0) {
        fail_msg("%s", std::strerror(error_of(result)));
    }
}

void sweep(const char* what, const std::function<int()>& make, const std::function<void()>& undo,
           int step = 1) {
    Sweep{.what = what,
          .make = [&] { return error_of(make()); },
          .undo = undo,
          .is_shortage = is_errno_of_shortage,
          .keeps_memory = true,
          .step = step}
        .run();
}

sockaddr_in address_with(std::uint16_t port) {
    sockaddr_in made{};
    made.sin_family = AF_INET;
    made.sin_port = htons(port);
    assert_int_equal(inet_pton(AF_INET, sluice::test::own_address().c_str(), &made.sin_addr), 1);
    return made;
}

struct Channel {
    Channel() : events(rdma_create_event_channel()) { assert_non_null(events); }
    ~Channel() { rdma_destroy_event_channel(events); }
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    rdma_cm_id* make_id() const {
        rdma_cm_id* made = nullptr;
        must(rdma_create_id(events, &made, nullptr, RDMA_PS_TCP));
        return made;
    }
    void wait() const {
        pollfd waiting{.fd = events->fd, .events = POLLIN, .revents = 0};
        assert_int_equal(poll(&waiting, 1, -1), 1);
    }
    // What it is about; it is acknowledged.
    rdma_cm_id* must_hear(rdma_cm_event_type wanted) const {
        rdma_cm_event* event = nullptr;
        wait();
        must(rdma_get_cm_event(events, &event));
        if (event->event != wanted) {
            fail_msg("%s instead of %s", rdma_event_str(event->event), rdma_event_str(wanted));
        }
        rdma_cm_id* const id = event->id;
        must(rdma_ack_cm_event(event));
        return id;
    }

    rdma_event_channel* events;
};

int resolve(const Channel& channel, rdma_cm_id* id, sockaddr_in& to) {
    if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 2000) != 0) {
        return -1;
    }
    const int failure = std::exchange(until_failure, -1);
    channel.must_hear(RDMA_CM_EVENT_ADDR_RESOLVED);
    until_failure = failure;
    return 0;
}

void resolve_all(const Channel& channel, rdma_cm_id* id, sockaddr_in& to) {
    must(resolve(channel, id, to));
    must(rdma_resolve_route(id, 2000));
    channel.must_hear(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

int make_qp(rdma_cm_id* id) {
    ibv_qp_init_attr attr{};
    attr.cap = {8, 8, 1, 1, 0};
    attr.qp_type = IBV_QPT_RC;
    return rdma_create_qp(id, nullptr, &attr);
}

void destroy(rdma_cm_id*& id) {
    if (id == nullptr) {
        return;
    }
    if (id->qp != nullptr) {
        rdma_destroy_qp(id);
    }
    must(rdma_destroy_id(std::exchange(id, nullptr)));
}

struct Listening {
    explicit Listening(std::uint16_t port) : address(address_with(port)), id(channel.make_id()) {
        must(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)));
        must(rdma_listen(id, 8));
    }
    ~Listening() { destroy(id); }
    Listening(const Listening&) = delete;
    Listening& operator=(const Listening&) = delete;

    Channel channel;
    sockaddr_in address;
    rdma_cm_id* id;
};

TEST(devices__nothing_to_be_had__told_and_possible_again) {
    ibv_device** list = nullptr;
    sweep(
        "ibv_get_device_list", [&] { return (list = ibv_get_device_list(nullptr)) != nullptr ? 0 : -1; },
        [&] { ibv_free_device_list(list); }, sluice::test::stride(7));
    list = ibv_get_device_list(nullptr);
    assert_non_null(list);
    assert_non_null(list[0]);
    ibv_context* context = nullptr;
    sweep(
        "ibv_open_device", [&] { return (context = ibv_open_device(list[0])) != nullptr ? 0 : -1; },
        [&] { must(ibv_close_device(context)); }, sluice::test::stride(7));
    context = ibv_open_device(list[0]);
    assert_non_null(context);
    ibv_comp_channel* channel = nullptr;
    sweep(
        "ibv_create_comp_channel",
        [&] { return (channel = ibv_create_comp_channel(context)) != nullptr ? 0 : -1; },
        [&] { must(ibv_destroy_comp_channel(channel)); });
    must(ibv_close_device(context));
    ibv_free_device_list(list);
}

TEST(ids__nothing_to_be_had__told_and_possible_again) {
    rdma_event_channel* events = nullptr;
    sweep(
        "rdma_create_event_channel",
        [&] { return (events = rdma_create_event_channel()) != nullptr ? 0 : -1; },
        [&] { rdma_destroy_event_channel(events); }, sluice::test::stride(7)); // which looks for devices
    const Channel channel;
    rdma_cm_id* id = nullptr;
    sweep(
        "rdma_create_id", [&] { return rdma_create_id(channel.events, &id, nullptr, RDMA_PS_TCP); },
        [&] { destroy(id); });
    const auto make_id = [&] {
        destroy(id);
        id = channel.make_id();
    };
    sockaddr_in address = address_with(7471);
    const auto bind_it = [&] { return rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)); };
    sweep(
        "rdma_bind_addr", [&] { return after(make_id, bind_it); }, [&] { destroy(id); });
    const auto make_bound = [&] {
        make_id();
        must(bind_it());
    };
    Sweep{.what = "rdma_listen",
          .make = [&] { return after(make_bound, [&] { return error_of(rdma_listen(id, 8)); }); },
          .undo = [&] { destroy(id); },
          .is_shortage = is_errno_of_shortage,
          .asks_for_nothing = true,
          .keeps_memory = true}
        .run();
    destroy(id);
}

TEST(ways__nothing_to_be_had__told_and_possible_again) {
    Listening listening(7472);
    const Channel channel;
    rdma_cm_id* id = nullptr;
    const auto make_id = [&] {
        destroy(id);
        id = channel.make_id();
    };
    sweep(
        "rdma_resolve_addr",
        [&] { return after(make_id, [&] { return resolve(channel, id, listening.address); }); },
        [&] { destroy(id); });
    const auto make_resolved = [&] {
        make_id();
        must(resolve(channel, id, listening.address));
    };
    sweep(
        "rdma_resolve_route",
        [&] { return after(make_resolved, [&] { return rdma_resolve_route(id, 2000); }); },
        [&] {
            channel.must_hear(RDMA_CM_EVENT_ROUTE_RESOLVED);
            destroy(id);
        });
    const auto make_with_way = [&] {
        make_id();
        resolve_all(channel, id, listening.address);
    };
    sweep(
        "rdma_create_qp", [&] { return after(make_with_way, [&] { return make_qp(id); }); },
        [&] { destroy(id); });
    destroy(id);
}

// A request that a listener has no memory for is refused or repeated by its peer.
TEST(connections__nothing_to_be_had__told_and_possible_again) {
    Listening listening(7473);
    const Channel channel;
    rdma_cm_id* active = nullptr;
    rdma_cm_id* passive = nullptr;
    rdma_conn_param param{};
    param.retry_count = param.rnr_retry_count = 7;
    const auto prepare = [&] {
        destroy(passive);
        destroy(active);
        active = channel.make_id();
        resolve_all(channel, active, listening.address);
        must(make_qp(active));
    };
    const auto connect = [&] { return rdma_connect(active, &param); };
    const auto take_request = [&] {
        passive = listening.channel.must_hear(RDMA_CM_EVENT_CONNECT_REQUEST);
        must(make_qp(passive));
    };
    const auto accept = [&] { return rdma_accept(passive, &param); };
    const auto end = [&] {
        channel.must_hear(RDMA_CM_EVENT_ESTABLISHED);
        listening.channel.must_hear(RDMA_CM_EVENT_ESTABLISHED);
        must(rdma_disconnect(active));
        listening.channel.must_hear(RDMA_CM_EVENT_DISCONNECTED);
        must(rdma_disconnect(passive));
        channel.must_hear(RDMA_CM_EVENT_DISCONNECTED);
        destroy(passive);
        destroy(active);
    };
    sweep(
        "rdma_connect", [&] { return after(prepare, connect); },
        [&] {
            take_request();
            must(accept());
            end();
        });
    const auto ask = [&] {
        prepare();
        must(connect());
        take_request();
    };
    sweep(
        "rdma_accept", [&] { return after(ask, accept); }, end);
    // A request that librdmacm can't take is one that it rejects, and then it goes on to the next event, of
    // which there is none. What Sluice has no memory for waits.
    must(fcntl(listening.channel.events->fd, F_SETFL, O_NONBLOCK));
    rdma_cm_event* event = nullptr;
    const auto take = [&] {
        const bool may_fail = until_failure >= 0;
        int error = error_of(rdma_get_cm_event(listening.channel.events, &event));
        while (!may_fail && error == EAGAIN) { // what was there was about an id that is gone
            listening.channel.wait();
            error = error_of(rdma_get_cm_event(listening.channel.events, &event));
        }
        const int failure = std::exchange(until_failure, -1);
        while (error != 0 && rdma_get_cm_event(listening.channel.events, &event) == 0) {
            rdma_cm_id* refused = event->id;
            must(rdma_ack_cm_event(event));
            destroy(refused);
        }
        until_failure = failure;
        return error;
    };
    const auto ask_and_wait = [&] {
        prepare();
        must(connect());
        listening.channel.wait();
    };
    sweep(
        "rdma_get_cm_event", [&] { return after(ask_and_wait, take); },
        [&] {
            passive = event->id;
            must(rdma_ack_cm_event(event));
            must(make_qp(passive));
            must(accept());
            end();
        });
    destroy(active);
}

// Whichever of both channels has something; it is acknowledged, and the id of a request kept.
rdma_cm_event_type next_of(const Channel& first, const Channel& second, rdma_cm_id*& passive) {
    std::array<pollfd, 2> waiting{{{first.events->fd, POLLIN, 0}, {second.events->fd, POLLIN, 0}}};
    assert_true(poll(waiting.data(), waiting.size(), -1) > 0);
    rdma_cm_event* event = nullptr;
    must(rdma_get_cm_event((waiting[0].revents != 0 ? first : second).events, &event));
    const rdma_cm_event_type type = event->event;
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        passive = event->id;
    }
    must(rdma_ack_cm_event(event));
    return type;
}

// A listener's thread may have no memory for a request: it is refused, or sent again.
TEST(threads__nothing_to_be_had__connections_come_or_are_refused) {
    Listening listening(7474);
    const Channel channel;
    int refused = 0;
    sluice::test::sweep_elsewhere("a connection", [&] {
        rdma_cm_id* active = channel.make_id();
        rdma_cm_id* passive = nullptr;
        resolve_all(channel, active, listening.address);
        must(make_qp(active));
        rdma_conn_param param{};
        param.retry_count = param.rnr_retry_count = 7;
        must(rdma_connect(active, &param));
        rdma_cm_event_type event = next_of(channel, listening.channel, passive);
        if (event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            must(make_qp(passive));
            must(rdma_accept(passive, &param));
            event = next_of(channel, listening.channel, passive);
        }
        assert_true(event == RDMA_CM_EVENT_ESTABLISHED || event == RDMA_CM_EVENT_REJECTED);
        refused += event == RDMA_CM_EVENT_REJECTED ? 1 : 0;
        destroy(active);
        destroy(passive);
    });
    print_message("%d were refused\n", refused);
}

} // namespace

int main() {
    // So that what is made once is made.
    { const Listening first(7470); }
    dl_iterate_phdr(note_library, nullptr);
    if (code_of_sluice.empty()) {
        std::fprintf(stderr, "start this by sluice run\n");
        return 1;
    }
    is_counted = is_asked_by_sluice;
    return sluice::test::run_all_tests();
}
