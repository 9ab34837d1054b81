// SPDX-License-Identifier: BSD-3-Clause
//
// Commands as librdmacm writes them to the rdma_cm device, one by one, and files that are closed while
// another thread takes events from them, as rping and many that learned from it do.
#include "layers/cmdev/commands.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "layers/cmdev/takeover.hpp"
#include "tests/cancelled.hpp"
#include "tests/cmocka.hpp"
#include "tests/unit/layers/own_device.hpp"

using namespace sluice;
using namespace sluice::layers::cmdev;
using sluice::layers::preload::test::own_address;
using sluice::layers::preload::test::use_own_device;

namespace {

constexpr std::uint64_t kUid = 0x1234'5678'9abc;

template<typename Command>
struct [[gnu::packed]] Written {
    rdma_ucm_cmd_hdr header;
    Command command;

    Written(std::uint32_t number, const Command& its_command, std::size_t room = 0) noexcept
        : header{.cmd = number, .in = sizeof(Command), .out = static_cast<std::uint16_t>(room)},
          command(its_command) {}
    std::span<const std::byte> bytes() const noexcept { return std::as_bytes(std::span(this, 1)); }
};

// 0, or the errno.
int give(const std::shared_ptr<File>& file, std::span<const std::byte> bytes) {
    const Result<Answer> answer = execute(file, bytes);
    return answer ? 0 : answer.error().to_errno();
}

template<typename Command>
int give(const std::shared_ptr<File>& file, std::uint32_t number, const Command& command,
         std::size_t room = 0) {
    return give(file, Written<Command>(number, command, room).bytes());
}

template<typename Answered>
std::uint64_t address_of(Answered& answer) {
    return reinterpret_cast<std::uintptr_t>(&answer);
}

std::shared_ptr<File> make_file() {
    Result<std::shared_ptr<File>> file = File::make(Descriptor());
    assert_true(file.ok());
    files::add(*file);
    return *file;
}

// As librdmacm closes one.
void close_file(const std::shared_ptr<File>& file) {
    (void)files::take(file->fd());
    end(*file);
    close(file->fd());
}

struct OwnFile {
    std::shared_ptr<File> file = make_file();
    ~OwnFile() { close_file(file); }
};

std::uint32_t make_id(const std::shared_ptr<File>& file, std::uint64_t uid = kUid,
                      std::uint16_t port_space = RDMA_PS_TCP, std::uint8_t type = IBV_QPT_RC) {
    rdma_ucm_create_id_resp made{};
    rdma_ucm_create_id command{};
    command.uid = uid;
    command.response = address_of(made);
    command.ps = port_space;
    command.qp_type = type;
    assert_int_equal(give(file, RDMA_USER_CM_CMD_CREATE_ID, command, sizeof made), 0);
    return made.id;
}

sockaddr_in6 own_socket_address(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    assert_int_equal(inet_pton(AF_INET, own_address().c_str(), &address.sin_addr), 1);
    sockaddr_in6 wide{};
    std::memcpy(&wide, &address, sizeof address);
    return wide;
}

void resolve(const std::shared_ptr<File>& file, std::uint32_t id) {
    rdma_ucm_resolve_ip command{};
    command.id = id;
    command.dst_addr = own_socket_address(7174);
    assert_int_equal(give(file, RDMA_USER_CM_CMD_RESOLVE_IP, command), 0);
}

int take_event(const std::shared_ptr<File>& file, rdma_ucm_event_resp& event) {
    const rdma_ucm_get_event command{.response = address_of(event)};
    return give(file, RDMA_USER_CM_CMD_GET_EVENT, command, sizeof event);
}

rdma_ucm_destroy_id_resp destroy_id(const std::shared_ptr<File>& file, std::uint32_t id) {
    rdma_ucm_destroy_id_resp ended{};
    rdma_ucm_destroy_id command{};
    command.id = id;
    command.response = address_of(ended);
    assert_int_equal(give(file, RDMA_USER_CM_CMD_DESTROY_ID, command, sizeof ended), 0);
    return ended;
}

TEST(command__shorter_than_it_says__invalid) {
    const OwnFile own;
    const Written<rdma_ucm_listen> listen(RDMA_USER_CM_CMD_LISTEN, {});
    for (std::size_t bytes = 0; bytes < sizeof listen; ++bytes) {
        assert_int_equal(give(own.file, listen.bytes().first(bytes)), EINVAL);
    }
    Written<rdma_ucm_listen> without_structure(RDMA_USER_CM_CMD_LISTEN, {});
    without_structure.header.in = sizeof(rdma_ucm_listen) - 1;
    assert_int_equal(give(own.file, without_structure.bytes()), EINVAL);
}

TEST(command__without_room_for_its_answer__no_space_and_nothing_written) {
    const OwnFile own;
    rdma_ucm_create_id_resp made{.id = 42};
    rdma_ucm_create_id command{};
    command.response = address_of(made);
    command.ps = RDMA_PS_TCP;
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_CREATE_ID, command, sizeof made - 1), ENOSPC);
    assert_int_equal(made.id, 42);
    command.response = 0;
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_CREATE_ID, command, sizeof made), EFAULT);
    rdma_ucm_event_resp event{};
    const rdma_ucm_get_event get{.response = address_of(event)};
    assert_int_equal(
        give(own.file, RDMA_USER_CM_CMD_GET_EVENT, get, offsetof(rdma_ucm_event_resp, reserved) - 1), ENOSPC);
}

TEST(command__that_nobody_knows__not_implemented) {
    const OwnFile own;
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_GET_OPTION, rdma_ucm_listen{}), ENOSYS);
    assert_int_equal(give(own.file, 4'000'000'000U, rdma_ucm_listen{}), ENOSYS);
}

TEST(command__for_an_id_that_there_is_not__not_found) {
    const OwnFile own;
    rdma_ucm_listen command{};
    command.id = 0;
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_LISTEN, command), ENOENT);
    const std::uint32_t id = make_id(own.file);
    (void)destroy_id(own.file, id);
    command.id = id;
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_LISTEN, command), ENOENT);
}

TEST(command__for_an_id_of_another_channel__invalid) {
    const OwnFile own;
    const OwnFile other;
    rdma_ucm_listen command{};
    command.id = make_id(other.file);
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_LISTEN, command), EINVAL);
}

TEST(address__with_a_size_that_its_family_has_not__invalid) {
    const OwnFile own;
    rdma_ucm_bind command{};
    command.id = make_id(own.file);
    const sockaddr_in6 address = own_socket_address(0);
    std::memcpy(&command.addr, &address, sizeof address);
    command.addr_size = sizeof(sockaddr_in) + 1;
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_BIND, command), EINVAL);
    command.addr_size = sizeof(sockaddr_in);
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_BIND, command), 0);
}

// librdmacm asks so whether there are addresses of InfiniBand's family.
TEST(bind__family_of_infiniband__not_supported) {
    constexpr std::uint16_t kInfiniband = 27;
    const OwnFile own;
    rdma_ucm_bind command{};
    command.id = make_id(own.file);
    command.addr_size = 48;
    std::memcpy(&command.addr, &kInfiniband, sizeof kInfiniband);
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_BIND, command), EAFNOSUPPORT);
}

TEST(query__of_a_bound_id__device_and_addresses) {
    const OwnFile own;
    rdma_ucm_bind_ip bind{};
    bind.id = make_id(own.file);
    bind.addr = own_socket_address(0);
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_BIND_IP, bind), 0);
    rdma_ucm_query_addr_resp addresses{};
    rdma_ucm_query query{};
    query.id = bind.id;
    query.option = RDMA_USER_CM_QUERY_ADDR;
    query.response = address_of(addresses);
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_QUERY, query, sizeof addresses), 0);
    assert_int_equal(addresses.src_size, sizeof(sockaddr_in));
    assert_int_equal(addresses.dst_size, 0);
    rdma_ucm_query_route_resp route{};
    query.response = address_of(route);
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_QUERY_ROUTE, query, sizeof route), 0);
    assert_true(route.node_guid != 0 && route.node_guid == addresses.node_guid);
    assert_memory_equal(&route.src_addr, &addresses.src_addr, sizeof(sockaddr_in));
    rdma_ucm_query_addr_resp gids{};
    query.option = RDMA_USER_CM_QUERY_GID;
    query.response = address_of(gids);
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_QUERY, query, sizeof gids), 0);
    constexpr std::size_t kGid = 8; // behind family, key and flow
    assert_memory_equal(reinterpret_cast<const char*>(&gids.src_addr) + kGid, route.ib_route[0].sgid, 16);
}

// The library of a caller that knows no more fields gets what it knows.
TEST(query__room_of_an_older_version__no_more_is_written) {
    const OwnFile own;
    rdma_ucm_query_route_resp route{};
    route.ibdev_index = 42;
    rdma_ucm_query query{};
    query.id = make_id(own.file);
    query.response = address_of(route);
    assert_int_equal(
        give(own.file, RDMA_USER_CM_CMD_QUERY_ROUTE, query, offsetof(rdma_ucm_query_route_resp, ibdev_index)),
        0);
    assert_int_equal(route.ibdev_index, 42);
}

constexpr std::uint64_t kGroupUid = 0xabc'1234;

// An id for datagrams, at an address of its own.
std::uint32_t make_datagram_id(const std::shared_ptr<File>& file) {
    rdma_ucm_bind_ip bind{};
    bind.id = make_id(file, kUid, RDMA_PS_UDP, IBV_QPT_UD);
    bind.addr = own_socket_address(0);
    assert_int_equal(give(file, RDMA_USER_CM_CMD_BIND_IP, bind), 0);
    return bind.id;
}

rdma_ucm_join_mcast joining(std::uint32_t id, const char* group, const rdma_ucm_create_id_resp& made) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    assert_int_equal(inet_pton(AF_INET, group, &address.sin_addr), 1);
    rdma_ucm_join_mcast command{};
    command.response = address_of(made);
    command.uid = kGroupUid;
    command.id = id;
    command.addr_size = sizeof address;
    std::memcpy(&command.addr, &address, sizeof address);
    return command;
}

int join(const std::shared_ptr<File>& file, std::uint32_t id, const char* group,
         rdma_ucm_create_id_resp& made) {
    return give(file, RDMA_USER_CM_CMD_JOIN_MCAST, joining(id, group, made), sizeof made);
}

int leave(const std::shared_ptr<File>& file, std::uint32_t group, rdma_ucm_destroy_id_resp& ended) {
    rdma_ucm_destroy_id command{};
    command.id = group;
    command.response = address_of(ended);
    return give(file, RDMA_USER_CM_CMD_LEAVE_MCAST, command, sizeof ended);
}

TEST(join__event_with_the_way_to_the_group) {
    const OwnFile own;
    const std::uint32_t id = make_datagram_id(own.file);
    rdma_ucm_create_id_resp made{};
    assert_int_equal(join(own.file, id, "239.1.2.3", made), 0);
    rdma_ucm_event_resp event{};
    assert_int_equal(take_event(own.file, event), 0);
    assert_int_equal(event.event, static_cast<std::uint32_t>(EventType::kMulticastJoin));
    assert_int_equal(event.id, made.id);
    assert_true(event.uid == kGroupUid);
    assert_int_equal(event.status, 0);
    const rdma_ucm_ud_param& way = event.param.ud;
    constexpr std::uint8_t kGid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3};
    assert_memory_equal(way.ah_attr.grh.dgid, kGid, sizeof kGid);
    assert_int_equal(way.ah_attr.is_global, 1);
    assert_int_equal(way.ah_attr.port_num, 1);
    assert_int_equal(way.qp_num, 0xffffff);
    assert_int_equal(way.qkey, 0x01234567);
    // librdmacm waits for as many when it leaves, and for the same ones when it destroys the id.
    rdma_ucm_destroy_id_resp ended{};
    assert_int_equal(leave(own.file, made.id, ended), 0);
    assert_int_equal(ended.events_reported, 1);
    assert_int_equal(destroy_id(own.file, id).events_reported, 1);
}

TEST(leave__before_the_event_is_taken__there_is_none) {
    const OwnFile own;
    const std::uint32_t id = make_datagram_id(own.file);
    rdma_ucm_create_id_resp left{}, stays{};
    assert_int_equal(join(own.file, id, "239.1.2.3", left), 0);
    assert_int_equal(join(own.file, id, "239.1.2.4", stays), 0);
    rdma_ucm_destroy_id_resp ended{};
    assert_int_equal(leave(own.file, left.id, ended), 0);
    assert_int_equal(ended.events_reported, 0);
    rdma_ucm_event_resp event{};
    assert_int_equal(take_event(own.file, event), 0);
    assert_int_equal(event.id, stays.id);
    assert_int_equal(take_event(own.file, event), EAGAIN);
    assert_int_equal(leave(own.file, left.id, ended), ENOENT);
}

TEST(leave__a_group_of_a_destroyed_id_or_of_another_channel__an_error) {
    const OwnFile own, other;
    const std::uint32_t id = make_datagram_id(own.file);
    rdma_ucm_create_id_resp made{};
    assert_int_equal(join(own.file, id, "239.1.2.3", made), 0);
    rdma_ucm_destroy_id_resp ended{};
    assert_int_equal(leave(other.file, made.id, ended), EINVAL);
    (void)destroy_id(own.file, id);
    assert_int_equal(leave(own.file, made.id, ended), ENOENT);
    rdma_ucm_event_resp event{};
    assert_int_equal(take_event(own.file, event), EAGAIN);
}

TEST(join__what_is_no_group_of_datagrams__invalid) {
    const OwnFile own;
    const std::uint32_t id = make_datagram_id(own.file);
    rdma_ucm_create_id_resp made{.id = 42};
    assert_int_equal(join(own.file, id, "10.1.2.3", made), EINVAL);
    assert_int_equal(join(own.file, id, "0.0.0.0", made), EINVAL);
    rdma_ucm_join_mcast command = joining(id, "239.1.2.3", made);
    command.join_flags = 2;
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_JOIN_MCAST, command, sizeof made), EINVAL);
    command = joining(id, "239.1.2.3", made);
    command.addr_size = sizeof(sockaddr_in6);
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_JOIN_MCAST, command, sizeof made), EINVAL);
    command = joining(id, "239.1.2.3", made);
    assert_int_equal(give(own.file, RDMA_USER_CM_CMD_JOIN_MCAST, command, sizeof made - 1), ENOSPC);
    const std::uint32_t of_connections = make_id(own.file);
    assert_int_equal(join(own.file, of_connections, "239.1.2.3", made), EINVAL); // it has no device
    resolve(own.file, of_connections);
    assert_int_equal(join(own.file, of_connections, "239.1.2.3", made), EINVAL); // and now one
    assert_int_equal(made.id, 42);
    rdma_ucm_event_resp event{};
    assert_int_equal(take_event(own.file, event), 0);
    assert_int_equal(event.event, static_cast<std::uint32_t>(EventType::kAddrResolved));
    assert_int_equal(take_event(own.file, event), EAGAIN);
}

TEST(destroy__counts_the_events_that_were_taken) {
    const OwnFile own;
    const std::uint32_t id = make_id(own.file);
    resolve(own.file, id);
    rdma_ucm_event_resp event{};
    assert_int_equal(take_event(own.file, event), 0);
    assert_true(event.uid == kUid);
    assert_int_equal(event.event, static_cast<std::uint32_t>(EventType::kAddrResolved));
    resolve(own.file, id);
    assert_int_equal(destroy_id(own.file, id).events_reported, 1);
    assert_int_equal(take_event(own.file, event), EAGAIN);
}

TEST(write_event__of_the_program_s__comes_back) {
    struct {
        std::uint32_t id, reserved, event, status;
        std::uint64_t argument;
    } command{};
    constexpr std::uint32_t kWriteCmEvent = 24;
    const OwnFile own;
    command.id = make_id(own.file);
    command.event = static_cast<std::uint32_t>(EventType::kConnectRequest);
    assert_int_equal(give(own.file, kWriteCmEvent, command), EINVAL);
    command.event = static_cast<std::uint32_t>(EventType::kUser);
    command.argument = 42;
    assert_int_equal(give(own.file, kWriteCmEvent, command), 0);
    rdma_ucm_event_resp event{};
    assert_int_equal(take_event(own.file, event), 0);
    assert_int_equal(event.event, command.event);
    assert_memory_equal(&event.param, &command.argument, sizeof command.argument);
}

TEST(file__is_readable_while_an_event_waits) {
    const OwnFile own;
    pollfd waiting = {.fd = own.file->fd(), .events = POLLIN, .revents = 0};
    const std::uint32_t id = make_id(own.file);
    assert_int_equal(poll(&waiting, 1, 0), 0);
    resolve(own.file, id);
    assert_int_equal(poll(&waiting, 1, 0), 1);
    (void)destroy_id(own.file, id);
    assert_int_equal(poll(&waiting, 1, 0), 0);
    assert_int_equal(fcntl(own.file->fd(), F_GETFD), FD_CLOEXEC);
}

// Asks for an event of the file and waits, which only a cancellation ends, as in the kernel's write().
void expect_waits_until_cancelled(const std::shared_ptr<File>& file) {
    const auto wait = [&] {
        rdma_ucm_event_resp event{};
        const Written<rdma_ucm_get_event> get(RDMA_USER_CM_CMD_GET_EVENT, {.response = address_of(event)},
                                              sizeof event);
        (void)write_command(file, &get, sizeof get);
    };
    const long users = file.use_count();
    assert_true(sluice::test::is_cancelled_in(wait));
    assert_true(sluice::test::is_cancelled_asleep_in(wait));
    assert_int_equal(file.use_count(), users);
}

TEST(file__thread_cancelled_while_it_waits__ends) {
    const OwnFile own;
    expect_waits_until_cancelled(own.file);
}

// rping closes its channel while a thread is about to wait there, and ends with an error if that thread
// gets one.
TEST(file__closed_before_a_thread_waits__waits) {
    const std::shared_ptr<File> file = make_file();
    close_file(file);
    expect_waits_until_cancelled(file);
}

// The same where another file that doesn't wait has got the number of the descriptor.
TEST(file__closed_and_its_number_in_use__waits) {
    const std::shared_ptr<File> file = make_file();
    const int fd = file->fd();
    const Descriptor other(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    close_file(file);
    const Descriptor in_its_place(dup2(other.get(), fd));
    assert_int_equal(in_its_place.get(), fd);
    expect_waits_until_cancelled(file);
}

TEST(file__closed_before_a_thread_asks__the_program_has_time_to_end) {
    const std::shared_ptr<File> file = make_file();
    close_file(file);
    rdma_ucm_event_resp event{};
    const Written<rdma_ucm_get_event> get(RDMA_USER_CM_CMD_GET_EVENT, {.response = address_of(event)},
                                          sizeof event);
    const auto asked = std::chrono::steady_clock::now();
    assert_int_equal(write_in_place(file->fd(), &get, sizeof get), -1);
    assert_int_equal(errno, EBADF);
    assert_true(std::chrono::steady_clock::now() - asked >= std::chrono::milliseconds(900));
}

// Twenty repetitions by night come to 10,000; TEST_CHANNELS=100000 makes as many in one process.
int files_to_close() {
    constexpr int kByDay = 500;
    const char* const wanted = std::getenv("TEST_CHANNELS");
    return wanted != nullptr ? static_cast<int>(std::strtol(wanted, nullptr, 10)) : kByDay;
}

// The thread asks again and again, and never sleeps, so that it is found at every place of its way.
class Taker {
  public:
    ~Taker() {
        ends_ = true;
        thread_.join();
    }
    void take_from(const std::shared_ptr<File>& file) {
        {
            const LockGuard guard(mutex_);
            file_ = file;
        }
        const unsigned before = asked_;
        asked_.wait(before);
    }

  private:
    void run() {
        while (!ends_) {
            if (const std::shared_ptr<File> file = current(); file != nullptr) {
                rdma_ucm_event_resp event{};
                (void)take_event(file, event);
                ++asked_;
                asked_.notify_one();
            }
        }
    }
    std::shared_ptr<File> current() {
        const LockGuard guard(mutex_);
        return file_;
    }

    Mutex mutex_;
    std::shared_ptr<File> file_ SLUICE_TSA(guarded_by(mutex_));
    std::atomic<unsigned> asked_ = 0;
    std::atomic<bool> ends_ = false;
    std::thread thread_{[this] { run(); }};
};

TEST(file__closed_while_an_event_is_taken__nothing_dangles) {
    Taker taker;
    for (int i = files_to_close(); i > 0; --i) {
        const std::shared_ptr<File> file = make_file();
        const std::uint32_t id = make_id(file);
        resolve(file, id); // which makes the device's channel, too
        taker.take_from(file);
        close_file(file);
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests("layers.commands", use_own_device);
}
