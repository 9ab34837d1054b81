// SPDX-License-Identifier: BSD-3-Clause
//
// Usage: glue use DEVICE NETDEV ADDRESS      who has which name, connections with data over them, and
//                                            rejections; NETDEV may be - for none
//
// ibverbs-glue on a device: on uroce anywhere, on those of the kernel in the lab. Both ends are in
// this process, and one loop takes the events of both.
#include <poll.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "ibverbs-glue/connection.hpp"
#include "ibverbs-glue/devices.hpp"
#include "ibverbs-glue/netlink.hpp"

namespace {

using namespace sluice::glue;
using sluice::ErrorKind;
using sluice::Result;

constexpr int kPatienceMs = 20000;
constexpr std::size_t kBytes = 8192;
int failures = 0;

void check(bool holds, const std::string& what) {
    std::printf("%s: %s\n", holds ? "ok" : "FAILED", what.c_str());
    failures += holds ? 0 : 1;
}

// The value, or the end of the test.
template<typename T>
T must(Result<T> result, const char* what) {
    if (!result) {
        std::printf("FAILED: %s: %s (%d)\n", what, result.error().text(), result.error().os_errno());
        std::exit(1);
    }
    if constexpr (!std::is_void_v<T>) {
        return *std::move(result);
    }
}

// Waits until FD is readable; the end of the test when it never is.
void wait_for(int fd, const char* what) {
    pollfd wanted{fd, POLLIN, 0};
    if (poll(&wanted, 1, kPatienceMs) != 1) {
        std::printf("FAILED: %s does not come\n", what);
        std::exit(1);
    }
}

ConnectionEvent next(ConnectionService& service, const char* what) {
    while (true) {
        std::optional<ConnectionEvent> event = must(service.next_event(), what);
        if (event) {
            return std::move(*event);
        }
        wait_for(service.fd(), what);
    }
}

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

bool begins_with(const std::vector<std::byte>& data, const std::string& text) {
    return data.size() >= text.size() && std::memcmp(data.data(), text.data(), text.size()) == 0;
}

// One end of a connection, with memory that the other may read and write.
struct End {
    explicit End(const Context& context, const ProtectionDomain& pd)
        : channel(must(CompletionChannel::make(context), "completion channel")),
          queue(must(CompletionQueue::make(context, 16, this, &channel), "completion queue")),
          qp(make_qp(pd, queue)),
          region(must(
              MemoryRegion::make(pd, memory.data(), memory.size(), iova(context),
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ),
              "memory region")),
          address(iova(context)) {
        must(qp.to_init(1, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ), "INIT");
    }

    // iWARP's software device ignores it.
    std::uint64_t iova(const Context& context) {
        const auto address_here = reinterpret_cast<std::uintptr_t>(memory.data());
        return context.is_iwarp() ? address_here : 0x100000 + address_here % 4096;
    }

    static QueuePair make_qp(const ProtectionDomain& pd, const CompletionQueue& queue) {
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = queue.get();
        attributes.cap = {8, 8, 1, 1, 0};
        attributes.qp_type = IBV_QPT_RC;
        attributes.sq_sig_all = 1;
        return must(QueuePair::make(pd, attributes), "queue pair");
    }

    ibv_sge piece(std::size_t offset, std::size_t length) const {
        return {address + offset, static_cast<std::uint32_t>(length), region.local_key()};
    }

    void post_recv() {
        ibv_sge sge = piece(0, kBytes);
        ibv_recv_wr request{};
        request.wr_id = 7;
        request.sg_list = &sge;
        request.num_sge = 1;
        ibv_recv_wr* bad = nullptr;
        check(qp.post_recv(&request, &bad) == 0, "a receive is posted");
    }

    void post(ibv_wr_opcode opcode, const End& peer, std::size_t offset, std::size_t length) {
        ibv_sge sge = piece(offset, length);
        ibv_send_wr request{};
        request.wr_id = 9;
        request.sg_list = &sge;
        request.num_sge = 1;
        request.opcode = opcode;
        request.wr.rdma.remote_addr = peer.address + offset;
        request.wr.rdma.rkey = peer.region.remote_key();
        ibv_send_wr* bad = nullptr;
        check(qp.post_send(&request, &bad) == 0, "a request is posted");
    }

    // The next completion, by notification and not by polling.
    ibv_wc_status complete(const char* what) {
        ibv_wc completion{};
        while (true) {
            check(queue.arm(false) == 0, std::string(what) + ": armed");
            const int count = queue.poll(&completion, 1);
            if (count != 0) {
                return count == 1 ? completion.status : IBV_WC_GENERAL_ERR;
            }
            wait_for(channel.fd(), what);
            const auto [owner, error] = channel.next_owner();
            check(error == 0, std::string(what) + ": the notification is taken");
            check(owner == this || owner == nullptr, std::string(what) + ": the queue's owner is told");
        }
    }

    void fill(int seed) {
        for (std::size_t i = 0; i < memory.size(); ++i) {
            memory[i] = static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(seed));
        }
    }

    std::array<std::uint8_t, kBytes> memory{};
    CompletionChannel channel;
    CompletionQueue queue;
    QueuePair qp;
    MemoryRegion region;
    std::uint64_t address;
    std::unique_ptr<Connection> connection;
};

void check_names(const std::string& name, const std::string& netdev, const std::string& address) {
    for (const std::string& each : {name, netdev, address}) {
        if (each.empty()) {
            continue;
        }
        const Device found = must(resolve_device(each), each.c_str());
        check(found.name == name && found.netdev == netdev, each + " is the device, over its interface");
    }
    check(resolve_device("192.0.2.99").error().kind() == ErrorKind::kNotFound,
          "an address of nobody's finds nobody");
    check(Context::open("no-such-device").error().kind() == ErrorKind::kNotFound,
          "no such device can't be opened");
}

void check_data(End& active, End& passive) {
    active.fill(1);
    passive.fill(2);
    active.post(IBV_WR_RDMA_WRITE, passive, 100, 5000);
    check(active.complete("RDMA write") == IBV_WC_SUCCESS, "RDMA write completes");
    check(std::memcmp(active.memory.data() + 100, passive.memory.data() + 100, 5000) == 0 &&
              passive.memory[99] == static_cast<std::uint8_t>(99 * 7 + 2) &&
              passive.memory[5100] == static_cast<std::uint8_t>(5100 * 7 + 2),
          "RDMA write changes what it shall, and nothing else");
    passive.fill(3);
    active.post(IBV_WR_RDMA_READ, passive, 200, 4000);
    check(active.complete("RDMA read") == IBV_WC_SUCCESS, "RDMA read completes");
    check(std::memcmp(active.memory.data() + 200, passive.memory.data() + 200, 4000) == 0 &&
              active.memory[199] == static_cast<std::uint8_t>(199 * 7 + 1),
          "RDMA read brings what is there");
    passive.post(IBV_WR_SEND, active, 0, 3000);
    check(passive.complete("send") == IBV_WC_SUCCESS, "send completes");
    check(active.complete("receive") == IBV_WC_SUCCESS, "receive completes");
    check(std::memcmp(active.memory.data(), passive.memory.data(), 3000) == 0, "what was sent is received");
}

void check_connection(ConnectionService& service, const Context& context, const ProtectionDomain& pd,
                      const Address& address) {
    End active(context, pd);
    End passive(context, pd);
    int listener_owner = 0;
    const auto listener = must(service.listen(0, 8, &listener_owner), "listening");
    check(listener->port() != 0, "the listener has a port");
    check(service.listen(listener->port(), 8, nullptr).error().kind() == ErrorKind::kExists,
          "a port that is taken can't be had");
    active.post_recv();
    active.connection = must(service.make_connection(&active), "a connection");
    const std::string hello = "hello";
    const std::string welcome = "welcome";
    must(active.connection->connect(address.with_port(listener->port()), active.qp,
                                    {.private_data = bytes_of(hello), .reads_in = 4, .reads_out = 4}),
         "connecting");
    ConnectionEvent event = next(service, "the request");
    check(event.kind == ConnectionEventKind::kRequest && event.owner == &listener_owner &&
              event.request != nullptr,
          "the listener's owner gets a request");
    check(begins_with(event.private_data, hello), "with the private data of connect");
    passive.connection = std::move(event.request);
    passive.connection->set_owner(&passive);
    check(active.connection->local_port() == passive.connection->peer_address().port(),
          "who asks knows its own port");
    check(passive.connection->local_address().port() == listener->port() &&
              passive.connection->local_port() == listener->port() &&
              passive.connection->peer_address().is_same_host(address),
          "the request tells both addresses");
    must(passive.connection->accept(passive.qp,
                                    {.private_data = bytes_of(welcome), .reads_in = 4, .reads_out = 4}),
         "accepting");
    for (int i = 0; i < 2; ++i) {
        event = next(service, "the connection");
        check(event.kind == ConnectionEventKind::kEstablished, "a side is connected");
        if (event.owner == &active) {
            check(begins_with(event.private_data, welcome), "with the private data of accept");
        } else {
            check(event.owner == &passive, "or the other side is");
        }
    }
    check_data(active, passive);
    passive.post_recv();
    must(active.connection->disconnect(), "disconnecting");
    for (int i = 0; i < 2; ++i) {
        do {
            event = next(service, "the end");
        } while (event.kind == ConnectionEventKind::kTimedWait);
        check(event.kind == ConnectionEventKind::kDisconnected, "a side is disconnected");
    }
    check(passive.complete("flush") == IBV_WC_WR_FLUSH_ERR, "what was posted is flushed");
    must(passive.qp.to_reset(), "RESET");
    ibv_qp_attr attributes{};
    ibv_qp_init_attr initial{};
    check(ibv_query_qp(passive.qp.get(), &attributes, IBV_QP_STATE, &initial) == 0 &&
              attributes.qp_state == IBV_QPS_RESET,
          "the queue pair is as new");
}

void check_rejection(ConnectionService& service, const Context& context, const ProtectionDomain& pd,
                     const Address& address) {
    End active(context, pd);
    const std::string no = "not today";
    {
        const auto listener = must(service.listen(0, 8, nullptr), "listening");
        active.connection = must(service.make_connection(&active), "a connection");
        must(active.connection->connect(address.with_port(listener->port()), active.qp, {}), "connecting");
        ConnectionEvent event = next(service, "the request");
        must(event.request->reject(bytes_of(no)), "rejecting");
        event = next(service, "the rejection");
        check(event.kind == ConnectionEventKind::kRejected && event.by_the_program && event.owner == &active,
              "a program's rejection is told as one");
        check(begins_with(event.private_data, no), "with the private data of reject");
    }
    active.connection = must(service.make_connection(&active), "a connection");
    must(active.connection->connect(address.with_port(4), active.qp, {}), "connecting");
    const ConnectionEvent event = next(service, "the refusal");
    check(event.kind == ConnectionEventKind::kRejected && !event.by_the_program,
          "nobody listening is told as that");
    const std::string too_long(service.limits().connect + 1, 'x');
    active.connection = must(service.make_connection(&active), "a connection");
    check(active.connection->connect(address, active.qp, {.private_data = bytes_of(too_long)})
                  .error()
                  .os_errno() == EMSGSIZE,
          "private data that doesn't fit is refused");
}

// An event queue for each connection, as libraries have it that give their programs one.
void check_moving(ConnectionService& service, const Context& context, const ProtectionDomain& pd,
                  const Address& address) {
    End active(context, pd);
    End passive(context, pd);
    const auto own_of_active = must(open_connections(context, Address()), "a service without an address");
    const auto own_of_passive = must(open_connections(context, address), "another service");
    const auto listener = must(service.listen(0, 8, nullptr), "listening");
    const Address to = address.with_port(listener->port());
    active.connection = must(own_of_active->make_connection(&active), "a connection");
    check(!active.connection->resolve(Address(), kPatienceMs).ok(), "no address can't be resolved");
    check(!active.connection->start_resolving(Address(), kPatienceMs).ok(), "nor can it be without waiting");
    must(active.connection->resolve(to, kPatienceMs), "resolving before connecting");
    must(active.connection->connect(to, active.qp, {.has_flow_control = true}), "connecting");
    passive.connection = next(service, "the request").request;
    passive.connection->set_owner(&passive);
    must(passive.connection->move_to(*own_of_passive), "moving");
    must(passive.connection->accept(passive.qp, {}), "accepting");
    check(next(*own_of_active, "one side").owner == &active, "the active side has a queue of its own");
    check(next(*own_of_passive, "the other side").owner == &passive, "and so has the passive side");
    check(!must(service.next_event(), "former service").has_value(), "the former service hears nothing");
    must(passive.connection->disconnect(), "disconnecting");
    check(next(*own_of_active, "the end").kind == ConnectionEventKind::kDisconnected, "a side is told");
    active.connection.reset();
    passive.connection.reset();
}

// The way is found by events, where it has to be found.
void check_resolving(ConnectionService& service, const Context& context, const ProtectionDomain& pd,
                     const Address& address) {
    End active(context, pd);
    const auto listener = must(service.listen(0, 8, nullptr), "listening");
    const Address to = address.with_port(listener->port());
    active.connection = must(service.make_connection(&active), "a connection");
    if (!must(active.connection->start_resolving(to, kPatienceMs), "resolving without waiting")) {
        for (const ConnectionEventKind step :
             {ConnectionEventKind::kAddressFound, ConnectionEventKind::kPathFound}) {
            const ConnectionEvent event = next(service, "a step");
            check(event.kind == step && event.owner == &active, "the steps come in their order");
        }
    }
    must(active.connection->connect(to, active.qp, {}), "connecting");
    ConnectionEvent event = next(service, "the request");
    check(event.kind == ConnectionEventKind::kRequest, "the peer is asked");
    must(event.request->reject({}), "rejecting");
    check(next(service, "the rejection").kind == ConnectionEventKind::kRejected, "and answers");
}

void check_objects(const Context& context, const ProtectionDomain& pd) {
    const ibv_device_attr_ex attributes = must(context.query_device(), "device attributes");
    check(attributes.orig_attr.max_qp > 0, "the device has attributes");
    check(must(context.query_port(1), "port attributes").state == IBV_PORT_ACTIVE, "the port is active");
    check(!must(context.next_async_event(), "asynchronous events").has_value(), "nothing has happened");
    ibv_srq_init_attr wanted{};
    wanted.attr = {16, 1, 0};
    const SharedReceiveQueue srq = must(SharedReceiveQueue::make(pd, wanted), "shared receive queue");
    const Result<ibv_srq_attr> holds = srq.query();
    check(holds ? holds->max_wr >= 16 : holds.error().kind() == ErrorKind::kNotSupported,
          "it holds what was asked for, or its provider can't tell");
    const CompletionQueue queue =
        must(CompletionQueue::make(context, 4, nullptr, nullptr), "completion queue");
    const Result<void> resized = queue.resize(64);
    check(resized ? queue.entries() >= 64 : resized.error().kind() == ErrorKind::kNotSupported,
          "a completion queue grows, or its device can't");
    const Result<MemoryWindow> window = MemoryWindow::make(pd, IBV_MW_TYPE_1);
    check(window.ok() || window.error().kind() == ErrorKind::kNotSupported,
          "a window is made, or there are none");
    const Result<MemoryRegion> wild = MemoryRegion::make(pd, nullptr, 4096, 0, IBV_ACCESS_LOCAL_WRITE);
    check(!wild.ok(), "memory that isn't there can't be registered");
}

void use(const char* name, const std::string& netdev, const char* ip) {
    check_names(name, netdev, ip);
    const Context context = must(Context::open(name), "opening");
    const ProtectionDomain pd = must(ProtectionDomain::make(context), "protection domain");
    const Address address = must(resolve_device(name), "resolving").addresses.front();
    check(address.to_string() == ip, "the device's address is its first");
    check_objects(context, pd);
    const auto service = must(open_connections(context, address), "connection manager");
    check(!must(service->next_event(), "events").has_value(), "no event waits");
    check_connection(*service, context, pd, address);
    check_moving(*service, context, pd, address);
    check_resolving(*service, context, pd, address);
    check_rejection(*service, context, pd, address);
}

} // namespace

int main(int argc, char** argv) {
    const std::string what = argc == 5 ? argv[1] : "";
    if (what == "use") {
        use(argv[2], argv[3], argv[4]);
    } else {
        std::fprintf(stderr, "usage: %s use DEVICE NETDEV ADDRESS\n", argv[0]);
        return 2;
    }
    return failures == 0 ? 0 : 1;
}
