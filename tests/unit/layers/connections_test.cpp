// SPDX-License-Identifier: BSD-3-Clause
//
// librdmacm as it is, over uroce: both sides in one process, on one device.
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/cmocka.hpp"
#include "tests/unit/layers/own_device.hpp"

using namespace sluice::layers::preload::test;

namespace {

using Channel =
    std::unique_ptr<rdma_event_channel,
                    decltype([](rdma_event_channel* channel) { rdma_destroy_event_channel(channel); })>;
using Id = std::unique_ptr<rdma_cm_id, decltype([](rdma_cm_id* id) {
                               if (id->qp != nullptr) {
                                   rdma_destroy_qp(id);
                               }
                               assert_int_equal(rdma_destroy_id(id), 0);
                           })>;
using Event =
    std::unique_ptr<rdma_cm_event, decltype([](rdma_cm_event* event) { rdma_ack_cm_event(event); })>;

constexpr std::uint8_t kPrivateBytes = 56;

Id make_id(const Channel& channel, rdma_port_space port_space = RDMA_PS_TCP, void* context = nullptr) {
    rdma_cm_id* id = nullptr;
    assert_int_equal(rdma_create_id(channel.get(), &id, context, port_space), 0);
    assert_ptr_equal(id->context, context);
    return Id(id);
}

sockaddr_in address_at(__be16 port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = port;
    assert_int_equal(inet_pton(AF_INET, own_address().c_str(), &address.sin_addr), 1);
    return address;
}

sockaddr* any(sockaddr_in& address) {
    return reinterpret_cast<sockaddr*>(&address);
}

Event next(const Channel& channel, rdma_cm_event_type type) {
    rdma_cm_event* event = nullptr;
    assert_int_equal(rdma_get_cm_event(channel.get(), &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    return Event(event);
}

// Listening on a port that was free.
Id make_listener(const Channel& channel, rdma_port_space port_space = RDMA_PS_TCP, void* context = nullptr) {
    Id listener = make_id(channel, port_space, context);
    sockaddr_in address = address_at(0);
    assert_int_equal(rdma_bind_addr(listener.get(), any(address)), 0);
    assert_non_null(listener->verbs);
    assert_int_equal(rdma_listen(listener.get(), 4), 0);
    assert_int_not_equal(rdma_get_src_port(listener.get()), 0);
    return listener;
}

void make_queue_pair(rdma_cm_id* id) {
    ibv_qp_init_attr attributes{};
    attributes.cap = {
        .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    attributes.qp_type = id->qp_type;
    attributes.sq_sig_all = 1;
    assert_int_equal(rdma_create_qp(id, nullptr, &attributes), 0);
    assert_non_null(id->qp);
    assert_non_null(id->send_cq);
}

Id make_resolved(const Channel& channel, __be16 port, rdma_port_space port_space = RDMA_PS_TCP) {
    Id id = make_id(channel, port_space);
    sockaddr_in peer = address_at(port);
    assert_int_equal(rdma_resolve_addr(id.get(), nullptr, any(peer), 1000), 0);
    assert_ptr_equal(next(channel, RDMA_CM_EVENT_ADDR_RESOLVED)->id, id.get());
    assert_int_equal(rdma_resolve_route(id.get(), 1000), 0);
    assert_ptr_equal(next(channel, RDMA_CM_EVENT_ROUTE_RESOLVED)->id, id.get());
    assert_int_equal(rdma_get_dst_port(id.get()), port);
    make_queue_pair(id.get());
    return id;
}

rdma_conn_param parameters(std::string_view private_data) {
    rdma_conn_param wanted{};
    wanted.private_data = private_data.data();
    wanted.private_data_len = static_cast<std::uint8_t>(private_data.size());
    wanted.responder_resources = wanted.initiator_depth = 3;
    wanted.retry_count = wanted.rnr_retry_count = 7;
    return wanted;
}

struct Pair {
    Channel channel{rdma_create_event_channel()};
    Channel peers_channel{rdma_create_event_channel()};
    Id listener = make_listener(channel, RDMA_PS_TCP, this);
    Id passive;
    Id active;

    Pair() {
        active = make_resolved(peers_channel, rdma_get_src_port(listener.get()));
        rdma_conn_param wanted = parameters("who");
        assert_int_equal(rdma_connect(active.get(), &wanted), 0);
        {
            const Event request = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
            assert_ptr_equal(request->listen_id, listener.get());
            assert_ptr_equal(request->id->context, this);
            assert_ptr_equal(request->id->verbs, listener->verbs);
            assert_int_equal(request->param.conn.private_data_len, kPrivateBytes);
            assert_memory_equal(request->param.conn.private_data, "who", 4);
            assert_int_equal(request->param.conn.responder_resources, 3);
            assert_int_equal(rdma_get_src_port(request->id), rdma_get_src_port(listener.get()));
            assert_int_equal(rdma_get_dst_port(request->id), rdma_get_src_port(active.get()));
            passive.reset(request->id);
        }
        make_queue_pair(passive.get());
        wanted = parameters("me");
        assert_int_equal(rdma_accept(passive.get(), &wanted), 0);
        const Event done = next(peers_channel, RDMA_CM_EVENT_ESTABLISHED);
        assert_memory_equal(done->param.conn.private_data, "me", 3);
        (void)next(channel, RDMA_CM_EVENT_ESTABLISHED);
    }
};

void send_one(rdma_cm_id* from, rdma_cm_id* to) {
    std::array<char, 16> sent{"over uroce"};
    std::array<char, 16> received{};
    ibv_mr* const source = rdma_reg_msgs(from, sent.data(), sent.size());
    ibv_mr* const target = rdma_reg_msgs(to, received.data(), received.size());
    assert_true(source != nullptr && target != nullptr);
    ibv_wc completion{};
    assert_int_equal(rdma_post_recv(to, nullptr, received.data(), received.size(), target), 0);
    assert_int_equal(rdma_post_send(from, nullptr, sent.data(), sent.size(), source, 0), 0);
    assert_int_equal(rdma_get_send_comp(from, &completion), 1);
    assert_int_equal(completion.status, IBV_WC_SUCCESS);
    assert_int_equal(rdma_get_recv_comp(to, &completion), 1);
    assert_int_equal(completion.status, IBV_WC_SUCCESS);
    assert_memory_equal(sent.data(), received.data(), sent.size());
    assert_int_equal(rdma_dereg_mr(source), 0);
    assert_int_equal(rdma_dereg_mr(target), 0);
}

TEST(connect__both_sides__data_moves_and_the_end_is_told_to_both) {
    Pair pair;
    send_one(pair.active.get(), pair.passive.get());
    send_one(pair.passive.get(), pair.active.get());
    assert_int_equal(rdma_disconnect(pair.active.get()), 0);
    assert_ptr_equal(next(pair.channel, RDMA_CM_EVENT_DISCONNECTED)->id, pair.passive.get());
    assert_ptr_equal(next(pair.peers_channel, RDMA_CM_EVENT_DISCONNECTED)->id, pair.active.get());
}

// As rping and many do.
TEST(destroy__queue_pair_before_its_id__end_touches_nothing) {
    Pair pair;
    rdma_destroy_qp(pair.passive.get());
    assert_null(pair.passive->qp);
    assert_null(pair.passive->recv_cq);
    assert_int_equal(rdma_disconnect(pair.active.get()), 0);
    (void)next(pair.channel, RDMA_CM_EVENT_DISCONNECTED);
}

TEST(channel__descriptor__is_readable_while_an_event_waits) {
    const Channel channel(rdma_create_event_channel());
    pollfd waiting = {.fd = channel->fd, .events = POLLIN, .revents = 0};
    assert_int_equal(poll(&waiting, 1, 0), 0);
    assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    rdma_cm_event* none = nullptr;
    assert_int_equal(rdma_get_cm_event(channel.get(), &none), -1);
    assert_int_equal(errno, EAGAIN);
    const Id id = make_id(channel);
    sockaddr_in peer = address_at(htons(7174));
    assert_int_equal(rdma_resolve_addr(id.get(), nullptr, any(peer), 1000), 0);
    assert_int_equal(poll(&waiting, 1, 0), 1);
    (void)next(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(poll(&waiting, 1, 0), 0);
}

TEST(connect__nobody_listens__rejected_with_the_protocol_s_reason) {
    constexpr int kInvalidService = 8;
    const Channel channel(rdma_create_event_channel());
    const Id id = make_resolved(channel, htons(1));
    rdma_conn_param wanted = parameters("");
    assert_int_equal(rdma_connect(id.get(), &wanted), 0);
    assert_int_equal(next(channel, RDMA_CM_EVENT_REJECTED)->status, kInvalidService);
}

TEST(reject__by_the_program__its_data_and_reason_arrive) {
    constexpr int kConsumer = 28;
    const Channel channel(rdma_create_event_channel());
    const Id listener = make_listener(channel);
    const Channel peers_channel(rdma_create_event_channel());
    const Id active = make_resolved(peers_channel, rdma_get_src_port(listener.get()));
    rdma_conn_param wanted = parameters("");
    assert_int_equal(rdma_connect(active.get(), &wanted), 0);
    Id passive;
    {
        const Event request = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
        passive.reset(request->id);
        assert_int_equal(rdma_reject(passive.get(), "no", 3), 0);
    }
    const Event rejected = next(peers_channel, RDMA_CM_EVENT_REJECTED);
    assert_int_equal(rejected->status, kConsumer);
    assert_memory_equal(rejected->param.conn.private_data, "no", 3);
}

// The program leads its queue pair, which is no id's.
TEST(connect__queue_pair_of_the_program_s__response_and_establish) {
    const Channel channel(rdma_create_event_channel());
    const Id listener = make_listener(channel);
    const Channel peers_channel(rdma_create_event_channel());
    const Id active = make_resolved(peers_channel, rdma_get_src_port(listener.get()));
    ibv_qp* const queue_pair = std::exchange(active->qp, nullptr);
    rdma_conn_param wanted = parameters("");
    wanted.qp_num = queue_pair->qp_num;
    assert_int_equal(rdma_connect(active.get(), &wanted), 0);
    Id passive;
    {
        const Event request = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
        assert_int_equal(request->param.conn.qp_num, queue_pair->qp_num);
        passive.reset(request->id);
        make_queue_pair(passive.get());
        wanted = parameters("");
        assert_int_equal(rdma_accept(passive.get(), &wanted), 0);
    }
    (void)next(peers_channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
    for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
        ibv_qp_attr attr{};
        attr.qp_state = state;
        int mask = 0;
        assert_int_equal(rdma_init_qp_attr(active.get(), &attr, &mask), 0);
        assert_int_equal(ibv_modify_qp(queue_pair, &attr, mask), 0);
    }
    assert_int_equal(rdma_establish(active.get()), 0);
    (void)next(channel, RDMA_CM_EVENT_ESTABLISHED);
    active->qp = queue_pair; // to be destroyed with it
    send_one(active.get(), passive.get());
}

TEST(datagrams__look_up__queue_pair_and_key_of_the_service) {
    const Channel channel(rdma_create_event_channel());
    const Id listener = make_listener(channel, RDMA_PS_UDP);
    const Channel peers_channel(rdma_create_event_channel());
    const Id active = make_resolved(peers_channel, rdma_get_src_port(listener.get()), RDMA_PS_UDP);
    rdma_conn_param wanted = parameters("who");
    assert_int_equal(rdma_connect(active.get(), &wanted), 0);
    Id passive;
    {
        const Event request = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
        assert_memory_equal(request->param.ud.private_data, "who", 4);
        passive.reset(request->id);
        make_queue_pair(passive.get());
        wanted = parameters("");
        wanted.qp_num = passive->qp->qp_num;
        assert_int_equal(rdma_accept(passive.get(), &wanted), 0);
    }
    const Event found = next(peers_channel, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(found->param.ud.qp_num, passive->qp->qp_num);
    assert_int_equal(found->param.ud.qkey, RDMA_UDP_QKEY);
    assert_int_equal(found->param.ud.ah_attr.is_global, 1);
    ibv_gid gid{};
    assert_int_equal(ibv_query_gid(passive->verbs, 1, 0, &gid), 0);
    assert_memory_equal(found->param.ud.ah_attr.grh.dgid.raw, gid.raw, sizeof gid);
}

// Nobody else's, as the address isn't.
sockaddr_in group_of_this_test() {
    sockaddr_in address = address_at(0);
    reinterpret_cast<std::uint8_t*>(&address.sin_addr)[0] = 239;
    return address;
}

// The way to the group.
ibv_ah* join(const Channel& channel, rdma_cm_id* id, sockaddr_in& group) {
    int context = 0;
    assert_int_equal(rdma_join_multicast(id, any(group), &context), 0);
    const Event joined = next(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
    assert_ptr_equal(joined->id, id);
    assert_int_equal(joined->status, 0);
    assert_ptr_equal(joined->param.ud.private_data, &context);
    assert_int_equal(joined->param.ud.qp_num, 0xffffff);
    assert_int_equal(joined->param.ud.qkey, RDMA_UDP_QKEY);
    ibv_ah* const way = ibv_create_ah(id->pd, &joined->param.ud.ah_attr);
    assert_non_null(way);
    return way;
}

TEST(multicast__joined__hears_what_another_member_sends) {
    constexpr std::uint32_t kGroup = 0xffffff;
    constexpr std::size_t kHeaderBytes = 40;
    const Channel channel(rdma_create_event_channel());
    const Id sender = make_resolved(channel, htons(7174), RDMA_PS_UDP);
    const Id receiver = make_resolved(channel, htons(7174), RDMA_PS_UDP);
    sockaddr_in group = group_of_this_test();
    std::array<char, 16> sent{"to everybody"};
    std::array<char, kHeaderBytes + 16> received{};
    ibv_mr* const source = rdma_reg_msgs(sender.get(), sent.data(), sent.size());
    ibv_mr* const target = rdma_reg_msgs(receiver.get(), received.data(), received.size());
    assert_int_equal(rdma_post_recv(receiver.get(), nullptr, received.data(), received.size(), target), 0);
    ibv_ah* const way = join(channel, sender.get(), group);
    ibv_ah* const unused = join(channel, receiver.get(), group);
    assert_int_equal(
        rdma_post_ud_send(sender.get(), nullptr, sent.data(), sent.size(), source, 0, way, kGroup), 0);
    ibv_wc completion{};
    assert_int_equal(rdma_get_recv_comp(receiver.get(), &completion), 1);
    assert_int_equal(completion.status, IBV_WC_SUCCESS);
    assert_memory_equal(received.data() + kHeaderBytes, sent.data(), sent.size());
    assert_int_equal(rdma_get_send_comp(sender.get(), &completion), 1);
    for (rdma_cm_id* const each : {receiver.get(), sender.get()}) {
        assert_int_equal(rdma_leave_multicast(each, any(group)), 0);
        assert_int_equal(rdma_leave_multicast(each, any(group)), -1); // it has left
    }
    for (ibv_ah* const each : {way, unused}) {
        assert_int_equal(ibv_destroy_ah(each), 0);
    }
    for (ibv_mr* const each : {source, target}) {
        assert_int_equal(rdma_dereg_mr(each), 0);
    }
}

TEST(migrate__with_an_event_that_waits__arrives_at_the_new_channel) {
    const Channel from(rdma_create_event_channel());
    const Channel to(rdma_create_event_channel());
    const Id id = make_id(from);
    sockaddr_in peer = address_at(htons(7174));
    assert_int_equal(rdma_resolve_addr(id.get(), nullptr, any(peer), 1000), 0);
    assert_int_equal(rdma_migrate_id(id.get(), to.get()), 0);
    assert_ptr_equal(id->channel, to.get());
    assert_ptr_equal(next(to, RDMA_CM_EVENT_ADDR_RESOLVED)->id, id.get());
    pollfd waiting = {.fd = from->fd, .events = POLLIN, .revents = 0};
    assert_int_equal(poll(&waiting, 1, 0), 0);
}

TEST(destroy__event_not_acknowledged__waits_for_it) {
    const Channel channel(rdma_create_event_channel());
    Id id = make_id(channel);
    sockaddr_in peer = address_at(htons(7174));
    assert_int_equal(rdma_resolve_addr(id.get(), nullptr, any(peer), 1000), 0);
    Event event = next(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    std::atomic<bool> acknowledged{false};
    std::atomic<bool> was_first{false};
    std::thread destroyer([&] {
        id.reset();
        was_first = acknowledged.load();
    });
    acknowledged = true;
    event.reset();
    destroyer.join();
    assert_true(was_first);
}

rdma_addrinfo* look_up(int flags, __be16 port) {
    rdma_addrinfo hints{};
    hints.ai_flags = flags;
    hints.ai_port_space = RDMA_PS_TCP;
    rdma_addrinfo* found = nullptr;
    assert_int_equal(
        rdma_getaddrinfo(own_address().c_str(), std::to_string(ntohs(port)).c_str(), &hints, &found), 0);
    assert_int_equal(found->ai_qp_type, IBV_QPT_RC);
    return found;
}

ibv_qp_init_attr endpoint_queues() {
    ibv_qp_init_attr attributes{};
    attributes.cap = {
        .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    attributes.sq_sig_all = 1;
    return attributes;
}

// Calls of sync ids end when their event has come.
TEST(endpoints__sync__connect_and_accept_wait_for_each_other) {
    rdma_addrinfo* const here = look_up(RAI_PASSIVE, 0);
    ibv_qp_init_attr queues = endpoint_queues();
    rdma_cm_id* listener = nullptr;
    assert_int_equal(rdma_create_ep(&listener, here, nullptr, &queues), 0);
    rdma_freeaddrinfo(here);
    assert_int_equal(rdma_listen(listener, 1), 0);
    rdma_addrinfo* const there = look_up(0, rdma_get_src_port(listener));
    rdma_cm_id* active = nullptr;
    queues = endpoint_queues();
    assert_int_equal(rdma_create_ep(&active, there, nullptr, &queues), 0);
    rdma_freeaddrinfo(there);
    int connected = -1;
    std::thread client([&] { connected = rdma_connect(active, nullptr); });
    rdma_cm_id* passive = nullptr;
    assert_int_equal(rdma_get_request(listener, &passive), 0);
    assert_non_null(passive->qp);
    assert_int_equal(passive->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_int_equal(rdma_accept(passive, nullptr), 0);
    client.join();
    assert_int_equal(connected, 0);
    send_one(active, passive);
    assert_int_equal(rdma_disconnect(active), 0);
    rdma_destroy_ep(active);
    rdma_destroy_ep(passive);
    rdma_destroy_ep(listener);
}

TEST(sync_connect__nobody_listens__connection_refused) {
    rdma_addrinfo* const there = look_up(0, htons(1));
    rdma_cm_id* id = nullptr;
    ibv_qp_init_attr queues = endpoint_queues();
    assert_int_equal(rdma_create_ep(&id, there, nullptr, &queues), 0);
    rdma_freeaddrinfo(there);
    assert_int_equal(rdma_connect(id, nullptr), -1);
    assert_int_equal(errno, ECONNREFUSED);
    rdma_destroy_ep(id);
}

TEST(wildcard__listener__has_no_device_and_hears_uroce) {
    const Channel channel(rdma_create_event_channel());
    const Id listener = make_id(channel);
    sockaddr_in everywhere{};
    everywhere.sin_family = AF_INET;
    assert_int_equal(rdma_bind_addr(listener.get(), any(everywhere)), 0);
    assert_int_equal(rdma_listen(listener.get(), 0), 0);
    assert_null(listener->verbs);
    const Channel peers_channel(rdma_create_event_channel());
    const Id active = make_resolved(peers_channel, rdma_get_src_port(listener.get()));
    rdma_conn_param wanted = parameters("");
    assert_int_equal(rdma_connect(active.get(), &wanted), 0);
    const Event request = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    const Id passive(request->id);
    assert_ptr_equal(passive->verbs, active->verbs);
    assert_int_equal(rdma_reject(passive.get(), nullptr, 0), 0);
}

// Programs tell it to their peers before they listen.
TEST(bind_addr__any_port__is_chosen_at_once) {
    const Channel channel(rdma_create_event_channel());
    std::vector<__be16> chosen;
    std::vector<Id> ids;
    for (int i = 0; i < 3; ++i) {
        Id id = make_id(channel);
        sockaddr_in address = address_at(0);
        assert_int_equal(rdma_bind_addr(id.get(), any(address)), 0);
        chosen.push_back(rdma_get_src_port(id.get()));
        assert_int_not_equal(chosen.back(), 0);
        assert_int_equal(rdma_listen(id.get(), 1), 0);
        assert_int_equal(rdma_get_src_port(id.get()), chosen.back());
        ids.push_back(std::move(id));
    }
    assert_true(chosen[0] != chosen[1] && chosen[1] != chosen[2] && chosen[0] != chosen[2]);
    const Id active = make_resolved(channel, chosen[0]);
    assert_int_not_equal(rdma_get_src_port(active.get()), 0);
    const Id everywhere = make_id(channel);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    assert_int_equal(rdma_bind_addr(everywhere.get(), any(address)), 0);
    assert_int_not_equal(rdma_get_src_port(everywhere.get()), 0);
}

// libfabric asks for any device so, and drops all others if it gets one.
TEST(bind_addr__localhost_that_no_device_has__names_no_device) {
    const Channel channel(rdma_create_event_channel());
    const Id id = make_id(channel);
    sockaddr_in address = address_at(0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(rdma_bind_addr(id.get(), any(address)), 0);
    assert_null(id->verbs);
    assert_int_not_equal(rdma_get_src_port(id.get()), 0);
    const Id listed = make_id(channel);
    sockaddr_in own = address_at(0);
    assert_int_equal(rdma_bind_addr(listed.get(), any(own)), 0);
    assert_non_null(listed->verbs);
}

TEST(what_uroce_has_not__is_an_error_and_no_more) {
    const Channel channel(rdma_create_event_channel());
    const Id id = make_resolved(channel, htons(7174));
    sockaddr_in group = group_of_this_test();
    assert_int_equal(rdma_join_multicast(id.get(), any(group), nullptr), -1);
    assert_int_equal(errno, EINVAL); // it is for connections
    std::uint8_t tos = 8;
    assert_int_equal(rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos), 0);
    assert_int_equal(rdma_set_option(id.get(), RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &tos, sizeof tos), -1);
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(rdma_notify(id.get(), IBV_EVENT_QP_FATAL), -1);
    assert_int_equal(errno, EINVAL);
}

TEST(resolve__address_of_nobody__no_such_device) {
    if (access("/dev/infiniband/rdma_cm", F_OK) == 0) {
        skip(); // then the kernel answers
    }
    const Channel channel(rdma_create_event_channel());
    const Id id = make_id(channel);
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    assert_int_equal(inet_pton(AF_INET, "192.0.2.1", &peer.sin_addr), 1);
    assert_int_equal(rdma_resolve_addr(id.get(), nullptr, any(peer), 1), -1);
    assert_int_equal(errno, ENODEV);
}

TEST(devices__of_librdmacm__have_uroce_s) {
    int count = 0;
    ibv_context** const list = rdma_get_devices(&count);
    assert_non_null(list);
    assert_true(count >= 1);
    assert_null(list[count]);
    assert_string_equal(ibv_get_device_name(list[count - 1]->device), "uroce0");
    rdma_free_devices(list);
}

// Programs that look for an id's device in the list, as libfabric does, find it.
TEST(devices__of_an_address_that_nobody_gave__are_in_both_lists) {
    const Channel channel(rdma_create_event_channel());
    const Id id = make_id(channel);
    sockaddr_in address = address_at(0);
    assert_int_equal(
        inet_pton(AF_INET, sluice::test::Loopback::instance().next_address().c_str(), &address.sin_addr), 1);
    assert_int_equal(rdma_bind_addr(id.get(), any(address)), 0);
    const std::string name = ibv_get_device_name(id->verbs->device);
    assert_true(name.starts_with("uroce-127."));
    const auto is_it = [&name](ibv_device* device) { return name == ibv_get_device_name(device); };
    int count = 0;
    ibv_device** const listed = ibv_get_device_list(&count);
    assert_int_equal(std::count_if(listed, listed + count, is_it), 1);
    ibv_device* const device = *std::find_if(listed, listed + count, is_it);
    assert_true(ibv_get_device_guid(device) == ibv_get_device_guid(id->verbs->device));
    ibv_context* const opened = ibv_open_device(device);
    assert_non_null(opened);
    assert_int_equal(ibv_close_device(opened), 0);
    ibv_free_device_list(listed);
    ibv_context** const open = rdma_get_devices(&count);
    assert_int_equal(std::count(open, open + count, id->verbs), 1);
    rdma_free_devices(open);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("preload.connections", use_own_device);
}
