// SPDX-License-Identifier: BSD-3-Clause
//
// The registry as programs and providers see it, with a dat.conf that names a foreign provider.
#include <dat/dat_registry.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/cmocka.hpp"
#include "tests/machine.hpp"

namespace {

constexpr DAT_RETURN kBadArgument = DAT_CLASS_ERROR | DAT_INVALID_PARAMETER;

std::string conf_entry(const std::string& name, const std::string& api, const std::string& safety,
                       const std::string& data, const std::string& library = TEST_FOREIGN) {
    return name + " " + api + " " + safety + " default " + library + " test.1.0 \"" + data + "\" \"\"\n";
}

const std::string kConf = conf_entry("plain", "u1.2", "nonthreadsafe", "") +     //
                          conf_entry("other", "u1.2", "nonthreadsafe", "") +     //
                          conf_entry("old", "u1.1", "nonthreadsafe", "") +       //
                          conf_entry("absent", "u1.2", "threadsafe", "absent") + //
                          conf_entry("classless", "u1.2", "threadsafe", "classless") +
                          conf_entry("nothing", "u1.2", "threadsafe", "nothing") +
                          conf_entry("refuse", "u1.2", "threadsafe", "refuse") +
                          conf_entry("misname", "u1.2", "threadsafe", "misname") +
                          conf_entry("no-provider", "u1.2", "threadsafe", "", "libm.so.6") +
                          conf_entry("no-library", "u1.2", "threadsafe", "", "/no/such/library.so") +
                          conf_entry("chain", "u1.2", "nonthreadsafe", "", "/no/such/library.so") +
                          conf_entry("chain", "u1.2", "nonthreadsafe", "refuse") +
                          conf_entry("chain", "u1.2", "nonthreadsafe", "") +
                          conf_entry("both", "u1.2", "threadsafe", "absent") +
                          conf_entry("both", "u1.2", "nonthreadsafe", "") +
                          conf_entry("forget", "u1.2", "nonthreadsafe", "forget") +
                          conf_entry("young", "u2.0", "nonthreadsafe", "") + "this line is wrong\n";
constexpr int kEntries = 14; // that count and differ

bool is_loaded() {
    void* const library = dlopen(TEST_FOREIGN, RTLD_NOW | RTLD_NOLOAD);
    if (library != nullptr) {
        dlclose(library);
    }
    return library != nullptr;
}

DAT_RETURN open_as(const char* name, DAT_IA_HANDLE& ia, DAT_UINT32 major = 1, DAT_UINT32 minor = 2,
                   DAT_BOOLEAN is_thread_safe = DAT_FALSE) {
    std::string copy = name;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    return dat_ia_openv(copy.data(), 8, &evd, &ia, major, minor, is_thread_safe);
}

DAT_IA_HANDLE must_open(const char* name) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    const DAT_RETURN status = open_as(name, ia);
    if (status != DAT_SUCCESS) {
        fail_msg("%s: 0x%x", name, status);
    }
    assert_non_null(ia);
    return ia;
}

void must_close(DAT_IA_HANDLE ia) {
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

void assert_not_found(const char* name, DAT_RETURN_SUBTYPE subtype, DAT_UINT32 major = 1,
                      DAT_UINT32 minor = 2, DAT_BOOLEAN is_thread_safe = DAT_FALSE) {
    DAT_IA_HANDLE ia = &ia;
    const DAT_RETURN status = open_as(name, ia, major, minor, is_thread_safe);
    if (status != (DAT_CLASS_ERROR | DAT_PROVIDER_NOT_FOUND | static_cast<DAT_RETURN>(subtype))) {
        fail_msg("%s: 0x%x", name, status);
    }
    assert_ptr_equal(ia, &ia);
    assert_false(is_loaded());
}

std::string adapter_name(DAT_IA_HANDLE ia) {
    DAT_IA_ATTR attributes;
    assert_int_equal(dat_ia_query(ia, nullptr, DAT_IA_FIELD_IA_ADAPTER_NAME, &attributes, 0, nullptr),
                     DAT_SUCCESS);
    return attributes.adapter_name;
}

std::vector<DAT_PROVIDER_INFO> list() {
    DAT_COUNT count = -1;
    assert_int_equal(dat_registry_list_providers(0, &count, nullptr), kBadArgument | DAT_INVALID_ARG1);
    std::vector<DAT_PROVIDER_INFO> all(static_cast<std::size_t>(count));
    std::vector<DAT_PROVIDER_INFO*> pointers;
    for (DAT_PROVIDER_INFO& info : all) {
        pointers.push_back(&info);
    }
    assert_int_equal(dat_registry_list_providers(count, &count, pointers.data()), DAT_SUCCESS);
    assert_int_equal(count, all.size());
    return all;
}

TEST(list__without_any_open__every_entry_that_counts) {
    const std::vector<DAT_PROVIDER_INFO> all = list();
    assert_int_equal(all.size(), kEntries);
    assert_string_equal(all[0].ia_name, "plain");
    assert_int_equal(all[0].dapl_version_major, 1);
    assert_int_equal(all[0].dapl_version_minor, 2);
    assert_int_equal(all[0].is_thread_safe, DAT_FALSE);
    assert_int_equal(all[2].dapl_version_minor, 1);
    assert_int_equal(all[3].is_thread_safe, DAT_TRUE);
    assert_false(is_loaded());
    DAT_IA_HANDLE ia = must_open("plain");
    assert_int_equal(list().size(), kEntries);
    must_close(ia);
}

TEST(open__first_and_last__load_and_unload_the_provider) {
    assert_false(is_loaded());
    DAT_IA_HANDLE first = must_open("plain");
    assert_true(is_loaded());
    DAT_IA_HANDLE second = must_open("plain");
    assert_ptr_not_equal(first, second);
    DAT_IA_HANDLE third = must_open("other");
    must_close(first);
    must_close(second);
    assert_true(is_loaded());
    assert_string_equal(adapter_name(third).c_str(), "other");
    must_close(third);
    assert_false(is_loaded());
}

TEST(objects__of_a_foreign_provider__work) {
    DAT_IA_HANDLE ia = must_open("plain");
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    assert_int_equal(dat_pz_create(ia, &pz), DAT_SUCCESS);
    assert_int_equal(dat_evd_create(ia, 4, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &evd), DAT_SUCCESS);
    DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_CR;
    assert_int_equal(dat_get_handle_type(pz, &type), DAT_SUCCESS);
    assert_int_equal(type, DAT_HANDLE_TYPE_PZ);
    DAT_CONTEXT context{};
    context.as_64 = 0x1234567890abcdefU;
    assert_int_equal(dat_set_consumer_context(ia, context), DAT_SUCCESS);
    context.as_64 = 0;
    assert_int_equal(dat_get_consumer_context(ia, &context), DAT_SUCCESS);
    assert_true(context.as_64 == 0x1234567890abcdefU);
    DAT_EVENT event{};
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = &event;
    assert_int_equal(dat_evd_post_se(evd, &event), DAT_SUCCESS);
    DAT_EVENT got{};
    assert_int_equal(dat_evd_dequeue(evd, &got), DAT_SUCCESS);
    assert_ptr_equal(got.event_data.software_event_data.pointer, &event);
    assert_int_equal(DAT_GET_TYPE(dat_evd_dequeue(evd, &got)), DAT_QUEUE_EMPTY);
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG),
                     DAT_CLASS_ERROR | DAT_INVALID_STATE | DAT_INVALID_STATE_IA_IN_USE);
    assert_int_equal(dat_pz_free(pz), DAT_SUCCESS);
    assert_int_equal(dat_evd_free(evd), DAT_SUCCESS);
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
    assert_false(is_loaded());
}

TEST(close__not_open__invalid_handle) {
    constexpr DAT_RETURN kInvalid = DAT_CLASS_ERROR | DAT_INVALID_HANDLE | DAT_INVALID_HANDLE_IA;
    int nobodys = 0;
    assert_int_equal(dat_ia_close(DAT_HANDLE_NULL, DAT_CLOSE_ABRUPT_FLAG), kInvalid);
    assert_int_equal(dat_ia_close(&nobodys, DAT_CLOSE_ABRUPT_FLAG), kInvalid);
    DAT_IA_HANDLE ia = must_open("plain");
    DAT_IA_HANDLE still_open = must_open("plain");
    must_close(ia);
    assert_int_equal(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), kInvalid);
    must_close(still_open);
}

TEST(handles__of_a_provider_that_is_unloaded__invalid_and_not_read) {
    DAT_IA_HANDLE ia = must_open("plain");
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    assert_int_equal(dat_pz_create(ia, &pz), DAT_SUCCESS);
    assert_int_equal(dat_pz_free(pz), DAT_SUCCESS);
    must_close(ia);
    // Freed memory: a sanitizer would see it being read.
    assert_int_equal(dat_pz_free(pz), DAT_CLASS_ERROR | DAT_INVALID_HANDLE | DAT_INVALID_HANDLE_PZ);
    assert_int_equal(dat_ia_query(ia, nullptr, 0, nullptr, 0, nullptr),
                     DAT_CLASS_ERROR | DAT_INVALID_HANDLE | DAT_INVALID_HANDLE_IA);
}

TEST(open__provider_fails__its_status_and_nothing_left) {
    DAT_IA_HANDLE ia = &ia;
    assert_int_equal(open_as("absent", ia),
                     DAT_CLASS_ERROR | DAT_INSUFFICIENT_RESOURCES | DAT_RESOURCE_DEVICE);
    assert_false(is_loaded());
    assert_int_equal(open_as("classless", ia), DAT_INTERNAL_ERROR);
    assert_false(is_loaded());
    assert_int_equal(open_as("nothing", ia), DAT_CLASS_ERROR | DAT_INTERNAL_ERROR);
    assert_false(is_loaded());
    assert_ptr_equal(ia, &ia);
}

TEST(open__not_there__says_what_is_missing) {
    assert_not_found("", DAT_NAME_NOT_REGISTERED);
    assert_not_found("nobody", DAT_NAME_NOT_REGISTERED);
    assert_not_found("plai", DAT_NAME_NOT_REGISTERED);
    assert_not_found("young", DAT_NAME_NOT_REGISTERED);
    assert_not_found("plain", DAT_MAJOR_NOT_FOUND, 2, 0);
    assert_not_found("plain", DAT_MAJOR_NOT_FOUND, 0, 2);
    assert_not_found("plain", DAT_MINOR_NOT_FOUND, 1, 3);
    assert_not_found("old", DAT_MINOR_NOT_FOUND);
    assert_not_found("plain", DAT_THREAD_SAFETY_NOT_FOUND, 1, 2, DAT_TRUE);
    for (const char* broken : {"no-library", "no-provider", "refuse", "misname"}) {
        assert_not_found(broken, DAT_NAME_NOT_REGISTERED);
    }
    assert_not_found(std::string(255, 'n').c_str(), DAT_NAME_NOT_REGISTERED);
}

TEST(open__less_is_asked_for__what_offers_more_serves) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open_as("plain", ia, 1, 0), DAT_SUCCESS);
    must_close(ia);
    assert_int_equal(open_as("old", ia, 1, 1), DAT_SUCCESS);
    must_close(ia);
    // Its thread-safe entry is the first, and its device is absent; it isn't asked for.
    must_close(must_open("both"));
    assert_int_equal(DAT_GET_TYPE(open_as("both", ia, 1, 2, DAT_TRUE)), DAT_INSUFFICIENT_RESOURCES);
    // No other entry has this name.
    assert_int_equal(DAT_GET_TYPE(open_as("absent", ia, 1, 2, DAT_FALSE)), DAT_INSUFFICIENT_RESOURCES);
}

TEST(open__several_entries__the_first_that_can_be_loaded) {
    must_close(must_open("chain"));
}

TEST(open__relaxed_ordering_prefix__is_taken_off_and_passed_on) {
    DAT_IA_HANDLE ia = must_open("RO_AWARE_plain");
    assert_string_equal(adapter_name(ia).c_str(), "relaxed plain");
    must_close(ia);
    ia = must_open("plain");
    assert_string_equal(adapter_name(ia).c_str(), "plain");
    must_close(ia);
    assert_not_found("RO_AWARE_RO_AWARE_plain", DAT_NAME_NOT_REGISTERED);
    assert_not_found("RO_AWARE_", DAT_NAME_NOT_REGISTERED);
}

TEST(open__wrong_arguments__are_named) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    char name[] = "plain";
    std::string too_long(256, 'n');
    assert_int_equal(dat_ia_openv(nullptr, 8, &evd, &ia, 1, 2, DAT_FALSE), kBadArgument | DAT_INVALID_ARG1);
    assert_int_equal(dat_ia_openv(too_long.data(), 8, &evd, &ia, 1, 2, DAT_FALSE),
                     kBadArgument | DAT_INVALID_ARG1);
    assert_int_equal(dat_ia_openv(name, 8, nullptr, &ia, 1, 2, DAT_FALSE), kBadArgument | DAT_INVALID_ARG3);
    assert_int_equal(dat_ia_openv(name, 8, &evd, nullptr, 1, 2, DAT_FALSE), kBadArgument | DAT_INVALID_ARG4);
    assert_int_equal(dat_ia_openv(name, 8, &evd, &ia, 1, 2, static_cast<DAT_BOOLEAN>(2)),
                     kBadArgument | DAT_INVALID_ARG7);
    assert_int_equal(dat_ia_open(name, 8, &evd, &ia), DAT_SUCCESS);
    must_close(ia);
}

TEST(open__failing__prints_nothing) {
    const sluice::test::Machine scratch;
    const std::string path = scratch.root() + "/stderr";
    std::fflush(stderr);
    const int saved = dup(2);
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(dup2(file, 2), 2);
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    for (const char* name : {"nobody", "no-library", "no-provider", "refuse", "absent"}) {
        (void)open_as(name, ia);
    }
    assert_int_equal(dup2(saved, 2), 2);
    close(saved);
    assert_int_equal(lseek(file, 0, SEEK_END), 0);
    close(file);
}

TEST(list__wrong_arguments__are_named) {
    DAT_COUNT count = 0;
    DAT_PROVIDER_INFO info;
    std::memset(&info, 0x55, sizeof info);
    DAT_PROVIDER_INFO* pointers[2] = {&info, nullptr};
    assert_int_equal(dat_registry_list_providers(1, nullptr, pointers), kBadArgument | DAT_INVALID_ARG2);
    assert_int_equal(dat_registry_list_providers(-1, &count, pointers), kBadArgument | DAT_INVALID_ARG1);
    assert_int_equal(count, kEntries);
    assert_int_equal(dat_registry_list_providers(1, &count, nullptr), kBadArgument | DAT_INVALID_ARG3);
    assert_int_equal(dat_registry_list_providers(2, &count, pointers), kBadArgument | DAT_INVALID_ARG3);
    assert_int_equal(info.ia_name[0], 0x55);
    // As long as it is too short, nothing is filled in: a program may take the number for what it has got.
    count = 0;
    assert_int_equal(dat_registry_list_providers(1, &count, pointers), kBadArgument | DAT_INVALID_ARG1);
    assert_int_equal(count, kEntries);
    assert_int_equal(info.ia_name[0], 0x55);
}

// A provider that the program brings along.
DAT_RETURN own_open(DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE*, DAT_IA_HANDLE* ia, DAT_BOOLEAN) {
    static const DAT_PROVIDER* object = nullptr;
    *ia = &object;
    return DAT_SUCCESS;
}

DAT_RETURN own_close(DAT_IA_HANDLE, DAT_CLOSE_FLAGS) {
    return DAT_SUCCESS;
}

DAT_PROVIDER own_provider() {
    DAT_PROVIDER provider{};
    provider.device_name = "own";
    provider.ia_open_func = own_open;
    provider.ia_close_func = own_close;
    return provider;
}

DAT_PROVIDER_INFO own_info(DAT_BOOLEAN is_thread_safe = DAT_FALSE) {
    DAT_PROVIDER_INFO info{};
    std::strcpy(info.ia_name, "own");
    info.dapl_version_major = 1;
    info.dapl_version_minor = 2;
    info.is_thread_safe = is_thread_safe;
    return info;
}

TEST(add__a_program_s_own_provider__can_be_opened_and_listed) {
    const DAT_PROVIDER provider = own_provider();
    const DAT_PROVIDER_INFO info = own_info();
    assert_int_equal(dat_registry_add_provider(&provider, &info), DAT_SUCCESS);
    assert_int_equal(dat_registry_add_provider(&provider, &info),
                     DAT_CLASS_ERROR | DAT_PROVIDER_ALREADY_REGISTERED);
    const DAT_PROVIDER_INFO safe = own_info(DAT_TRUE);
    assert_int_equal(dat_registry_remove_provider(&provider, &safe), kBadArgument);
    assert_int_equal(dat_registry_add_provider(&provider, &safe), DAT_SUCCESS);
    assert_int_equal(list().size(), kEntries + 2);
    assert_string_equal(list().back().ia_name, "own");
    DAT_IA_HANDLE ia = must_open("own");
    assert_int_equal(dat_registry_remove_provider(&provider, &info), DAT_CLASS_ERROR | DAT_PROVIDER_IN_USE);
    assert_int_equal(dat_registry_remove_provider(&provider, &safe), DAT_SUCCESS);
    must_close(ia);
    const DAT_PROVIDER other = own_provider();
    assert_int_equal(dat_registry_remove_provider(&other, &info), kBadArgument);
    assert_int_equal(dat_registry_remove_provider(&provider, &info), DAT_SUCCESS);
    assert_int_equal(dat_registry_remove_provider(&provider, &info), kBadArgument);
    assert_not_found("own", DAT_NAME_NOT_REGISTERED);
}

TEST(add__wrong_arguments__are_named) {
    const DAT_PROVIDER good = own_provider();
    const DAT_PROVIDER_INFO info = own_info();
    DAT_PROVIDER lacking[3] = {good, good, good};
    lacking[0].device_name = nullptr;
    lacking[1].ia_open_func = nullptr;
    lacking[2].ia_close_func = nullptr;
    for (const DAT_PROVIDER& provider : lacking) {
        assert_int_equal(dat_registry_add_provider(&provider, &info), kBadArgument | DAT_INVALID_ARG1);
    }
    assert_int_equal(dat_registry_add_provider(nullptr, &info), kBadArgument | DAT_INVALID_ARG1);
    assert_int_equal(dat_registry_remove_provider(nullptr, &info), kBadArgument | DAT_INVALID_ARG1);
    DAT_PROVIDER_INFO wrong[3] = {info, info, info};
    wrong[0].ia_name[0] = '\0';
    std::memset(wrong[1].ia_name, 'n', sizeof wrong[1].ia_name);
    wrong[2].is_thread_safe = static_cast<DAT_BOOLEAN>(7);
    for (const DAT_PROVIDER_INFO& each : wrong) {
        assert_int_equal(dat_registry_add_provider(&good, &each), kBadArgument | DAT_INVALID_ARG2);
        assert_int_equal(dat_registry_remove_provider(&good, &each), kBadArgument | DAT_INVALID_ARG2);
    }
    assert_int_equal(dat_registry_add_provider(&good, nullptr), kBadArgument | DAT_INVALID_ARG2);
    assert_int_equal(dat_registry_remove_provider(&good, nullptr), kBadArgument | DAT_INVALID_ARG2);
}

TEST(add__more_than_fit__insufficient_resources) {
    std::vector<DAT_PROVIDER> providers(300, own_provider());
    std::vector<DAT_PROVIDER_INFO> infos(providers.size(), own_info());
    std::size_t added = 0;
    DAT_RETURN status = DAT_SUCCESS;
    while (added < providers.size() && status == DAT_SUCCESS) {
        std::snprintf(infos[added].ia_name, sizeof infos[added].ia_name, "own%zu", added);
        status = dat_registry_add_provider(&providers[added], &infos[added]);
        added += status == DAT_SUCCESS ? 1 : 0;
    }
    assert_int_equal(status, DAT_CLASS_ERROR | DAT_INSUFFICIENT_RESOURCES);
    for (std::size_t i = 0; i < added; ++i) {
        assert_int_equal(dat_registry_remove_provider(&providers[i], &infos[i]), DAT_SUCCESS);
    }
    assert_int_equal(list().size(), kEntries);
}

TEST(threads__opening_and_closing__nothing_is_lost) {
    constexpr int kThreads = 6;
    constexpr int kRounds = 60;
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([t, &wrong] {
            const char* const names[] = {"plain", "other", "chain"};
            for (int round = 0; round < kRounds; ++round) {
                DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
                DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
                DAT_COUNT count = 0;
                const bool good =
                    open_as(names[(t + round) % 3], ia) == DAT_SUCCESS &&
                    dat_pz_create(ia, &pz) == DAT_SUCCESS && dat_pz_free(pz) == DAT_SUCCESS &&
                    dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG) == DAT_SUCCESS &&
                    DAT_GET_TYPE(open_as("refuse", ia)) == DAT_PROVIDER_NOT_FOUND &&
                    DAT_GET_SUBTYPE(dat_registry_list_providers(0, &count, nullptr)) == DAT_INVALID_ARG1;
                wrong += good ? 0 : 1;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    assert_int_equal(wrong.load(), 0);
    assert_false(is_loaded());
}

#ifndef SLUICE_UNDER_SANITIZER // a thread of the parent may have had its locks
TEST(child_of_fork__beside_threads_that_open_and_close__opens) {
    constexpr int kForks = 300;
    // The library stays mapped: a child of a fork in the middle of the loader's work would have half of it.
    const DAT_IA_HANDLE held = must_open("other");
    std::atomic<bool> is_over = false;
    std::vector<std::thread> threads;
    for (const char* const name : {"plain", "plain", "other", "old"}) {
        threads.emplace_back([&is_over, name] {
            while (!is_over) {
                DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
                if (open_as(name, ia, 1, std::strcmp(name, "old") == 0 ? 1 : 2) == DAT_SUCCESS) {
                    dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
                }
            }
        });
    }
    int failed = 0;
    for (int i = 0; i < kForks && failed == 0; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
            _exit(open_as("plain", ia) == DAT_SUCCESS &&
                          dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS
                      ? 0
                      : 1);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        failed = status;
    }
    is_over = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
    must_close(held);
    assert_int_equal(failed, 0);
}
#endif

// The last one: from here on the library stays.
TEST(open__provider_that_forgets_to_remove_itself__works_and_stays_loaded) {
    must_close(must_open("forget"));
    assert_true(is_loaded());
    must_close(must_open("plain"));
    assert_int_equal(list().size(), kEntries);
}

} // namespace

int main() {
    const sluice::test::Machine machine;
    machine.write("/dat.conf", kConf);
    setenv("DAT_OVERRIDE", (machine.root() + "/dat.conf").c_str(), 1);
    unsetenv("SLUICE_LOG");
    return sluice::test::run_all_tests();
}
