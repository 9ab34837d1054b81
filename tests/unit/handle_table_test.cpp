// SPDX-License-Identifier: BSD-3-Clause
#include "core/handle_table.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <set>
#include <thread>
#include <unordered_set>
#include <vector>

#include "tests/cmocka.hpp"

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

constexpr int kFront = 0; // its address is what a registry would find through a handle

void* handle_of(HandleTable& table, Cat& cat) {
    Result<void*> handle = table.insert(&cat, &kFront);
    assert_true(handle.ok());
    return *handle;
}

Cat* retire(HandleTable& table, void* handle) {
    Result<Pin<Cat>> pin = table.get<Cat>(handle);
    assert_true(pin.ok());
    Result<Cat*> cat = table.retire(*std::move(pin));
    assert_true(cat.ok());
    return *cat;
}

bool is_live(HandleTable& table, const void* handle) {
    return table.get<Cat>(handle).ok();
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
void get__any_pointer__only_the_handle_itself_is_valid(void**) {
    HandleTable table;
    Cat cat;
    void* handle = handle_of(table, cat);
    void* unmapped = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(unmapped, MAP_FAILED);
    for (const std::uintptr_t pointer :
         {std::uintptr_t{0}, std::uintptr_t{1}, std::uintptr_t{26}, ~std::uintptr_t{0}, ~std::uintptr_t{7},
          reinterpret_cast<std::uintptr_t>(unmapped), reinterpret_cast<std::uintptr_t>(&cat)}) {
        assert_false(is_live(table, reinterpret_cast<void*>(pointer)));
    }
    for (std::intptr_t distance = -256; distance <= 256; ++distance) {
        const auto near = reinterpret_cast<void*>(reinterpret_cast<std::intptr_t>(handle) + distance);
        assert_int_equal(is_live(table, near), distance == 0);
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

void try_retire__pinned_elsewhere__busy_and_still_valid(void**) {
    HandleTable table;
    Cat cat;
    void* handle = handle_of(table, cat);
    Result<Pin<Cat>> mine = table.get<Cat>(handle);
    {
        const Result<Pin<Cat>> other = table.get<Cat>(handle);
        const Result<Cat*> refused = table.try_retire(*mine);
        assert_true(refused.error().kind() == ErrorKind::kBusy);
        assert_int_equal((*mine)->lives, 9);
        assert_true(is_live(table, handle));
    }
    assert_true(table.try_retire(*mine).ok());
    assert_false(is_live(table, handle));
}

void retire__waits_for_the_pins_of_others(void**) {
    HandleTable table;
    Cat cat;
    void* handle = handle_of(table, cat);
    std::atomic<bool> pinned{false};
    std::atomic<bool> done{false};
    std::thread user([&] {
        const Result<Pin<Cat>> pin = table.get<Cat>(handle);
        pinned.store(true);
        pinned.notify_all();
        while (is_live(table, handle)) { // until the retirer has begun
            std::this_thread::yield();
        }
        (*pin)->lives = 1; // the object is still ours
        done.store(true);
    });
    pinned.wait(false);
    Cat* retired = retire(table, handle);
    assert_true(done.load());
    assert_int_equal(retired->lives, 1);
    user.join();
}

// Threads use, free and make handles of each other. An object carries a mark while it lives;
// whoever gets a pin must see it set, and every object comes back from retire() exactly once.
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
            Result<Pin<Marked>> pin = table.get<Marked>(place.load());
            if (!pin) {
                auto* object = new Marked;
                Result<void*> handle = table.insert(object, &kFront);
                ++made;
                void* old = place.exchange(*handle);
                // Whoever was there lost its place: free it, unless somebody else just does.
                if (Result<Pin<Marked>> lost = table.get<Marked>(old)) {
                    if (Result<Marked*> back = table.retire(*std::move(lost))) {
                        delete *back;
                        ++destroyed;
                    }
                }
            } else if (random() % 4 == 0) {
                if (Result<Marked*> back = table.retire(*std::move(pin))) {
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
        if (Result<Pin<Marked>> pin = table.get<Marked>(place.load())) {
            delete *table.retire(*std::move(pin));
            ++destroyed;
        }
    }
    assert_int_equal(dead_seen.load(), 0);
    assert_int_equal(made.load(), destroyed.load());
    assert_int_equal(table.live(), 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(get__live_handle__gives_the_object),
        cmocka_unit_test(get__other_kind__invalid_handle),
        cmocka_unit_test(get__retired_handle__invalid_handle),
        cmocka_unit_test(get__empty_table__invalid_handle),
        cmocka_unit_test(get__any_pointer__only_the_handle_itself_is_valid),
        cmocka_unit_test(get__pointers_at_random__never_valid_never_a_crash),
        cmocka_unit_test(front__is_the_first_word_even_of_a_stale_handle),
        cmocka_unit_test(reuse__same_slot__handles_of_the_last_uses_differ),
        cmocka_unit_test(quarantine__slot_is_not_reused_before_that_many_frees),
        cmocka_unit_test(insert__all_slots_in_use__insufficient_resources_then_works_again),
#if !defined(SLUICE_UNDER_SANITIZER) && !defined(TEST_EMULATED)
        cmocka_unit_test(insert__no_address_space__insufficient_resources_not_a_crash),
#endif
        cmocka_unit_test(retire__second_time__invalid_handle),
        cmocka_unit_test(try_retire__pinned_elsewhere__busy_and_still_valid),
        cmocka_unit_test(retire__waits_for_the_pins_of_others),
        cmocka_unit_test(many_threads__no_pin_outlives_its_object),
    };
    return cmocka_run_group_tests_name("core.handle_table", tests, nullptr, nullptr);
}
