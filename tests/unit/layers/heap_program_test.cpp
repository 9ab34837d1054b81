// SPDX-License-Identifier: BSD-3-Clause
//
// A program whose memory other processes can map: this one, with libsluice-heap preloaded.
#include <csignal>
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

// Last: its macros are common words.
#include "tests/unit/coherence/seeded.hpp"
#include "tests/unit/layers/heap_handler.h"

using sluice::testing::Random;
using sluice::testing::Seeded;

namespace {

constexpr std::size_t kLarge = 100'000;
constexpr int kGone = 3; // of a child that has seen a mistake

std::uint64_t seed = 0;
std::uint64_t rounds = 0;

// The compiler knows what malloc() does, and leaves calls out.
#ifdef __clang_analyzer__ // which would take the memory for lost, and for freed twice
template<typename T>
T* seen(T* pointer);
#else
template<typename T>
T* seen(T* pointer) {
    asm volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}
#endif

// The compiler doesn't know how much it is, and so not that it is too much.
std::size_t too_much() {
    std::size_t bytes = SIZE_MAX / 2;
    asm volatile("" : "+r"(bytes));
    return bytes;
}

struct Range {
    std::uintptr_t first = 0;
    std::uintptr_t end = 0;
};

// Of the heap that others can map; empty where there is none.
Range heap_of(const char* maps = "/proc/self/maps") {
    std::FILE* const file = std::fopen(maps, "re");
    assert_non_null(file);
    std::array<char, 512> line{};
    Range range;
    while (std::fgets(line.data(), line.size(), file) != nullptr) {
        if (std::strstr(line.data(), " rw-s ") != nullptr &&
            std::strstr(line.data(), "memfd:sluice-heap") != nullptr) {
            char* behind = nullptr;
            range.first = std::strtoull(line.data(), &behind, 16);
            assert_int_equal(*behind, '-');
            range.end = std::strtoull(behind + 1, nullptr, 16);
        }
    }
    (void)std::fclose(file);
    return range;
}

bool is_shared(const void* pointer) {
    const Range heap = heap_of();
    const auto at = reinterpret_cast<std::uintptr_t>(pointer);
    return at >= heap.first && at < heap.end;
}

char* of_malloc(std::size_t bytes) {
    char* const at = seen(static_cast<char*>(std::malloc(bytes)));
    assert_non_null(at);
    return at;
}

// Its exit status, or 128 and its signal.
int run_in_child(const std::function<void()>& run) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        run();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void need(bool holds) {
    if (!holds) {
        _exit(kGone);
    }
}

bool all_are(const char* at, std::size_t bytes, char value) {
    return std::all_of(at, at + bytes, [value](char byte) { return byte == value; });
}

TEST(heap__without_a_limit__has_room_for_64_gib) {
    rlimit limit{};
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    if (limit.rlim_cur != RLIM_INFINITY) {
        skip();
    }
    std::free(of_malloc(kLarge));
    const Range heap = heap_of();
    assert_int_equal(heap.end - heap.first, std::uintptr_t{64} << 30);
}

TEST(malloc__of_a_page_or_more__is_in_the_file) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (const std::size_t bytes : {page, page + 1, kLarge, std::size_t{64} << 20}) {
        char* const at = of_malloc(bytes);
        assert_true(is_shared(at));
        assert_true(malloc_usable_size(at) >= bytes);
        std::memset(at, 1, bytes);
        std::free(at);
    }
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, page - 1}) {
        char* const at = of_malloc(bytes);
        assert_false(is_shared(at));
        std::free(at);
    }
}

TEST(calloc__of_memory_that_was_used__is_zero) {
    for (const std::size_t bytes : {std::size_t{8192}, kLarge, std::size_t{3} << 20}) {
        for (int turn = 0; turn < 4; ++turn) {
            char* const at = seen(static_cast<char*>(std::calloc(bytes, 1)));
            assert_true(is_shared(at));
            assert_true(all_are(at, bytes, 0));
            std::memset(at, 0x55, bytes);
            std::free(at);
        }
    }
    assert_null(seen(std::calloc(too_much(), 3)));
    assert_int_equal(errno, ENOMEM);
}

TEST(aligned_memory__of_a_page__is_in_the_file) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (const std::size_t alignment : {page, 4 * page, std::size_t{2} << 20}) {
        void* at = nullptr;
        assert_int_equal(posix_memalign(&at, alignment, 8), 0);
        void* const others[] = {seen(memalign(alignment, 100)),
                                seen(std::aligned_alloc(alignment, alignment)), at, seen(valloc(8)),
                                seen(pvalloc(8))};
        for (void* const other : others) {
            assert_true(is_shared(other));
            assert_int_equal(reinterpret_cast<std::uintptr_t>(other) % page, 0);
            std::free(other);
        }
        assert_int_equal(reinterpret_cast<std::uintptr_t>(at) % alignment, 0);
    }
    void* small = nullptr;
    assert_int_equal(posix_memalign(&small, 64, 64), 0);
    assert_false(is_shared(small));
    std::free(small);
    assert_int_equal(posix_memalign(&small, 24, 64), EINVAL);
    assert_int_equal(posix_memalign(&small, 0, 64), EINVAL);
    assert_int_equal(posix_memalign(&small, page, too_much()), ENOMEM);
    assert_null(seen(pvalloc(2 * too_much())));
}

// Between the two allocators, and in its place.
TEST(realloc__to_every_size__keeps_the_bytes) {
    const std::size_t sizes[] = {10, 5000, 100, 9000, 4096, 200'000, 150'000, 8192, 30, 4'000'000, 16};
    char* at = of_malloc(8);
    std::size_t before = 8;
    std::memset(at, 7, before);
    for (const std::size_t bytes : sizes) {
        at = seen(static_cast<char*>(std::realloc(at, bytes)));
        assert_non_null(at);
        assert_true(all_are(at, std::min(before, bytes), 7));
        assert_int_equal(is_shared(at), bytes >= static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
        std::memset(at, 7, bytes);
        before = bytes;
    }
    at = seen(static_cast<char*>(reallocarray(at, 1000, 1000)));
    assert_true(is_shared(at) && all_are(at, before, 7));
    char* const kept = seen(at);
    assert_null(seen(std::realloc(at, too_much())));
    assert_true(all_are(kept, before, 7));
    assert_null(seen(std::realloc(kept, 0)));
    std::free(nullptr);
    assert_int_equal(malloc_usable_size(nullptr), 0);
}

// As a shell does that reads a long output.
TEST(realloc__page_by_page__moves_a_few_times) {
    constexpr std::size_t kStep = 4096;
    constexpr std::size_t kMost = std::size_t{64} << 20; // to copy it each time would take half a minute
    char* at = of_malloc(kLarge);
    int moves = 0;
    for (std::size_t bytes = kLarge; bytes < kMost; bytes += kStep) {
        const char* const before = at;
        at = seen(static_cast<char*>(std::realloc(at, bytes)));
        moves += at != before ? 1 : 0;
    }
    assert_in_range(moves, 0, 5);
    at[kMost - kStep] = 1;
    std::free(at);
}

// As private memory.
TEST(fork__parent_and_child_write__neither_sees_it) {
    char* const at = of_malloc(kLarge);
    char* const other = of_malloc(kLarge);
    std::memset(at, 'a', kLarge);
    int go[2];
    assert_int_equal(pipe(go), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(go[1]);
        need(is_shared(at) && all_are(at, kLarge, 'a'));
        char byte = 0;
        need(read(go[0], &byte, 1) == 0); // the parent has written
        need(all_are(at, kLarge, 'a'));
        std::memset(at, 'c', kLarge);
        std::free(other);
        char* const more = seen(static_cast<char*>(std::malloc(kLarge)));
        need(is_shared(more));
        std::memset(more, 'c', kLarge);
        // And its own child.
        need(run_in_child([&] {
                 need(all_are(more, kLarge, 'c') && all_are(at, kLarge, 'c'));
                 std::memset(at, 'd', kLarge);
             }) == 0);
        need(all_are(at, kLarge, 'c'));
        _exit(0);
    }
    close(go[0]);
    std::memset(at, 'b', kLarge);
    std::memset(other, 'b', kLarge);
    close(go[1]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(all_are(at, kLarge, 'b'));
    assert_true(all_are(other, kLarge, 'b'));
    std::free(at);
    std::free(other);
}

// ibv_fork_init() asks for this.
TEST(fork__memory_that_children_were_not_to_have__does_not_end_them) {
    char* const at = seen(static_cast<char*>(valloc(kLarge)));
    std::memset(at, 'a', kLarge);
    assert_int_equal(madvise(at, 8192, MADV_DONTFORK), 0);
    assert_int_equal(run_in_child([&] { need(all_are(at + 8192, kLarge - 8192, 'a')); }), 0);
    assert_int_equal(madvise(at, 8192, MADV_DOFORK), 0);
    std::free(at);
}

// It can't have a file of its own then.
TEST(fork__without_descriptors__what_the_child_writes_is_its_own) {
    char* const at = of_malloc(kLarge);
    std::memset(at, 'a', kLarge);
    assert_int_equal(run_in_child([at] {
                         const rlimit none{.rlim_cur = 0, .rlim_max = 0};
                         need(setrlimit(RLIMIT_NOFILE, &none) == 0);
                         need(run_in_child([at] {
                                  need(all_are(at, kLarge, 'a'));
                                  std::memset(at, 'c', kLarge);
                                  char* const more = seen(static_cast<char*>(std::calloc(kLarge, 1)));
                                  need(all_are(more, kLarge, 0));
                              }) == 0);
                         need(all_are(at, kLarge, 'a'));
                     }),
                     0);
    std::free(at);
}

#ifndef TEST_HEAP_LINKED
TEST(fork__handlers_of_other_libraries__write_to_memory_of_the_child) {
    char* const at = of_malloc(kLarge);
    std::memset(at, 'a', kLarge);
    filled_by_handler = {at, kLarge};
    assert_int_equal(run_in_child([at] { need(all_are(at, kLarge, 'h')); }), 0);
    assert_true(all_are(at, kLarge, 'a'));
    filled_by_handler = {nullptr, 0};
    std::free(at);
}
#endif

TEST(fork__while_threads_allocate__children_may_allocate) {
    std::atomic<bool> ends{false};
    std::vector<std::thread> threads;
    for (int number = 0; number < 3; ++number) {
        threads.emplace_back([&ends] {
            while (!ends) {
                char* const at = of_malloc(kLarge);
                at[5] = 1;
                std::free(at);
            }
        });
    }
    for (int turn = 0; turn < 50; ++turn) {
        assert_int_equal(run_in_child([] {
                             char* const at = seen(static_cast<char*>(std::malloc(kLarge)));
                             need(is_shared(at));
                             std::memset(at, 1, kLarge);
                             std::free(at);
                         }),
                         0);
    }
    ends = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST(threads__that_allocate_at_random__have_memory_of_their_own) {
    std::vector<std::thread> threads;
    std::atomic<bool> is_well{true};
    for (std::uint64_t number = 1; number <= 4; ++number) {
        threads.emplace_back([&is_well, number] {
            Random random(seed + number);
            struct Block {
                char* at = nullptr;
                std::size_t bytes = 0;
                char value = 0;
            };
            std::array<Block, 40> blocks;
            for (std::uint64_t round = 0; round < rounds; ++round) {
                Block& block = blocks[random.below(blocks.size())];
                is_well = is_well && (block.at == nullptr ||
                                      all_are(block.at, std::min<std::size_t>(block.bytes, 64), block.value));
                if (random.one_in(3)) {
                    block.bytes = 1 + random.below(50'000);
                    block.at = static_cast<char*>(std::realloc(block.at, block.bytes));
                } else {
                    std::free(block.at);
                    block.bytes = 1 + random.below(50'000);
                    block.at = static_cast<char*>(std::malloc(block.bytes));
                }
                block.value = static_cast<char>(random.next());
                std::memset(block.at, block.value, block.bytes);
            }
            for (const Block& block : blocks) {
                std::free(block.at);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    assert_true(is_well);
}

// As the C library does.
TEST(free__of_what_is_no_block__ends_the_program) {
    char* const at = of_malloc(kLarge);
    char* const behind = at + 4096;
    assert_int_equal(run_in_child([&] { std::free(seen(at + 16)); }), 128 + SIGABRT);
    assert_int_equal(run_in_child([&] { std::free(seen(behind)); }), 128 + SIGABRT);
    assert_int_equal(run_in_child([&] {
                         std::free(seen(at));
                         std::free(seen(at));
                     }),
                     128 + SIGABRT);
    std::free(at);
}

TEST(free__of_much__gives_it_back_to_the_system) {
    constexpr std::size_t kMuch = std::size_t{64} << 20;
    const auto used = [] {
        std::FILE* const file = std::fopen("/proc/self/statm", "re");
        long all = 0;
        long resident = 0;
        assert_int_equal(std::fscanf(file, "%ld %ld", &all, &resident), 2); // NOLINT: the kernel's text
        (void)std::fclose(file);
        return static_cast<std::size_t>(resident) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    };
    char* const at = of_malloc(kMuch);
    std::memset(at, 1, kMuch);
    const std::size_t before = used();
    std::free(at);
    assert_true(used() + kMuch / 2 < before);
}

// Without address space or files the program goes on.
TEST(program__under_limits__allocates_all_the_same) {
    const auto run_again = [](int resource, rlim_t limit, const char* which) {
        return run_in_child([=] {
            const rlimit limits{.rlim_cur = limit, .rlim_max = limit};
            const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
            need(dup2(nowhere, STDERR_FILENO) >= 0); // a line to a file that is longer already would end it
            need(setrlimit(resource, &limits) == 0);
            execl("/proc/self/exe", "limited", which, nullptr);
            _exit(kGone);
        });
    };
    assert_int_equal(run_again(RLIMIT_AS, rlim_t{1} << 30, "--shared"), 0);
    assert_int_equal(run_again(RLIMIT_AS, rlim_t{40} << 20, "--private"), 0);
    assert_int_equal(run_again(RLIMIT_FSIZE, 1024, "--private"), 0);
}

// What program__under_limits__allocates_all_the_same starts.
int run_limited(const std::string& which) {
    char* const at = seen(static_cast<char*>(std::malloc(kLarge)));
    if (at == nullptr || is_shared(at) != (which == "--shared")) {
        return 1;
    }
    std::memset(at, 1, kLarge);
    const int child = run_in_child([at] { need(all_are(at, kLarge, 1)); });
    if (child != 0) {
        return 2;
    }
    std::free(at);
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::string(argv[1]).starts_with("--")) {
        return run_limited(argv[1]);
    }
    const Seeded run(argc, argv, 20000);
    seed = run.seed;
    rounds = run.count;
    return sluice::test::run_all_tests("layers.heap");
}
