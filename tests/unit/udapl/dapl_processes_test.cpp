// SPDX-License-Identifier: BSD-3-Clause
//
// Other processes: a peer that is killed while data flows, and one that has an address and doesn't answer.
#include <arpa/inet.h>
#include <csignal>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/unit/udapl/dapl_pair.hpp"
#include "tests/unit/udapl/logged.hpp"
#include "tests/unit/udapl/timeouts.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr int kDeep = 16; // what an endpoint takes each way
constexpr int kFlowing = 200;
constexpr DAT_CONN_QUAL kServer = 4800;

struct Card {
    DAT_RMR_CONTEXT key;
    DAT_VADDR address;
};

// An endpoint on DEVICE, whose EVDs are its own.
struct End {
    explicit End(std::string device)
        : opened(std::move(device)), pz(opened.make_pz()), receives(opened.make_evd(64, DAT_EVD_DTO_FLAG)),
          requests(opened.make_evd(64, DAT_EVD_DTO_FLAG)),
          connections(opened.make_evd(8, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG)), block(opened, pz) {
        assert_int_equal(dat_ep_create(opened.ia, pz, receives, requests, connections, nullptr, &ep),
                         DAT_SUCCESS);
    }
    void receive() const {
        DAT_LMR_TRIPLET part = block.part(0, 64);
        assert_int_equal(dat_ep_post_recv(ep, 1, &part, {}, DAT_COMPLETION_DEFAULT_FLAG), DAT_SUCCESS);
    }
    DAT_RETURN send() const {
        DAT_LMR_TRIPLET part = block.part(64, 64);
        return dat_ep_post_send(ep, 1, &part, {}, DAT_COMPLETION_DEFAULT_FLAG);
    }
    DAT_RETURN write(const Card& to) const {
        DAT_LMR_TRIPLET part = block.part(64, 64);
        const DAT_RMR_TRIPLET remote{to.key, 0, to.address + 1024, 64};
        return dat_ep_post_rdma_write(ep, 1, &part, {}, &remote, DAT_COMPLETION_DEFAULT_FLAG);
    }
    Opened opened;
    DAT_PZ_HANDLE pz;
    DAT_EVD_HANDLE receives;
    DAT_EVD_HANDLE requests;
    DAT_EVD_HANDLE connections;
    Block block;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
};

// Takes what comes until it is killed, and tells FD when data flows.
[[noreturn]] void serve(const std::string& device, int fd) {
    const End end(device);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    assert_int_equal(dat_psp_create(end.opened.ia, kServer, end.connections, DAT_PSP_CONSUMER_FLAG, &psp),
                     DAT_SUCCESS);
    for (int i = 0; i < kDeep; ++i) {
        end.receive();
    }
    const Card card{end.block.key, end.block.address()};
    assert_int_equal(write(fd, &card, sizeof card), sizeof card);
    const DAT_EVENT asked = next(end.connections);
    assert_int_equal(dat_cr_accept(asked.event_data.cr_arrival_event_data.cr_handle, end.ep, 0, nullptr),
                     DAT_SUCCESS);
    for (int count = 1;; ++count) {
        assert_int_equal(next(end.receives).event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
        end.receive();
        if (count == kFlowing) {
            assert_int_equal(write(fd, "f", 1), 1);
        }
    }
}

class Server {
  public:
    explicit Server(std::string device) : device_(std::move(device)) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds_), 0);
        pid_ = fork();
        assert_true(pid_ >= 0);
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(fds_[0]);
            serve(device_, fds_[1]);
        }
        close(fds_[1]);
    }
    ~Server() { close(fds_[0]); }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    template<typename T>
    T hear() const {
        T what{};
        assert_int_equal(read(fds_[0], &what, sizeof what), sizeof what);
        return what;
    }
    void stop() const {
        int status = 0;
        assert_int_equal(::kill(pid_, SIGSTOP), 0);
        assert_int_equal(waitpid(pid_, &status, WUNTRACED), pid_);
        assert_true(WIFSTOPPED(status));
    }
    void kill() const {
        int status = -1;
        assert_int_equal(::kill(pid_, SIGKILL), 0);
        assert_int_equal(waitpid(pid_, &status, 0), pid_);
        assert_int_equal(WTERMSIG(status), SIGKILL);
    }
    // On another device, or on the one that there is.
    sockaddr_in address(const End& end) const {
        DAT_IA_ATTR attr{};
        assert_int_equal(dat_ia_query(end.opened.ia, nullptr, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr, 0, nullptr),
                         DAT_SUCCESS);
        sockaddr_in address{};
        std::memcpy(&address, attr.ia_address_ptr, sizeof address);
        if (!is_own_device_named()) {
            assert_int_equal(inet_pton(AF_INET, device_.c_str(), &address.sin_addr), 1);
        }
        return address;
    }

  private:
    const std::string device_;
    int fds_[2] = {-1, -1};
    pid_t pid_ = -1;
};

std::unique_ptr<Server> server;
std::unique_ptr<Server> silent;
std::atomic<int> next_open_error{0};

} // namespace

// Of libsluice, which our provider calls.
extern "C" [[gnu::visibility("default")]] ibv_context* sluice_open_uroce(const char* name_or_address) {
    using Function = ibv_context* (*)(const char*);
    static const auto original =
        reinterpret_cast<Function>(dlsym(dlopen("libsluice.so.1", RTLD_NOW), "sluice_open_uroce"));
    if (next_open_error != 0) {
        errno = next_open_error.exchange(0);
        return nullptr;
    }
    return original(name_or_address);
}

namespace {

// Keeps the requests of END's endpoint coming until one fails, and waits for each without a limit.
struct Traffic {
    Traffic(const End& its_end, const Card& its_peer) : end(its_end), peer(its_peer) {}
    void run() {
        for (int i = 0; i < kDeep / 2; ++i) {
            post();
        }
        while (completed < posted) {
            DAT_EVENT event{};
            DAT_COUNT left = 0;
            if (dat_evd_wait(end.requests, DAT_TIMEOUT_INFINITE, 1, &event, &left) != DAT_SUCCESS) {
                return;
            }
            ++completed;
            const DAT_DTO_COMPLETION_STATUS status = event.event_data.dto_completion_event_data.status;
            after_failure += has_failed && status == DAT_DTO_SUCCESS ? 1 : 0;
            if (!has_failed && status == DAT_DTO_SUCCESS) {
                post();
            } else if (!has_failed) {
                has_failed = true;
                first_failure = status;
            }
        }
    }
    void post() {
        const DAT_RETURN status = posted % 2 == 0 ? end.send() : end.write(peer);
        posted += status == DAT_SUCCESS ? 1 : 0;
    }
    const End& end;
    const Card& peer;
    std::atomic<int> posted{0};
    int completed = 0;
    int after_failure = 0; // done although another one had failed before
    bool has_failed = false;
    DAT_DTO_COMPLETION_STATUS first_failure = DAT_DTO_SUCCESS;
};

TEST(peer__killed_while_data_flows__told_flushed_and_every_wait_returns) {
    ack_timeout = 16; // 268 ms, eight times: a busy machine may keep the server from running for a second
    const Card card = server->hear<Card>();
    const End end(own_device(0));
    sockaddr_in address = server->address(end);
    for (int i = 0; i < kDeep; ++i) {
        end.receive();
    }
    assert_int_equal(dat_ep_connect(end.ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address), kServer,
                                    DAT_TIMEOUT_INFINITE, 0, nullptr, DAT_QOS_BEST_EFFORT,
                                    DAT_CONNECT_DEFAULT_FLAG),
                     DAT_SUCCESS);
    assert_int_equal(next(end.connections).event_number, DAT_CONNECTION_EVENT_ESTABLISHED);
    Traffic traffic(end, card);
    std::thread sender([&] { traffic.run(); });
    DAT_EVENT heard{};
    std::thread listener([&] {
        DAT_COUNT left = 0;
        (void)dat_evd_wait(end.connections, DAT_TIMEOUT_INFINITE, 1, &heard, &left);
    });
    assert_int_equal(server->hear<char>(), 'f');
    // One request at least isn't answered when it dies.
    server->stop();
    ++traffic.posted;
    assert_int_equal(end.send(), DAT_SUCCESS);
    server->kill();
    listener.join();
    sender.join();
    assert_true(heard.event_number == DAT_CONNECTION_EVENT_BROKEN ||
                heard.event_number == DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_ptr_equal(heard.event_data.connect_event_data.ep_handle, end.ep);
    assert_true(traffic.posted >= kFlowing);
    assert_int_equal(traffic.completed, traffic.posted);
    assert_int_equal(traffic.after_failure, 0);
    if (!is_own_device_named()) { // whose connection manager disconnects for who died
        assert_int_equal(heard.event_number, DAT_CONNECTION_EVENT_BROKEN);
        assert_int_equal(traffic.first_failure, DAT_DTO_ERR_TRANSPORT);
    }
    for (int i = 0; i < kDeep; ++i) {
        assert_int_equal(next(end.receives).event_data.dto_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
    }
    DAT_EP_STATE state{};
    assert_int_equal(dat_ep_get_status(end.ep, &state, nullptr, nullptr), DAT_SUCCESS);
    assert_int_equal(state, DAT_EP_STATE_DISCONNECTED);
    assert_int_equal(dat_ep_reset(end.ep), DAT_SUCCESS);
}

// 0, or what is wrong in the child of a fork: the parent's END isn't its own, and it may have another one.
int use_in_child(const End& end) {
    DAT_EVENT event{};
    DAT_COUNT left = 0;
    if (end.send() != coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP) ||
        DAT_GET_TYPE(dat_evd_wait(end.requests, 0, 1, &event, &left)) != DAT_INVALID_HANDLE ||
        dat_pz_free(end.pz) != coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_PZ)) {
        return 1;
    }
    if (dat_ia_close(end.opened.ia, DAT_CLOSE_ABRUPT_FLAG) !=
        coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA)) {
        return 2;
    }
#ifdef SLUICE_UNDER_SANITIZER
    return 0; // a thread of the parent may have had its locks
#else
    std::string name = own_device(0);
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    if (dat_ia_open(name.data(), 8, &evd, &ia) != DAT_SUCCESS || dat_pz_create(ia, &pz) != DAT_SUCCESS) {
        return 3;
    }
    return dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS ? 0 : 4;
#endif
}

TEST(child_of_fork__has_its_own_adapters_and_none_of_the_parent_s) {
    if (is_own_device_named()) {
        skip(); // the kernel's devices are closed to children
    }
    const End end(own_device(0));
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(use_in_child(end));
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    end.receive(); // it is as before here
}

Logged open_logged(std::string name) {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    return logged_by([&] { return dat_ia_open(name.data(), 8, &evd, &ia); });
}

TEST(open__holder_of_the_address_is_stopped__no_device_and_the_log_names_it) {
    if (is_own_device_named()) {
        skip(); // the kernel's devices have no holder
    }
    (void)silent->hear<Card>();
    silent->stop();
    const Logged logged = open_logged(own_device(2));
    silent->kill();
    assert_int_equal(logged.status, coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
    assert_true(logged.text.find("doesn't answer; is it stopped?") != std::string::npos);
    assert_true(logged.text.find(own_device(2) + " can't be opened") != std::string::npos);
}

// A program that tries every name says nothing of the devices that others may open.
TEST(open__not_permitted__no_device_and_silent) {
    if (is_own_device_named()) {
        skip(); // uroce's opening is what fails
    }
    next_open_error = EACCES;
    const Logged logged = open_logged("uroce0");
    assert_int_equal(logged.status, coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
    assert_string_equal(logged.text.c_str(), "");
    assert_int_equal(next_open_error, 0);
}

} // namespace

int main() {
    server = std::make_unique<Server>(own_device(1)); // before anything is opened here
    if (!is_own_device_named()) {
        silent = std::make_unique<Server>(own_device(2));
    }
    return sluice::test::run_all_tests();
}
