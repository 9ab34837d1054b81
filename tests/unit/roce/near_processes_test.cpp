// SPDX-License-Identifier: BSD-3-Clause
//
// Another process's memory and its sign of life, with real processes.
#include <csignal>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>

#include "core/life_sign.hpp"
#include "core/robust_mutex.hpp"
#include "roce/near/process_memory.hpp"
#include "roce/near/same_host.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice;
using namespace sluice::roce;

namespace {

// What this process and its children share.
struct Shared {
    LifeMark life{};
    pthread_mutex_t mutex{};
    std::atomic<std::uint32_t> stage{0};
};

Shared& make_shared() {
    void* const at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    return *new (at) Shared;
}

void wait_for(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
    while (word.load() != value) {
        sched_yield();
    }
}

// A child that is ready when stage is 1, and goes on at 2. What it can't do ends it.
template<typename Run>
pid_t start(Shared& shared, Run&& run) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent) {
            run(shared);
        }
        _exit(0);
    }
    while (shared.stage != 1) {
        assert_int_equal(waitpid(child, nullptr, WNOHANG), 0);
        sched_yield();
    }
    return child;
}

void need(bool done) {
    if (!done) {
        _exit(2);
    }
}

void end(pid_t child) {
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, nullptr, 0), child);
}

void be_ready(Shared& shared) {
    shared.stage = 1;
    wait_for(shared.stage, 2);
}

// Not where user-mode emulation has no such list.
bool system_tells_of_ends() {
    Shared& shared = make_shared();
    bool tells = false;
    std::thread([&] {
        LifeSign sign(shared.life);
        tells = sign.begin();
        sign.end();
    }).join();
    return tells;
}

TEST(life__of_a_thread_that_says_so__ends_when_it_says_so) {
    if (!system_tells_of_ends()) {
        skip();
    }
    Shared& shared = make_shared();
    assert_false(shared.life.lives());
    bool lived = false;
    std::thread([&] {
        LifeSign sign(shared.life);
        lived = sign.begin() && shared.life.lives();
        sign.end();
    }).join();
    assert_true(lived);
    assert_false(shared.life.lives());
}

void live(Shared& shared) {
    static LifeSign sign(shared.life);
    (void)sign.begin();
    be_ready(shared);
}

TEST(life__of_a_process_that_is_killed__ends_with_it) {
    if (!system_tells_of_ends()) {
        skip();
    }
    Shared& shared = make_shared();
    const pid_t child = start(shared, live);
    assert_true(shared.life.lives());
    end(child);
    assert_false(shared.life.lives());
}

TEST(life__of_a_process_that_ends_by_itself__ends_with_it) {
    if (!system_tells_of_ends()) {
        skip();
    }
    Shared& shared = make_shared();
    const pid_t child = start(shared, live);
    shared.stage = 2;
    assert_int_equal(waitpid(child, nullptr, 0), child);
    assert_false(shared.life.lives());
}

bool has_owner_died(pthread_mutex_t& mutex) {
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    return pthread_mutex_timedlock(&mutex, &until) == EOWNERDEAD;
}

// One that the C library keeps for it, such as of a library that is preloaded.
TEST(life__of_a_thread_that_holds_a_robust_mutex__both_end) {
    if (!system_tells_of_ends()) {
        skip();
    }
    for (const bool before : {false, true}) {
        Shared& shared = make_shared();
        assert_true(make_robust(shared.mutex));
        const pid_t child = start(shared, [before](Shared& its) {
            static LifeSign sign(its.life);
            need(!before || pthread_mutex_lock(&its.mutex) == 0);
            need(sign.begin());
            need(before || pthread_mutex_lock(&its.mutex) == 0);
            be_ready(its);
        });
        assert_true(shared.life.lives());
        end(child);
        assert_false(shared.life.lives());
        assert_true(has_owner_died(shared.mutex));
    }
}

// Its addresses are another program's then.
TEST(life__of_a_process_that_executes_another_program__ends) {
    if (!system_tells_of_ends()) {
        skip();
    }
    Shared& shared = make_shared();
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = start(shared, [&](Shared& its) {
        live(its);
        dup2(ends[0], 0);
        close(ends[1]);
        execlp("cat", "cat", nullptr); // until the pipe ends
    });
    assert_true(shared.life.lives());
    shared.stage = 2;
    while (shared.life.lives()) {
        sched_yield(); // for ever, if it isn't so: the test's time is limited
    }
    assert_int_equal(kill(child, 0), 0);
    end(child);
    close(ends[0]);
    close(ends[1]);
}

std::vector<std::uint8_t>& block() {
    static std::vector<std::uint8_t> bytes(1 << 20);
    return bytes;
}

bool kernel_lets_us() {
    char byte = 1;
    char copy = 0;
    const iovec here{.iov_base = &copy, .iov_len = 1};
    const iovec there{.iov_base = &byte, .iov_len = 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

TEST(memory__of_another_process__is_written_and_read) {
    if (!kernel_lets_us()) {
        skip();
    }
    Shared& shared = make_shared();
    block().assign(block().size(), near::kProbe); // before the child is made
    const pid_t child = start(shared, [](Shared& its) {
        be_ready(its);
        const bool came = block()[5] == 0x77 && block()[(1 << 20) - 1] == 0x77 && block()[4] == near::kProbe;
        _exit(came ? 0 : 1);
    });
    near::ProcessMemory memory(child);
    const auto there = reinterpret_cast<std::uintptr_t>(block().data());
    assert_true(memory.may_touch(there));
    assert_false(memory.may_touch(reinterpret_cast<std::uintptr_t>("x"))); // another byte
    std::vector<std::uint8_t> mine(1 << 20, 0x77);
    const iovec pieces[] = {{mine.data(), 1000}, {mine.data() + 1000, mine.size() - 1005}};
    assert_true(memory.write(there + 5, pieces, mine.size() - 5));
    assert_int_equal(block()[5], near::kProbe); // ours is another
    std::vector<std::uint8_t> back(mine.size());
    const iovec into{back.data(), back.size()};
    assert_true(memory.read({&into, 1}, there, back.size()));
    assert_int_equal(back[4], near::kProbe);
    assert_memory_equal(back.data() + 5, mine.data(), mine.size() - 5);
    assert_false(memory.write(8, {pieces, 1}, 1000)); // nothing is there
    assert_false(memory.read({&into, 1}, 8, back.size()));
    shared.stage = 2;
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(memory.may_touch(there)); // it has ended
}

// Each round writes its number to every word, and its process answers when it sees that in the last one.
TEST(memory__of_another_process_written_in_order__last_word_comes_last) {
    if (!kernel_lets_us()) {
        skip();
    }
    constexpr std::uint64_t kRounds = 2000;
    constexpr std::size_t kWords = 1001; // of two pages and a part
    alignas(64) static std::array<std::atomic<std::uint64_t>, kWords> words;
    Shared& shared = make_shared();
    const pid_t child = start(shared, [](Shared& its) {
        be_ready(its);
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
            while (words[kWords - 1].load(std::memory_order_acquire) != round) {
                sched_yield();
            }
            need(std::ranges::all_of(words, [&](const auto& word) { return word.load() == round; }));
            its.stage = static_cast<std::uint32_t>(round + 2);
        }
        pause();
    });
    near::ProcessMemory memory(child);
    std::array<std::uint64_t, kWords> mine;
    constexpr std::size_t kLast = sizeof(std::uint64_t);
    constexpr std::size_t kFirst = sizeof mine - kLast;
    const iovec pieces[] = {{mine.data(), 4000},
                            {reinterpret_cast<char*>(mine.data()) + 4000, kFirst - 3992}};
    shared.stage = 2;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
        mine.fill(round);
        assert_true(memory.write_in_order(reinterpret_cast<std::uintptr_t>(&words), pieces, kFirst, kLast));
        while (shared.stage != round + 2) {
            assert_int_equal(waitpid(child, nullptr, WNOHANG), 0); // it has seen a word of another round
            sched_yield();
        }
    }
    end(child);
}

// Its first word is gone, and the page with the last one isn't: a write that begins with the last one shows.
TEST(memory__of_another_process_without_its_beginning__last_word_stays) {
    if (!kernel_lets_us()) {
        skip();
    }
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    std::uint8_t* const kept = static_cast<std::uint8_t*>(pages) + page;
    Shared& shared = make_shared();
    const pid_t child = start(shared, [&](Shared& its) {
        need(munmap(pages, page) == 0);
        be_ready(its);
        _exit(std::all_of(kept, kept + page, [](std::uint8_t byte) { return byte == 0; }) ? 0 : 1);
    });
    near::ProcessMemory memory(child);
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    std::array<std::uint64_t, 4> mine;
    mine.fill(~std::uint64_t{0});
    const iovec piece{mine.data(), sizeof mine};
    assert_false(memory.write_in_order(reinterpret_cast<std::uintptr_t>(kept) - kWord, {&piece, 1},
                                       sizeof mine - kWord, kWord));
    shared.stage = 2;
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    munmap(pages, 2 * page);
}

TEST(memory__of_a_process_that_may_not_be_traced__is_refused) {
    if (!kernel_lets_us() || geteuid() == 0) {
        skip(); // who may trace everything may do that, too
    }
    Shared& shared = make_shared();
    const pid_t child = start(shared, [](Shared& its) {
        prctl(PR_SET_DUMPABLE, 0);
        be_ready(its);
    });
    near::ProcessMemory memory(child);
    assert_false(memory.may_touch(reinterpret_cast<std::uintptr_t>(block().data())));
    end(child);
}

TEST(memory__of_no_process__is_refused) {
    near::ProcessMemory nobody(0); // this process itself, for the kernel
    assert_false(nobody.may_touch(reinterpret_cast<std::uintptr_t>(block().data())));
}

// Where a child's memory is, and what of it.
struct Place {
    std::atomic<std::uint64_t> addr{0};
    Shared shared;
};

Place& make_place() {
    void* const at = mmap(nullptr, sizeof(Place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    return *new (at) Place;
}

constexpr std::size_t kFileBytes = 65536;

int memory_file() {
    const int file = memfd_create("test", MFD_CLOEXEC);
    need(ftruncate(file, kFileBytes) == 0);
    return file;
}

std::uint64_t mapped(int file, int flags, int protection = PROT_READ | PROT_WRITE) {
    void* const at = mmap(nullptr, kFileBytes, protection, flags, file, 0);
    need(at != MAP_FAILED);
    return reinterpret_cast<std::uintptr_t>(at);
}

// A file with a name, which each test has for itself.
class NamedFile {
  public:
    NamedFile() {
        path = "/dev/shm/sluice-test-XXXXXX";
        file_ = mkostemp(path.data(), O_CLOEXEC);
        assert_true(file_ >= 0);
        assert_int_equal(ftruncate(file_, kFileBytes), 0);
    }
    ~NamedFile() {
        unlink(path.c_str());
        close_it();
    }
    NamedFile(const NamedFile&) = delete;
    NamedFile& operator=(const NamedFile&) = delete;
    void close_it() {
        if (file_ >= 0) {
            close(std::exchange(file_, -1));
        }
    }
    static inline std::string path; // of the one that there is: a child's function takes no argument

  private:
    int file_ = -1;
};

std::uint64_t open_and_map_named() {
    const int file = open(NamedFile::path.c_str(), O_RDWR | O_CLOEXEC);
    need(file >= 0);
    const std::uint64_t at = mapped(file, MAP_SHARED);
    close(file);
    return at;
}

// A child that has what MAKE mapped, and this process's way to it.
struct Mapper {
    explicit Mapper(std::uint64_t (*make)())
        : place(make_place()),
          child(start(place.shared,
                      [&](Shared& its) {
                          place.addr = make();
                          be_ready(its);
                          const auto* const bytes = reinterpret_cast<const char*>(place.addr.load());
                          _exit(bytes[100] == 'w' ? 0 : 1);
                      })),
          regions(child) {}
    near::SeenRegion seen(std::uint32_t version = 2, std::uint64_t len = kFileBytes) const {
        return {{.key = 7 << 8, .access = engine::kRemoteWrite, .host_addr = place.addr, .len_bytes = len},
                version};
    }
    std::optional<std::uint64_t> find(const near::SeenRegion& region, std::uint64_t offset = 0,
                                      std::uint64_t len = 1) {
        regions.before_use(region, near::SharedRegions::Search::kNow);
        return regions.find(region, {place.addr + offset, len});
    }
    bool sees_what_is_written() {
        if (const auto here = find(seen(), 100)) {
            *reinterpret_cast<char*>(*here) = 'w';
        }
        place.shared.stage = 2;
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        return status == 0;
    }
    void finish() { end(child); }

    Place& place;
    const pid_t child;
    near::SharedRegions regions;
};

TEST(region__in_a_file_that_its_process_has_open__is_mapped_here) {
    if (!kernel_lets_us()) {
        skip(); // nor does it show other processes as they are
    }
    Mapper mapper([] { return mapped(memory_file(), MAP_SHARED); });
    assert_true(mapper.sees_what_is_written());
}

TEST(region__in_a_file_that_has_a_name__is_mapped_here_unless_it_is_open_here) {
    if (!kernel_lets_us()) {
        skip(); // nor does it show other processes as they are
    }
    NamedFile file;
    Mapper mapper(open_and_map_named);
    // Closing a descriptor of it would take our locks.
    const bool is_mapped_while_open = mapper.find(mapper.seen(4)).has_value();
    file.close_it();
    const bool is_seen = mapper.sees_what_is_written();
    assert_false(is_mapped_while_open);
    assert_true(is_seen);
}

TEST(region__that_its_process_may_not_write__is_not_mapped) {
    if (!kernel_lets_us()) {
        skip(); // nor does it show other processes as they are
    }
    Mapper mapper([] { return mapped(memory_file(), MAP_SHARED, PROT_READ); });
    assert_false(mapper.find(mapper.seen()).has_value());
    near::SeenRegion to_read = mapper.seen(4);
    to_read.region.access = engine::kRemoteRead;
    assert_true(mapper.find(to_read).has_value());
    mapper.finish();
}

TEST(region__of_huge_pages__is_mapped_and_unmapped) {
    constexpr std::size_t kHuge = std::size_t{2} << 20;
    const int huge = memfd_create("test", MFD_CLOEXEC | MFD_HUGETLB);
    if (!kernel_lets_us() || huge < 0 || ftruncate(huge, kHuge) != 0 ||
        mmap(nullptr, kHuge, PROT_READ | PROT_WRITE, MAP_SHARED, huge, 0) == MAP_FAILED) {
        skip(); // this machine has none
    }
    close(huge);
    Mapper mapper([] {
        const int file = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
        need(ftruncate(file, kHuge) == 0);
        void* const at = mmap(nullptr, kHuge, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        need(at != MAP_FAILED);
        return reinterpret_cast<std::uintptr_t>(at) + 4096;
    });
    assert_true(mapper.find(mapper.seen()).has_value());
    assert_true(mapper.find(mapper.seen(4)).has_value());
    mapper.finish();
}

TEST(region__that_is_private__is_not_mapped) {
    if (!kernel_lets_us()) {
        skip(); // nor does it show other processes as they are
    }
    Mapper anonymous([] { return mapped(-1, MAP_PRIVATE | MAP_ANONYMOUS); });
    assert_false(anonymous.find(anonymous.seen()).has_value());
    anonymous.finish();
    Mapper copy([] { return mapped(memory_file(), MAP_PRIVATE); });
    assert_false(copy.find(copy.seen()).has_value());
    copy.finish();
}

TEST(region__longer_than_its_mapping__is_not_mapped) {
    if (!kernel_lets_us()) {
        skip(); // nor does it show other processes as they are
    }
    Mapper mapper([] { return mapped(memory_file(), MAP_SHARED); });
    assert_false(mapper.find(mapper.seen(2, kFileBytes + 1)).has_value());
    assert_true(mapper.find(mapper.seen(4)).has_value()); // another registration
    mapper.finish();
}

TEST(region__of_a_process_that_has_ended__is_not_mapped) {
    if (!kernel_lets_us()) {
        skip(); // nor does it show other processes as they are
    }
    Mapper mapper([] { return mapped(memory_file(), MAP_SHARED); });
    mapper.finish();
    assert_false(mapper.find(mapper.seen()).has_value());
}

// What a board says later about the same registration, its owner may have made up: behind the mapping lies
// this process's own memory.
TEST(region__grown_under_its_version__what_is_not_mapped_is_not_found) {
    if (!kernel_lets_us()) {
        skip(); // nor does it show other processes as they are
    }
    Mapper mapper([] { return mapped(memory_file(), MAP_SHARED); });
    assert_true(mapper.find(mapper.seen(2, 4096)).has_value());
    const near::SeenRegion wild = mapper.seen(2, ~std::uint64_t{0});
    for (const std::uint64_t offset : {std::uint64_t{4096}, std::uint64_t{8192}, std::uint64_t{1} << 40,
                                       ~std::uint64_t{0}, ~std::uint64_t{0} - 4095}) {
        assert_false(mapper.find(wild, offset).has_value());
    }
    assert_false(mapper.find(wild, 4095, 2).has_value());
    assert_false(mapper.find(wild, 0, ~std::uint64_t{0}).has_value());
    assert_true(mapper.find(wild, 4095, 1).has_value());
    mapper.finish();
}

// Looking for it takes a while: not for what is used once.
TEST(region__used_some_times__is_mapped_then) {
    if (!kernel_lets_us()) {
        skip(); // nor does it show other processes as they are
    }
    Mapper mapper([] { return mapped(memory_file(), MAP_SHARED); });
    int uses = 0;
    while (!mapper.regions.find(mapper.seen(), {mapper.place.addr, 1})) {
        mapper.regions.before_use(mapper.seen(), near::SharedRegions::Search::kAfterSomeUses);
        assert_true(++uses < 100);
    }
    assert_true(uses > 1);
    mapper.finish();
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
