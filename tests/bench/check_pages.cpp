// SPDX-License-Identifier: BSD-3-Clause
//
// What protecting a request's memory costs, for `sluice check`: bench_check_pages [--json FILE] [--quick].
//
// The yardstick is what can't be spared: one call of mprotect() when the request is posted, and one when it
// ends. A touch is a fault of the processor's, a stack, and a call of mprotect() for the page.
#include <sys/mman.h>

#include "layers/check/pages/pages.hpp"
#include "tests/bench/harness.hpp"

namespace sluice::bench {

namespace {

namespace pages = layers::check::pages;

constexpr int kCalls = 100;

// In small pages, all of which are there.
class Memory {
  public:
    explicit Memory(std::size_t bytes)
        : bytes_(bytes),
          data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        if (data_ == MAP_FAILED || madvise(data_, bytes, MADV_NOHUGEPAGE) != 0) {
            std::perror("mmap");
            std::exit(1);
        }
        std::memset(data_, 1, bytes);
    }
    ~Memory() {
        pages::lift_range(data_, bytes_);
        munmap(data_, bytes_);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    char* data() const { return static_cast<char*>(data_); }
    std::size_t size() const { return bytes_; }

  private:
    std::size_t bytes_;
    void* data_;
};

void must(bool holds) {
    if (!holds) {
        std::fprintf(stderr, "the memory can't be protected here\n");
        std::exit(1);
    }
}

bool protects(std::uint64_t tag, const Memory& memory, pages::Forbidden forbidden) {
    return pages::protect(tag, memory.data(), memory.size(), forbidden) == pages::Protected::kAll;
}

void compare(Report& report, const char* name, std::size_t bytes) {
    const Memory memory(bytes);
    std::uint64_t tag = 0;
    const auto nothing = [] {};
    const auto ours = [&] {
        for (int i = 0; i < kCalls; ++i) {
            must(protects(++tag, memory, pages::Forbidden::kEverything));
            pages::lift(tag);
        }
    };
    const auto theirs = [&] {
        for (int i = 0; i < kCalls; ++i) {
            must(mprotect(memory.data(), memory.size(), PROT_NONE) == 0 &&
                 mprotect(memory.data(), memory.size(), PROT_READ | PROT_WRITE) == 0);
        }
    };
    const std::vector<double> ns =
        interleave({{nothing, ours}, {nothing, theirs}, {nothing, theirs}}, report.rounds(201), 1);
    report.add({.name = name,
                .value = ns[0] / ns[1],
                .unit = "x",
                .ours = ns[0] / kCalls,
                .theirs = ns[1] / kCalls,
                .noise = std::fabs(ns[2] / ns[1] - 1)});
}

void touch_figure(Report& report) {
    const Memory memory(std::size_t{64} << 10);
    std::uint64_t tag = 0;
    pages::Touch touch;
    const auto prepare = [&] {
        pages::lift(tag);
        (void)pages::take_touch(touch);
        must(protects(++tag, memory, pages::Forbidden::kStores));
    };
    const auto run = [&] { *static_cast<volatile char*>(memory.data()) = 2; };
    const std::vector<double> ns = interleave({{prepare, run}}, report.rounds(201), kCalls);
    pages::lift(tag);
    report.add({.name = "a store to a protected page", .value = ns[0], .unit = "ns"});
}

void nothing_figure(Report& report) {
    pages::Touch touch;
    while (pages::take_touch(touch)) {
    }
    const auto run = [&] {
        for (int i = 0; i < kCalls; ++i) {
            keep(pages::take_touch(touch));
        }
    };
    const std::vector<double> ns = interleave({{[] {}, run}}, report.rounds(201), 1);
    report.add({.name = "a question for touches where there is none", .value = ns[0] / kCalls, .unit = "ns"});
}

} // namespace

} // namespace sluice::bench

int main(int argc, char** argv) {
    sluice::bench::Report report("check_pages: what protecting a request's memory costs", argc, argv);
    sluice::bench::pin_to_cpu(sluice::bench::cpus() - 1);
    sluice::bench::compare(report, "4 KiB protected and lifted, against two mprotect()",
                           std::size_t{4} << 10);
    sluice::bench::compare(report, "64 KiB protected and lifted, against two mprotect()",
                           std::size_t{64} << 10);
    sluice::bench::compare(report, "1 MiB protected and lifted, against two mprotect()",
                           std::size_t{1} << 20);
    sluice::bench::touch_figure(report);
    sluice::bench::nothing_figure(report);
    return report.finish();
}
