// SPDX-License-Identifier: BSD-3-Clause
#include "core/handle_table.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <set>
#include <thread>
#include <unordered_set>
#include <vector>

#include "tests/cmocka.hpp"
#include "tests/sandbox.hpp"

using sluice::ErrorKind;
using sluice::HandleTable;
using sluice::Pin;
using sluice::Result;

namespace {

struct Cat {
    static constexpr sluice::HandleKind kHandleKind = 1;
    std::uint64_t lives = 9;
};
struct Dog {
    static constexpr sluice::HandleKind kHandleKind = 2;
    std::uint64_t tricks = 0;
};

struct Marked {
    static constexpr sluice::HandleKind kHandleKind = 7;
    std::uint64_t alive = 1;
};

// Of kinds whose pins aren't counted.
struct Hound {
    static constexpr sluice::HandleKind kHandleKind = 3;
    static constexpr bool kIsHot = true;
    std::uint64_t lives = 1;
};
struct HotMarked {
    static constexpr sluice::HandleKind kHandleKind = 8;
    static constexpr bool kIsHot = true;
    std::uint64_t alive = 1;
};

constexpr int kFront = 0; // its address is what a registry would find through a handle

template<typename T>
void* handle_of(HandleTable& table, T& object) {
    Result<void*> handle = table.insert(&object, &kFront);
    assert_true(handle.ok());
    return *handle;
}

template<typename T = Cat>
T* retire(HandleTable& table, void* handle) {
    Result<Pin<T>> pin = table.get<T>(handle);
    assert_true(pin.ok());
    Result<T*> object = table.retire(*std::move(pin));
    assert_true(object.ok());
    return *object;
}

template<typename T = Cat>
bool is_live(HandleTable& table, const void* handle) {
    return table.get<T>(handle).ok();
}

// Waits until a retirer has begun. False: none does.
template<typename T>
bool is_ending(HandleTable& table, const void* handle) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (is_live<T>(table, handle)) {
        if (std::chrono::steady_clock::now() > end) {
            return false;
        }
        std::this_thread::yield();
    }
    return true;
}

void get__live_handle__gives_the_object(void**) {
    HandleTable table;
    Cat cat;
    void* handle = handle_of(table, cat);
    const Result<Pin<Cat>> pin = table.get<Cat>(handle);
    assert_true(pin.ok());
    assert_ptr_equal(pin->get(), &cat);
    assert_int_equal((*pin)->lives, 9);
    assert_int_equal(table.live(), 1);
}

void get__other_kind__invalid_handle(void**) {
    HandleTable table;
    Cat cat;
    void* handle = handle_of(table, cat);
    const Result<Pin<Dog>> pin = table.get<Dog>(handle);
    assert_true(pin.error().kind() == ErrorKind::kInvalidHandle);
}

void get__retired_handle__invalid_handle(void**) {
    HandleTable table;
    Cat cat;
    void* handle = handle_of(table, cat);
    assert_ptr_equal(retire(table, handle), &cat);
    assert_false(is_live(table, handle));
    assert_int_equal(table.live(), 0);
}

void get__empty_table__invalid_handle(void**) {
    HandleTable table;
    assert_false(is_live(table, &table));
    assert_false(is_live(table, nullptr));
}

// Null, tiny integers, the ends of the address space, unmapped memory, and every byte around a
// live handle: all answered, none read.
template<typename T>
void get__any_pointer__only_the_handle_itself_is_valid(void**) {
    HandleTable table;
    T cat;
    void* handle = handle_of(table, cat);
    void* unmapped = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(unmapped, MAP_FAILED);
    for (const std::uintptr_t pointer :
         {std::uintptr_t{0}, std::uintptr_t{1}, std::uintptr_t{26}, ~std::uintptr_t{0}, ~std::uintptr_t{7},
          reinterpret_cast<std::uintptr_t>(unmapped), reinterpret_cast<std::uintptr_t>(&cat)}) {
        assert_false(is_live<T>(table, reinterpret_cast<void*>(pointer)));
    }
    for (std::intptr_t distance = -256; distance <= 256; ++distance) {
        const auto near = reinterpret_cast<void*>(reinterpret_cast<std::intptr_t>(handle) + distance);
        assert_int_equal(is_live<T>(table, near), distance == 0);
    }
    munmap(unmapped, 4096);
}

void get__pointers_at_random__never_valid_never_a_crash(void**) {
    constexpr std::uint64_t kSeed = 20261120;
    print_message("seed %llu\n", static_cast<unsigned long long>(kSeed));
    std::mt19937_64 random(kSeed);
    HandleTable table;
    Cat cat;
    void* handle = handle_of(table, cat);
    const auto base = reinterpret_cast<std::uintptr_t>(handle);
    for (int i = 0; i < 200'000; ++i) {
        const std::uintptr_t pointer = i % 2 == 0 ? random() : base + (random() % (1U << 27)) - (1U << 26);
        if (pointer != base) {
            assert_false(is_live(table, reinterpret_cast<void*>(pointer)));
        }
    }
}

void front__is_the_first_word_even_of_a_stale_handle(void**) {
    HandleTable table(8, 0);
    Cat cat;
    for (int i = 0; i < 10; ++i) {
        void* handle = handle_of(table, cat);
        assert_ptr_equal(*static_cast<const void**>(handle), &kFront);
        retire(table, handle);
        assert_ptr_equal(*static_cast<const void**>(handle), &kFront);
    }
}

void reuse__same_slot__handles_of_the_last_uses_differ(void**) {
    HandleTable table(1, 0);
    Cat cat;
    std::set<void*> recent;
    for (int i = 0; i < 4; ++i) {
        void* handle = handle_of(table, cat);
        assert_true(recent.insert(handle).second);
        for (void* old : recent) {
            assert_int_equal(is_live(table, old), old == handle);
        }
        retire(table, handle);
    }
}

void quarantine__slot_is_not_reused_before_that_many_frees(void**) {
    constexpr std::uint32_t kQuarantine = 64;
    HandleTable table(1024, kQuarantine);
    Cat cat;
    const auto slot_of = [](void* handle) { return reinterpret_cast<std::uintptr_t>(handle) / 64; };
    void* first = handle_of(table, cat);
    retire(table, first);
    std::unordered_set<std::uintptr_t> slots;
    for (std::uint32_t i = 0; i < kQuarantine; ++i) {
        void* handle = handle_of(table, cat);
        assert_true(slot_of(handle) != slot_of(first));
        slots.insert(slot_of(handle));
        retire(table, handle);
    }
    assert_int_equal(slots.size(), kQuarantine);
    assert_int_equal(slot_of(handle_of(table, cat)), slot_of(first)); // and now it comes back
}

void insert__all_slots_in_use__insufficient_resources_then_works_again(void**) {
    HandleTable table(3000, 100); // grows in steps, the last one short
    std::vector<Cat> cats(3000);
    std::vector<void*> handles;
    for (Cat& cat : cats) {
        handles.push_back(handle_of(table, cat));
    }
    Cat one_more;
    const Result<void*> refused = table.insert(&one_more, &kFront);
    assert_true(refused.error().kind() == ErrorKind::kInsufficientResources);
    assert_ptr_equal(retire(table, handles[1234]), &cats[1234]);
    assert_true(table.insert(&one_more, &kFront).ok());
    for (std::size_t i = 0; i < handles.size(); ++i) {
        assert_int_equal(is_live(table, handles[i]), i != 1234);
    }
}

// A sanitizer needs the address space that this takes away; user-mode emulation ignores it.
#if !defined(SLUICE_UNDER_SANITIZER) && !defined(TEST_EMULATED)
void insert__no_address_space__insufficient_resources_not_a_crash(void**) {
    const pid_t child = fork();
    if (child == 0) {
        // Room for what the process has by now, not for a table of 64 MiB.
        const rlimit limit{1, 1};
        setrlimit(RLIMIT_AS, &limit);
        HandleTable table;
        Cat cat;
        const Result<void*> handle = table.insert(&cat, &kFront);
        const bool refused = !handle.ok() && handle.error().kind() == ErrorKind::kInsufficientResources;
        _exit(refused && !is_live(table, &cat) ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}
#endif

void reserve__any_time__gives_the_range_of_all_handles(void**) {
    HandleTable table(100);
    const Result<sluice::HandleRange> range = table.reserve();
    assert_true(range.ok());
    assert_int_equal(range->size_bytes, 100 * 64);
    const auto begin = reinterpret_cast<std::uintptr_t>(range->begin);
    assert_false(is_live(table, range->begin));
    Cat cats[3];
    for (Cat& cat : cats) {
        assert_true(reinterpret_cast<std::uintptr_t>(handle_of(table, cat)) - begin < range->size_bytes);
    }
    assert_ptr_equal(table.reserve()->begin, range->begin);
}

void retire__second_time__invalid_handle(void**) {
    HandleTable table;
    Cat cat;
    void* handle = handle_of(table, cat);
    Result<Pin<Cat>> first = table.get<Cat>(handle);
    assert_true(first.ok());
    retire(table, handle_of(table, cat)); // another handle of the same object is independent
    assert_true(table.retire(*std::move(first)).ok());
    assert_false(table.get<Cat>(handle).ok());
}

template<typename T>
void retire__waits_for_the_pins_of_others(void**) {
    HandleTable table;
    T object;
    void* handle = handle_of(table, object);
    std::atomic<bool> pinned{false};
    std::atomic<bool> done{false};
    bool ending = false;
    std::thread user([&] {
        const Result<Pin<T>> pin = table.get<T>(handle);
        pinned.store(true);
        pinned.notify_all();
        ending = is_ending<T>(table, handle);
        (*pin)->lives = 1; // the object is still ours
        done.store(true);
    });
    pinned.wait(false);
    T* retired = retire<T>(table, handle);
    assert_true(done.load());
    assert_int_equal(retired->lives, 1);
    user.join();
    assert_true(ending);
}

// A thread may hold more than it has room to note; the others are counted.
void get__more_pins_than_a_thread_has_entries__each_is_one(void**) {
    constexpr std::size_t kPins = sluice::thread_pins::kEntries + 3;
    HandleTable table;
    std::vector<Hound> hounds(kPins);
    std::vector<void*> handles;
    std::vector<Pin<Hound>> pins;
    for (Hound& hound : hounds) {
        handles.push_back(handle_of(table, hound));
        pins.push_back(*table.get<Hound>(handles.back()));
    }
    std::atomic<std::size_t> retired{0};
    std::thread retirer([&] {
        for (void* const handle : handles) {
            Result<Pin<Hound>> pin = table.get<Hound>(handle);
            if (pin && table.retire(*std::move(pin))) {
                retired.fetch_add(1);
                retired.notify_all();
            }
        }
    });
    for (std::size_t i = 0; i < kPins; ++i) {
        assert_true(is_ending<Hound>(table, handles[i]));
        assert_int_equal(retired.load(), i); // it waits for this one
        assert_int_equal(pins.front()->lives, 1);
        pins.erase(pins.begin());
        retired.wait(i);
    }
    retirer.join();
    assert_int_equal(table.live(), 0);
}

void get__wrong_handle_of_a_hot_kind__leaves_nothing_pinned(void**) {
    HandleTable table;
    Hound hound;
    Cat cat;
    void* handle = handle_of(table, hound);
    void* other = handle_of(table, cat);
    for (int i = 0; i < 20; ++i) {
        assert_false(is_live<Hound>(table, other));
        assert_false(is_live<Cat>(table, handle));
    }
    assert_ptr_equal(retire<Hound>(table, handle), &hound);
    assert_false(is_live<Hound>(table, handle));
    assert_ptr_equal(retire<Cat>(table, other), &cat);
}

// Whose destructor runs among the last things that a thread does.
struct Late {
    ~Late() {
        if (table != nullptr) {
            const Result<Pin<Hound>> pin = table->get<Hound>(handle);
            *saw_it = pin.ok() && (*pin)->lives == 1;
        }
    }
    HandleTable* table = nullptr;
    void* handle = nullptr;
    bool* saw_it = nullptr;
};
thread_local Late late;

void get__in_a_threads_last_destructor__pins_and_unpins(void**) {
    HandleTable table;
    Hound hound;
    void* handle = handle_of(table, hound);
    bool saw_it = false;
    std::thread([&] {
        late = {&table, handle, &saw_it}; // before the thread's entries, and so destroyed after them
        (void)is_live<Hound>(table, handle);
    }).join();
    assert_true(saw_it);
    assert_ptr_equal(retire<Hound>(table, handle), &hound);
}

// Threads use, free and make handles of each other. An object carries a mark while it lives;
// whoever gets a pin must see it set, and every object comes back from retire() exactly once.
template<typename T>
void many_threads__no_pin_outlives_its_object(void**) {
    constexpr int kThreads = 4;
    constexpr int kRounds = 4'000;
    constexpr std::size_t kHandles = 16;
    HandleTable table(256, 32);
    std::vector<std::atomic<void*>> handles(kHandles);
    std::atomic<int> made{0};
    std::atomic<int> destroyed{0};
    std::atomic<int> dead_seen{0};
    const auto work = [&](unsigned seed) {
        std::mt19937 random(seed);
        for (int round = 0; round < kRounds; ++round) {
            std::atomic<void*>& place = handles[random() % kHandles];
            Result<Pin<T>> pin = table.get<T>(place.load());
            if (!pin) {
                auto* object = new T;
                Result<void*> handle = table.insert(object, &kFront);
                ++made;
                void* old = place.exchange(*handle);
                // Whoever was there lost its place: free it, unless somebody else just does.
                if (Result<Pin<T>> lost = table.get<T>(old)) {
                    if (Result<T*> back = table.retire(*std::move(lost))) {
                        delete *back;
                        ++destroyed;
                    }
                }
            } else if (random() % 4 == 0) {
                if (Result<T*> back = table.retire(*std::move(pin))) {
                    dead_seen += (*back)->alive != 1;
                    (*back)->alive = 0;
                    delete *back;
                    ++destroyed;
                }
            } else {
                dead_seen += (*pin)->alive != 1;
            }
        }
    };
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
        threads.emplace_back(work, t + 1);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (std::atomic<void*>& place : handles) {
        if (Result<Pin<T>> pin = table.get<T>(place.load())) {
            delete *table.retire(*std::move(pin));
            ++destroyed;
        }
    }
    assert_int_equal(dead_seen.load(), 0);
    assert_int_equal(made.load(), destroyed.load());
    assert_int_equal(table.live(), 0);
}

// Sanitizers use no membarrier, and emulation knows no filters.
#if !defined(__SANITIZE_THREAD__) && !defined(TEST_EMULATED)
void many_threads__kernel_refuses_from_the_beginning__the_same(void**) {
    assert_true(test::is_true_in_child([] {
        const bool is_refused = test::refuse(SYS_membarrier);
        many_threads__no_pin_outlives_its_object<HotMarked>(nullptr);
        return is_refused && !sluice::thread_pins::is_own(sluice::thread_pins::mine);
    }));
}

void retire__kernel_refuses_since__still_waits(void**) {
    (void)sluice::thread_pins::find();
    assert_true(test::is_true_in_child([] {
        const bool is_refused = test::refuse(SYS_membarrier);
        retire__waits_for_the_pins_of_others<Hound>(nullptr);
        return is_refused && sluice::thread_pins::is_own(sluice::thread_pins::mine);
    }));
}
#endif

} // namespace

int main() {
    const CMUnitTest tests[] = {
#if !defined(__SANITIZE_THREAD__) && !defined(TEST_EMULATED)
        cmocka_unit_test(many_threads__kernel_refuses_from_the_beginning__the_same), // before anybody asked
        cmocka_unit_test(retire__kernel_refuses_since__still_waits),
#endif
        cmocka_unit_test(get__live_handle__gives_the_object),
        cmocka_unit_test(get__other_kind__invalid_handle),
        cmocka_unit_test(get__retired_handle__invalid_handle),
        cmocka_unit_test(get__empty_table__invalid_handle),
        cmocka_unit_test(get__any_pointer__only_the_handle_itself_is_valid<Cat>),
        cmocka_unit_test(get__any_pointer__only_the_handle_itself_is_valid<Hound>),
        cmocka_unit_test(get__wrong_handle_of_a_hot_kind__leaves_nothing_pinned),
        cmocka_unit_test(get__more_pins_than_a_thread_has_entries__each_is_one),
        cmocka_unit_test(get__in_a_threads_last_destructor__pins_and_unpins),
        cmocka_unit_test(get__pointers_at_random__never_valid_never_a_crash),
        cmocka_unit_test(front__is_the_first_word_even_of_a_stale_handle),
        cmocka_unit_test(reuse__same_slot__handles_of_the_last_uses_differ),
        cmocka_unit_test(quarantine__slot_is_not_reused_before_that_many_frees),
        cmocka_unit_test(insert__all_slots_in_use__insufficient_resources_then_works_again),
#if !defined(SLUICE_UNDER_SANITIZER) && !defined(TEST_EMULATED)
        cmocka_unit_test(insert__no_address_space__insufficient_resources_not_a_crash),
#endif
        cmocka_unit_test(reserve__any_time__gives_the_range_of_all_handles),
        cmocka_unit_test(retire__second_time__invalid_handle),
        cmocka_unit_test(retire__waits_for_the_pins_of_others<Cat>),
        cmocka_unit_test(retire__waits_for_the_pins_of_others<Hound>),
        cmocka_unit_test(many_threads__no_pin_outlives_its_object<Marked>),
        cmocka_unit_test(many_threads__no_pin_outlives_its_object<HotMarked>),
    };
    return cmocka_run_group_tests_name("core.handle_table", tests, nullptr, nullptr);
}
