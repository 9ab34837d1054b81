// SPDX-License-Identifier: BSD-3-Clause
//
// Without any dat.conf: devices by name through our own provider, for which own_provider.cpp stands
// in, and its handles, live and stale.
#include <dat/dat_registry.h>
#include <dlfcn.h>
#include <sluice/dat.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/cmocka.hpp"
#include "udapl/registry/provider_v1.h"

namespace {

constexpr DAT_RETURN kInvalid = DAT_CLASS_ERROR | DAT_INVALID_HANDLE;

bool is_loaded() {
    return dlopen("libdapl-sluice.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr;
}

DAT_IA_HANDLE must_open(std::string name) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    const DAT_RETURN status = dat_ia_open(name.data(), 8, &evd, &ia);
    if (status != DAT_SUCCESS) {
        fail_msg("%s: 0x%x", name.c_str(), status);
    }
    return ia;
}

DAT_PZ_HANDLE must_create_pz(DAT_IA_HANDLE ia) {
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    assert_int_equal(dat_pz_create(ia, &pz), DAT_SUCCESS);
    return pz;
}

void must_close(DAT_IA_HANDLE ia) {
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

TEST(list__no_dat_conf__the_devices_that_are_there) {
    DAT_PROVIDER_INFO infos[4];
    DAT_PROVIDER_INFO* pointers[] = {&infos[0], &infos[1], &infos[2], &infos[3]};
    DAT_COUNT count = 0;
    assert_int_equal(dat_registry_list_providers(4, &count, pointers), DAT_SUCCESS);
    assert_int_equal(count, 2);
    assert_string_equal(infos[0].ia_name, "fake0");
    assert_string_equal(infos[1].ia_name, "fake1");
    assert_int_equal(infos[0].dapl_version_major, 1);
    assert_int_equal(infos[0].dapl_version_minor, 2);
    assert_int_equal(infos[0].is_thread_safe, DAT_TRUE);
    // Opened by another name it is still the same device, and open ones aren't listed twice.
    DAT_IA_HANDLE by_netdev = must_open("eth-fake");
    DAT_IA_HANDLE by_name = must_open("fake0");
    assert_int_equal(dat_registry_list_providers(4, &count, pointers), DAT_SUCCESS);
    assert_int_equal(count, 2);
    must_close(by_netdev);
    must_close(by_name);
}

TEST(open__device__by_each_of_its_names) {
    for (const char* name : {"fake0", "fake1", "eth-fake", "192.0.2.1", "RO_AWARE_fake0"}) {
        must_close(must_open(name));
    }
    DAT_IA_HANDLE ia = &ia;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    char unknown[] = "fake2";
    assert_int_equal(dat_ia_open(unknown, 8, &evd, &ia),
                     DAT_CLASS_ERROR | DAT_PROVIDER_NOT_FOUND | DAT_NAME_NOT_REGISTERED);
    char known[] = "fake0";
    assert_int_equal(dat_ia_openv(known, 8, &evd, &ia, 1, 3, DAT_FALSE),
                     DAT_CLASS_ERROR | DAT_PROVIDER_NOT_FOUND | DAT_MINOR_NOT_FOUND);
    assert_int_equal(dat_ia_openv(known, 8, &evd, &ia, 1, 2, DAT_TRUE), DAT_SUCCESS);
    must_close(ia);
}

TEST(handles__freed__invalid_while_open_and_ever_after) {
    DAT_IA_HANDLE ia = must_open("fake0");
    DAT_PZ_HANDLE pz = must_create_pz(ia);
    assert_int_equal(dat_pz_free(pz), DAT_SUCCESS);
    assert_int_equal(dat_pz_free(pz), kInvalid | DAT_INVALID_HANDLE_PZ);
    DAT_PZ_HANDLE alive = must_create_pz(ia);
    must_close(ia);
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), kInvalid | DAT_INVALID_HANDLE_IA);
    // The last IA is closed, the provider has said goodbye, and still answers.
    assert_int_equal(dat_pz_create(ia, &pz), kInvalid | DAT_INVALID_HANDLE_IA);
    assert_int_equal(dat_pz_free(pz), kInvalid | DAT_INVALID_HANDLE_PZ);
    assert_int_equal(dat_pz_free(alive), DAT_SUCCESS); // this stand-in frees nothing at close
    assert_true(is_loaded());
}

TEST(handles__of_another_kind__invalid_of_the_kind_that_was_wanted) {
    DAT_IA_HANDLE ia = must_open("fake0");
    DAT_PZ_HANDLE pz = must_create_pz(ia);
    assert_int_equal(dat_ep_free(pz), kInvalid | DAT_INVALID_HANDLE_EP);
    assert_int_equal(dat_pz_free(ia), kInvalid | DAT_INVALID_HANDLE_PZ);
    assert_int_equal(dat_ia_close(pz, DAT_CLOSE_ABRUPT_FLAG), kInvalid | DAT_INVALID_HANDLE_IA);
    // What the stand-in doesn't implement.
    assert_int_equal(dat_lmr_free(pz), DAT_CLASS_ERROR | DAT_NOT_IMPLEMENTED);
    assert_int_equal(dat_pz_free(pz), DAT_SUCCESS);
    must_close(ia);
}

TEST(handles__any_number__invalid_and_nothing_is_read) {
    DAT_IA_HANDLE ia = must_open("fake0");
    DAT_PZ_HANDLE pz = must_create_pz(ia);
    const auto query = reinterpret_cast<dapl_sluice_query_v1_function>(
        dlsym(dlopen("libdapl-sluice.so.1", RTLD_NOW | RTLD_NOLOAD), DAPL_SLUICE_QUERY_V1));
    assert_non_null(query);
    const auto begin = reinterpret_cast<std::uintptr_t>(query()->handles);
    std::mt19937_64 random(20261120);
    for (int i = 0; i < 100000; ++i) {
        // Half of them within the range of handles, of which only two are live.
        const std::uintptr_t number = random();
        const std::uintptr_t address = i % 2 == 0 ? number : begin + number % query()->handles_size;
        auto* const handle = reinterpret_cast<DAT_HANDLE>(address);
        if (handle != pz) {
            assert_int_equal(dat_pz_free(handle), kInvalid | DAT_INVALID_HANDLE_PZ);
        }
    }
    assert_int_equal(dat_pz_free(pz), DAT_SUCCESS);
    must_close(ia);
}

TEST(threads__opening_closing_and_using_stale_handles__nothing_is_lost) {
    constexpr int kThreads = 6;
    constexpr int kRounds = 200;
    static constexpr const char* kNames[] = {"fake0", "fake1", "eth-fake"};
    std::atomic<int> wrong{0};
    std::atomic<DAT_PZ_HANDLE> shared{DAT_HANDLE_NULL};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([t, &wrong, &shared] {
            for (int round = 0; round < kRounds; ++round) {
                std::string name = kNames[(t + round) % 3];
                DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
                DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
                DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
                if (dat_ia_open(name.data(), 8, &evd, &ia) != DAT_SUCCESS ||
                    dat_pz_create(ia, &pz) != DAT_SUCCESS) {
                    ++wrong;
                    continue;
                }
                // Of those that free one handle, one succeeds.
                DAT_PZ_HANDLE others = shared.exchange(pz);
                const DAT_RETURN freed = dat_pz_free(pz);
                if (freed != DAT_SUCCESS && freed != (kInvalid | DAT_INVALID_HANDLE_PZ)) {
                    ++wrong;
                }
                if (others != DAT_HANDLE_NULL && dat_pz_free(others) == DAT_INTERNAL_ERROR) {
                    ++wrong;
                }
                if (dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) != DAT_SUCCESS) {
                    ++wrong;
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    assert_int_equal(wrong.load(), 0);
}

} // namespace

int main() {
    unsetenv("DAT_OVERRIDE");
    int entries = 0;
    const int status = sluice_dat_list_entries(
        nullptr,
        [](void* count, const sluice_dat_entry* entry) {
            *static_cast<int*>(count) += entry->problem[0] == '\0' ? 1 : 0;
        },
        &entries);
    if (status != 0 || entries > 0) {
        std::puts("SKIP: this machine has a dat.conf");
        return 77;
    }
    return sluice::test::run_all_tests();
}
