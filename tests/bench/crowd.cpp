// SPDX-License-Identifier: BSD-3-Clause
#include "tests/bench/crowd.hpp"

#include <poll.h>
#include <sys/stat.h>

#include <filesystem>

namespace sluice::bench {

namespace {

constexpr unsigned kUnderWay = 4; // requests of one process to another one
constexpr std::uint32_t kBytes = 8;
constexpr double kStatBlockBytes = 512;

double number_behind(std::istream& in, const std::string& name) {
    std::string word;
    double value = 0;
    while (in >> word) {
        if (word == name) {
            in >> value;
        }
    }
    return value;
}

// Pages of files in memory belong to the process that has made and kept the file.
double memory_file_bytes() {
    double bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code error;
        const std::string target = std::filesystem::read_symlink(entry.path(), error);
        struct stat status {};
        if (target.starts_with("/memfd:sluice-") && stat(entry.path().c_str(), &status) == 0) {
            bytes += static_cast<double>(status.st_blocks) * kStatBlockBytes;
        }
    }
    return bytes;
}

} // namespace

void CrowdMember::serve() {
    for (;;) {
        const auto order = hear<Order>(fd_);
        switch (order.what) {
        case Order::What::kOpen:
            open();
            break;
        case Order::What::kMeasure:
            tell(fd_, memory_bytes());
            break;
        case Order::What::kConnect:
            connect(order.cards);
            break;
        case Order::What::kExchange:
            exchange(order);
            break;
        case Order::What::kStop:
            return;
        }
    }
}

// Everything that doesn't depend on the others is there before they come.
void CrowdMember::open() {
    memory_ = std::make_unique<Buffer>(1);
    context_ = std::make_unique<Context>(address_);
    Cards cards{};
    for (std::size_t other = 0; other < kCrowd; ++other) {
        if (other != index_) {
            ends_[other] = std::make_unique<End>(*context_, *memory_);
            cards[other] = ends_[other]->card();
        }
    }
    tell(fd_, cards);
}

void CrowdMember::connect(const Cards& cards) {
    for (std::size_t other = 0; other < kCrowd; ++other) {
        if (other != index_) {
            ends_[other]->connect(cards[other]);
            for (unsigned i = 0; i < 2 * kUnderWay; ++i) {
                ends_[other]->post_receive(kBytes);
            }
        }
    }
    tell(fd_, true);
}

// The first answer is the count. The second one says that nothing of this process's is under way: then
// another one may end. Meanwhile the others may still need this process, so that it takes what comes until
// the next order.
void CrowdMember::exchange(const Order& order) {
    tell(fd_, exchange_until(order));
    for (bool is_under_way = true; is_under_way || !has_order();) {
        for (std::size_t other = 0; other < kCrowd; ++other) {
            (void)take(other);
        }
        if (is_under_way && std::ranges::all_of(outstanding_, [](unsigned count) { return count == 0; })) {
            is_under_way = false;
            tell(fd_, true);
        }
        sched_yield();
    }
}

std::uint64_t CrowdMember::exchange_until(const Order& order) {
    std::uint64_t count = 0;
    while (seconds_now() < order.start) {
        sched_yield();
    }
    for (double now = order.start; now < order.end; now = seconds_now()) {
        std::uint64_t taken = 0;
        for (std::size_t other = 0; other < kCrowd; ++other) {
            post(other, order.kind);
            taken += take(other);
        }
        count += taken;
        if (taken == 0) {
            sched_yield(); // another process must run first
        }
    }
    return count;
}

void CrowdMember::post(std::size_t to, Kind kind) {
    for (; to != index_ && outstanding_[to] < kUnderWay; ++outstanding_[to]) {
        if (kind == Kind::kWrites) {
            ends_[to]->post_write(kBytes, kBytes * index_);
        } else {
            ends_[to]->post_send(kBytes);
        }
    }
}

// Requests that have been completed. Receives that have been used are posted again.
std::uint64_t CrowdMember::take(std::size_t from) {
    if (from == index_) {
        return 0;
    }
    ibv_wc completions[16];
    std::uint64_t requests = 0;
    const int count = ibv_poll_cq(ends_[from]->cq(), 16, completions);
    for (int i = 0; i < count; ++i) {
        if (completions[i].status != IBV_WC_SUCCESS) {
            errno = EIO;
            die(ibv_wc_status_str(completions[i].status));
        }
        if ((completions[i].opcode & IBV_WC_RECV) != 0) {
            ends_[from]->post_receive(kBytes);
        } else {
            --outstanding_[from];
            ++requests;
        }
    }
    return requests;
}

double CrowdMember::memory_bytes() const {
    std::ifstream rollup("/proc/self/smaps_rollup");
    constexpr double kKib = 1024;
    return number_behind(rollup, "Anonymous:") * kKib + memory_file_bytes();
}

bool CrowdMember::has_order() const {
    pollfd order{.fd = fd_, .events = POLLIN, .revents = 0};
    return poll(&order, 1, 0) != 0;
}

Crowd::Crowd(const std::string& address) {
    for (std::size_t index = 0; index < kCrowd; ++index) {
        members_.push_back(
            std::make_unique<Peer>([&address, index](int fd) { CrowdMember(fd, index, address).serve(); }));
    }
}

template<typename Answer>
Answer Crowd::ask(std::size_t index, const Order& order) {
    tell(members_[index]->fd(), order);
    return hear<Answer>(members_[index]->fd());
}

void Crowd::open(std::size_t first, std::size_t end) {
    for (std::size_t index = first; index < end; ++index) {
        cards_[index] = ask<Cards>(index, {.what = Order::What::kOpen});
    }
}

void Crowd::connect() {
    for (std::size_t index = 0; index < kCrowd; ++index) {
        Order order{.what = Order::What::kConnect};
        for (std::size_t other = 0; other < kCrowd; ++other) {
            order.cards[other] = cards_[other][index];
        }
        (void)ask<bool>(index, order);
    }
}

std::vector<double> Crowd::exchange(Kind kind, double seconds) {
    constexpr double kUntilAllKnow = 0.3;
    const double start = seconds_now() + kUntilAllKnow;
    for (const auto& member : members_) {
        tell(member->fd(),
             Order{.what = Order::What::kExchange, .kind = kind, .start = start, .end = start + seconds});
    }
    std::vector<double> counts;
    for (const auto& member : members_) {
        counts.push_back(static_cast<double>(hear<std::uint64_t>(member->fd())));
    }
    for (const auto& member : members_) {
        (void)hear<bool>(member->fd());
    }
    return counts;
}

double Crowd::memory_bytes_of_first() {
    return ask<double>(0, {.what = Order::What::kMeasure});
}

} // namespace sluice::bench
