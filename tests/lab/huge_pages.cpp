// SPDX-License-Identifier: BSD-3-Clause
//
// Usage: huge_pages DEVICE GID_INDEX private|shared|transparent...
//
// Two processes write to and read from each other's memory, which is in huge pages of these kinds, while each
// has a child with the same memory. Private memory is a copy in the child: nothing arrives in it by RDMA, and
// what the child writes isn't its parent's.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/lab/verbs_loop.hpp"

using namespace sluice::lab;

namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;
constexpr std::size_t kBytes = 5 * kHuge;

// Four pieces, each over the border of two pages, and at odd addresses.
constexpr std::size_t kPiece = kHuge * 4 / 5 + 77;
constexpr std::size_t piece(std::size_t i) {
    return i * kHuge + kHuge * 2 / 5 + 7;
}
constexpr std::size_t kMine = piece(0);     // is sent, written and read by the other one
constexpr std::size_t kReceived = piece(1); // what the other one has sent,
constexpr std::size_t kWritten = piece(2);  // has written,
constexpr std::size_t kRead = piece(3);     // and what was read from it

struct Card {
    std::uint64_t addr;
    std::uint32_t rkey;
    std::uint32_t qpn;
};

// A socket to another process.
class Line {
  public:
    explicit Line(int fd) : fd_(fd) {}

    template<typename T>
    void tell(const T& what) const {
        require(write(fd_, &what, sizeof what) == sizeof what, "tell another process");
    }
    template<typename T = char>
    T hear() const {
        T what{};
        require(recv(fd_, &what, sizeof what, MSG_WAITALL) == sizeof what, "hear from another process");
        return what;
    }
    void meet() const {
        tell('m');
        (void)hear();
    }

  private:
    int fd_;
};

std::array<int, 2> make_sockets() {
    std::array<int, 2> fds{};
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, fds.data()) == 0, "a pair of sockets");
    return fds;
}

void must_end_well(pid_t child, const char* what) {
    int status = 0;
    require(waitpid(child, &status, 0) == child && status == 0, what);
}

// How much of a mapping is in transparent huge pages, as the kernel prints it.
std::string huge_part(const void* memory) {
    char start[32];
    (void)std::snprintf(start, sizeof start, "%lx-", reinterpret_cast<std::uintptr_t>(memory));
    std::ifstream maps("/proc/self/smaps");
    std::string line;
    while (std::getline(maps, line) && line.rfind(start, 0) != 0) {
    }
    while (std::getline(maps, line) && line.rfind("AnonHugePages:", 0) != 0) {
    }
    return line;
}

// A mapping, all of it in huge pages.
class Memory {
  public:
    Memory(std::string_view kind, char byte) : shared_(kind == "shared") {
        if (kind == "transparent") {
            take_transparent(byte);
        } else {
            at_ = map(kBytes, MAP_HUGETLB | (shared_ ? MAP_SHARED : MAP_PRIVATE));
            std::memset(at_, byte, kBytes);
        }
    }
    ~Memory() { require(munmap(at_, kBytes) == 0, "unmap huge pages"); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    char* at(std::size_t offset) const { return at_ + offset; }
    bool shared() const { return shared_; }
    bool holds(std::size_t offset, std::size_t bytes, char byte) const {
        return std::all_of(at(offset), at(offset + bytes), [byte](char found) { return found == byte; });
    }
    bool holds(std::size_t offset, char byte) const { return holds(offset, kPiece, byte); }

  private:
    static char* map(std::size_t bytes, int flags) {
        void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
        require(memory != MAP_FAILED, "map huge pages, of which /proc/sys/vm/nr_hugepages has too few");
        return static_cast<char*>(memory);
    }
    void take_transparent(char byte) {
        char* const begin = map(kBytes + kHuge, MAP_PRIVATE);
        const std::size_t before = kHuge - reinterpret_cast<std::uintptr_t>(begin) % kHuge;
        at_ = begin + before;
        require(munmap(begin, before) == 0, "unmap what is before the first page");
        require(before == kHuge || munmap(at_ + kBytes, kHuge - before) == 0,
                "unmap what is behind the last one");
        require(madvise(at_, kBytes, MADV_HUGEPAGE) == 0, "ask for huge pages");
        std::memset(at_, byte, kBytes);
        require(huge_part(at_).find(" 10240 kB") != std::string::npos,
                "be given huge pages; see /sys/kernel/mm/transparent_hugepage/enabled");
    }

    bool shared_;
    char* at_ = nullptr;
};

// A child, which looks at the memory and writes to all of it when it is told to.
class Child {
  public:
    Child(const Memory& memory, char byte, std::size_t arrives, char from_other)
        : fds_(make_sockets()), pid_(fork()) {
        require(pid_ >= 0, "fork");
        if (pid_ == 0) {
            live(memory, byte, arrives, from_other);
            _exit(0);
        }
    }
    ~Child() {
        close(fds_[0]);
        close(fds_[1]);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    void write_and_end() const {
        Line(fds_[0]).tell('w');
        must_end_well(pid_, "the child finds what it should");
    }

  private:
    void live(const Memory& memory, char byte, std::size_t arrives, char from_other) const {
        (void)Line(fds_[1]).hear();
        const char found = memory.shared() ? from_other : byte;
        require(memory.holds(arrives, found), "a child's memory has what arrives only if it is shared");
        require(memory.holds(kMine, byte), "a child's memory is as it was");
        if (!memory.shared()) {
            std::memset(memory.at(0), 'x', kBytes);
            require(memory.holds(0, kBytes, 'x'), "a child's memory has what the child wrote");
        }
    }

    const std::array<int, 2> fds_;
    const pid_t pid_;
};

struct Device {
    explicit Device(const char* name) : context(open_device(name)), pd(ibv_alloc_pd(context)) {
        cq = ibv_create_cq(context, 2 * kDepth, nullptr, nullptr, 0);
        require(pd != nullptr && cq != nullptr, "create a PD and a CQ");
        ibv_qp_init_attr attr = qp_request(cq, IBV_QPT_RC);
        qp = ibv_create_qp(pd, &attr);
        require(qp != nullptr, "create a QP");
        to_init(qp);
    }
    ~Device() {
        require(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 &&
                    ibv_close_device(context) == 0,
                "destroy all");
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    ibv_context* const context;
    ibv_pd* const pd;
    ibv_cq* cq;
    ibv_qp* qp;
};

// One process with its memory.
class Side {
  public:
    Side(const Device& device, const Line& other, std::string_view kind, char byte)
        : device_(device), other_(other), byte_(byte), memory_(kind, byte) {
        mr_ = ibv_reg_mr(device.pd, memory_.at(1), kBytes - 2,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
        require(mr_ != nullptr, "register huge pages");
    }
    ~Side() { require(ibv_dereg_mr(mr_) == 0, "deregister huge pages"); }
    Side(const Side&) = delete;
    Side& operator=(const Side&) = delete;

    Card swap_cards() const {
        other_.tell(Card{reinterpret_cast<std::uintptr_t>(memory_.at(0)), mr_->rkey, device_.qp->qp_num});
        return other_.hear<Card>();
    }
    // With a child that has the memory too, and then without one.
    void exchange(const Card& peer, bool asks) {
        const char theirs = asks ? 'b' : 'a';
        {
            const Child child(memory_, byte_, asks ? kRead : kWritten, theirs);
            once(peer, asks, theirs);
            child.write_and_end();
        }
        require(has_all(asks, theirs), "no byte has changed after the child wrote");
        start_a_program();
        byte_ = static_cast<char>(std::toupper(byte_));
        std::memset(memory_.at(kMine), byte_, kPiece);
        once(peer, asks, static_cast<char>(std::toupper(theirs)));
    }

  private:
    ibv_sge sge(std::size_t offset) const {
        return {reinterpret_cast<std::uintptr_t>(memory_.at(offset)), kPiece, mr_->lkey};
    }
    void complete(const char* what) const {
        const ibv_wc wc = await_completion(device_.cq);
        require(wc.status == IBV_WC_SUCCESS, what);
    }
    void ask(ibv_wr_opcode opcode, std::size_t offset, const Card& peer, std::size_t at) const {
        ibv_sge list = sge(offset);
        ibv_send_wr wr{};
        wr.sg_list = &list;
        wr.num_sge = 1;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = peer.addr + at;
        wr.wr.rdma.rkey = peer.rkey;
        ibv_send_wr* bad = nullptr;
        require(ibv_post_send(device_.qp, &wr, &bad) == 0, "post a request");
        complete("a request succeeds");
    }
    void receive() const {
        ibv_sge list = sge(kReceived);
        ibv_recv_wr wr{};
        wr.sg_list = &list;
        wr.num_sge = 1;
        ibv_recv_wr* bad = nullptr;
        require(ibv_post_recv(device_.qp, &wr, &bad) == 0, "post a receive");
    }
    // One side writes, reads and sends.
    void once(const Card& peer, bool asks, char theirs) const {
        if (!asks) {
            receive();
        }
        other_.meet();
        if (asks) {
            ask(IBV_WR_RDMA_WRITE, kMine, peer, kWritten);
            ask(IBV_WR_RDMA_READ, kRead, peer, kMine);
            ask(IBV_WR_SEND, kMine, peer, 0);
        } else {
            complete("a message arrives");
        }
        other_.meet();
        require(has_all(asks, theirs), "what the other side has is here");
    }
    bool has_all(bool asks, char theirs) const {
        return memory_.holds(kMine, byte_) &&
               (asks ? memory_.holds(kRead, theirs)
                     : memory_.holds(kWritten, theirs) && memory_.holds(kReceived, theirs));
    }
    static void start_a_program() {
        const pid_t pid = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork): it is tried
        if (pid == 0) {
            execl("/bin/true", "true", nullptr);
            _exit(127);
        }
        must_end_well(pid, "run a program");
    }

    const Device& device_;
    const Line& other_;
    char byte_;
    const Memory memory_;
    ibv_mr* mr_;
};

void run(const char* device_name, const Line& other, bool asks, int kinds, char** kind) {
    const Device device(device_name);
    for (int i = 0; i < kinds; ++i) {
        Side side(device, other, kind[i], asks ? 'a' : 'b');
        const Card peer = side.swap_cards();
        if (i == 0) {
            connect(device.qp, peer.qpn);
        }
        other.meet();
        side.exchange(peer, asks);
        other.meet(); // before the memory goes
        if (asks) {
            std::printf("ok: %s\n", kind[i]);
        }
    }
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 4) {
        return 2;
    }
    gid_index = std::atoi(argv[2]); // NOLINT(cert-err34-c)
    const std::array<int, 2> fds = make_sockets();
    const pid_t server = fork();
    run(argv[1], Line(fds[server == 0 ? 1 : 0]), server != 0, argc - 3, argv + 3);
    if (server != 0) {
        (void)std::fflush(stdout);
        must_end_well(server, "the other side ends well");
    }
    return 0;
}
