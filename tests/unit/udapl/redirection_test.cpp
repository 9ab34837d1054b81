// SPDX-License-Identifier: BSD-3-Clause
//
// Every function of libdat that is a provider's: that it reaches that function and no other, with the
// arguments it was given, and what it answers to handles that nobody made.
#include <dat/dat_registry.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <tuple>

#include "tests/cmocka.hpp"

namespace {

constexpr DAT_RETURN kStatus = 0x40120055; // what only the recorder answers

// What reached the recorder: the offset of the function's pointer in the table, and the arguments.
struct Recorded {
    int calls = 0;
    std::size_t member = 0;
    std::size_t size = 0;
    unsigned char arguments[256] = {};
};
Recorded recorded;

// A different value for each argument of a call.
unsigned char last_value = 0;

template<typename T>
T made_up() {
    T value;
    // An enumeration is a number for this purpose, and never read as one of its names.
    std::memset(static_cast<void*>(&value), ++last_value, sizeof value); // NOLINT(bugprone-sizeof-expression)
    return value;
}

template<typename T>
void append(unsigned char* to, std::size_t& size, const T& argument) {
    // NOLINTNEXTLINE(bugprone-sizeof-expression): of a pointer, the pointer is meant
    std::memcpy(to + size, &argument, sizeof argument);
    size += sizeof argument; // NOLINT(bugprone-sizeof-expression)
}

template<typename... Arguments>
void pack(unsigned char* to, std::size_t& size, const Arguments&... arguments) {
    (append(to, size, arguments), ...);
}

template<auto kMember, std::size_t kOffset>
struct Recorder;

template<typename... Arguments, DAT_RETURN (*DAT_PROVIDER::*kMember)(Arguments...), std::size_t kOffset>
struct Recorder<kMember, kOffset> {
    static DAT_RETURN record(Arguments... arguments) {
        ++recorded.calls;
        recorded.member = kOffset;
        recorded.size = 0;
        pack(recorded.arguments, recorded.size, arguments...);
        return kStatus;
    }
    static void install(DAT_PROVIDER& table) { table.*kMember = record; }
    static void remove(DAT_PROVIDER& table) { table.*kMember = nullptr; }

    // Calls API with HANDLE and made-up arguments behind it; keeps what it was called with.
    static DAT_RETURN call(DAT_RETURN (*api)(Arguments...), DAT_HANDLE handle, Recorded& sent) {
        std::tuple<Arguments...> arguments{made_up<Arguments>()...};
        std::get<0>(arguments) = handle;
        sent.member = kOffset;
        sent.size = 0;
        return std::apply(
            [&](const auto&... each) {
                pack(sent.arguments, sent.size, each...);
                return api(each...);
            },
            arguments);
    }
};

struct Redirected {
    const char* name;
    DAT_RETURN wrong_handle;
    DAT_RETURN (*call)(DAT_HANDLE handle, Recorded& sent);
    void (*install)(DAT_PROVIDER& table);
    void (*remove)(DAT_PROVIDER& table);
};

#define REDIRECTED(function, subtype)                                                                        \
    Redirected {                                                                                             \
        "dat_" #function, DAT_CLASS_ERROR | DAT_INVALID_HANDLE | (subtype),                                  \
            [](DAT_HANDLE handle, Recorded& sent) {                                                          \
                return Recorder<&DAT_PROVIDER::function##_func,                                              \
                                offsetof(DAT_PROVIDER, function##_func)>::call(dat_##function, handle,       \
                                                                               sent);                        \
            },                                                                                               \
            Recorder<&DAT_PROVIDER::function##_func, offsetof(DAT_PROVIDER, function##_func)>::install,      \
            Recorder<&DAT_PROVIDER::function##_func, offsetof(DAT_PROVIDER, function##_func)>::remove        \
    }

const Redirected kAll[] = {
    REDIRECTED(set_consumer_context, DAT_INVALID_HANDLE1),
    REDIRECTED(get_consumer_context, DAT_INVALID_HANDLE1),
    REDIRECTED(get_handle_type, DAT_INVALID_HANDLE1),
    REDIRECTED(cr_query, DAT_INVALID_HANDLE_CR),
    REDIRECTED(cr_accept, DAT_INVALID_HANDLE_CR),
    REDIRECTED(cr_reject, DAT_INVALID_HANDLE_CR),
    REDIRECTED(cr_handoff, DAT_INVALID_HANDLE_CR),
    REDIRECTED(evd_resize, DAT_INVALID_HANDLE1),
    REDIRECTED(evd_post_se, DAT_INVALID_HANDLE1),
    REDIRECTED(evd_dequeue, DAT_INVALID_HANDLE1),
    REDIRECTED(evd_free, DAT_INVALID_HANDLE1),
    REDIRECTED(ep_create, DAT_INVALID_HANDLE_IA),
    REDIRECTED(ep_create_with_srq, DAT_INVALID_HANDLE_IA),
    REDIRECTED(ep_query, DAT_INVALID_HANDLE_EP),
    REDIRECTED(ep_modify, DAT_INVALID_HANDLE_EP),
    REDIRECTED(ep_connect, DAT_INVALID_HANDLE_EP),
    REDIRECTED(ep_dup_connect, DAT_INVALID_HANDLE_EP),
    REDIRECTED(ep_disconnect, DAT_INVALID_HANDLE_EP),
    REDIRECTED(ep_post_send, DAT_INVALID_HANDLE_EP),
    REDIRECTED(ep_post_recv, DAT_INVALID_HANDLE_EP),
    REDIRECTED(ep_post_rdma_read, DAT_INVALID_HANDLE_EP),
    REDIRECTED(ep_post_rdma_write, DAT_INVALID_HANDLE_EP),
    REDIRECTED(ep_get_status, DAT_INVALID_HANDLE_EP),
    REDIRECTED(ep_free, DAT_INVALID_HANDLE_EP),
    REDIRECTED(ep_reset, DAT_INVALID_HANDLE_EP),
    REDIRECTED(ep_recv_query, DAT_INVALID_HANDLE_EP),
    REDIRECTED(ep_set_watermark, DAT_INVALID_HANDLE_EP),
    REDIRECTED(lmr_free, DAT_INVALID_HANDLE_LMR),
    REDIRECTED(lmr_sync_rdma_read, DAT_INVALID_HANDLE_IA),
    REDIRECTED(lmr_sync_rdma_write, DAT_INVALID_HANDLE_IA),
    REDIRECTED(rmr_create, DAT_INVALID_HANDLE_PZ),
    REDIRECTED(rmr_query, DAT_INVALID_HANDLE_RMR),
    REDIRECTED(rmr_bind, DAT_INVALID_HANDLE_RMR),
    REDIRECTED(rmr_free, DAT_INVALID_HANDLE_RMR),
    REDIRECTED(psp_create, DAT_INVALID_HANDLE_IA),
    REDIRECTED(psp_create_any, DAT_INVALID_HANDLE_IA),
    REDIRECTED(psp_query, DAT_INVALID_HANDLE_PSP),
    REDIRECTED(psp_free, DAT_INVALID_HANDLE_PSP),
    REDIRECTED(rsp_create, DAT_INVALID_HANDLE_IA),
    REDIRECTED(rsp_query, DAT_INVALID_HANDLE_RSP),
    REDIRECTED(rsp_free, DAT_INVALID_HANDLE_RSP),
    REDIRECTED(pz_create, DAT_INVALID_HANDLE_IA),
    REDIRECTED(pz_query, DAT_INVALID_HANDLE_PZ),
    REDIRECTED(pz_free, DAT_INVALID_HANDLE_PZ),
    REDIRECTED(srq_create, DAT_INVALID_HANDLE_IA),
    REDIRECTED(srq_free, DAT_INVALID_HANDLE_SRQ),
    REDIRECTED(srq_post_recv, DAT_INVALID_HANDLE_SRQ),
    REDIRECTED(srq_query, DAT_INVALID_HANDLE_SRQ),
    REDIRECTED(srq_resize, DAT_INVALID_HANDLE_SRQ),
    REDIRECTED(srq_set_lw, DAT_INVALID_HANDLE_SRQ),
    REDIRECTED(ia_query, DAT_INVALID_HANDLE_IA),
    REDIRECTED(lmr_create, DAT_INVALID_HANDLE_IA),
    REDIRECTED(lmr_query, DAT_INVALID_HANDLE_LMR),
    REDIRECTED(evd_create, DAT_INVALID_HANDLE_IA),
    REDIRECTED(evd_query, DAT_INVALID_HANDLE1),
    REDIRECTED(evd_modify_cno, DAT_INVALID_HANDLE1),
    REDIRECTED(evd_enable, DAT_INVALID_HANDLE1),
    REDIRECTED(evd_disable, DAT_INVALID_HANDLE1),
    REDIRECTED(evd_wait, DAT_INVALID_HANDLE1),
    REDIRECTED(evd_set_unwaitable, DAT_INVALID_HANDLE1),
    REDIRECTED(evd_clear_unwaitable, DAT_INVALID_HANDLE1),
    REDIRECTED(cno_create, DAT_INVALID_HANDLE_IA),
    REDIRECTED(cno_modify_agent, DAT_INVALID_HANDLE_CNO),
    REDIRECTED(cno_query, DAT_INVALID_HANDLE_CNO),
    REDIRECTED(cno_free, DAT_INVALID_HANDLE_CNO),
    REDIRECTED(cno_wait, DAT_INVALID_HANDLE_CNO),
};

DAT_PROVIDER table;
// An object of the recorder's: it begins with the table.
struct Object {
    const DAT_PROVIDER* provider;
} object;

const DAT_PROVIDER_INFO kInfo = {"recorder", 1, 2, DAT_TRUE};

// Their addresses, and those between words.
void assert_refused(const Redirected& one, DAT_HANDLE handle) {
    Recorded sent;
    recorded = {};
    const DAT_RETURN status = one.call(handle, sent);
    if (status != one.wrong_handle || recorded.calls != 0) {
        fail_msg("%s(%p) gives 0x%x after %d calls", one.name, handle, status, recorded.calls);
    }
}

int add_recorder(void**) {
    table.device_name = "recorder";
    table.ia_open_func = [](DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE*, DAT_IA_HANDLE*, DAT_BOOLEAN) {
        return DAT_RETURN{DAT_CLASS_ERROR | DAT_INTERNAL_ERROR};
    };
    table.ia_close_func = [](DAT_IA_HANDLE, DAT_CLOSE_FLAGS) { return DAT_RETURN{DAT_SUCCESS}; };
    for (const Redirected& one : kAll) {
        one.install(table);
    }
    object.provider = &table;
    return static_cast<int>(dat_registry_add_provider(&table, &kInfo));
}

int remove_recorder(void**) {
    return static_cast<int>(dat_registry_remove_provider(&table, &kInfo));
}

TEST(every_function__is_in_the_list) {
    // All but the name, the extension, and what opens and closes.
    assert_int_equal(std::size(kAll), sizeof(DAT_PROVIDER) / sizeof(void*) - 4);
}

TEST(every_function__object_of_a_provider__reaches_that_function_with_its_arguments) {
    for (const Redirected& one : kAll) {
        Recorded sent;
        recorded = {};
        const DAT_RETURN status = one.call(&object, sent);
        if (status != kStatus || recorded.calls != 1 || recorded.member != sent.member ||
            recorded.size != sent.size || std::memcmp(recorded.arguments, sent.arguments, sent.size) != 0) {
            fail_msg("%s: 0x%x, %d calls, of member %zu instead of %zu", one.name, status, recorded.calls,
                     recorded.member, sent.member);
        }
    }
}

TEST(every_function__handle_that_nobody_made__invalid_handle_of_its_kind) {
    const DAT_PROVIDER other = table;
    Object nobodys{&other};
    Object empty{nullptr};
    Object behind[2] = {{&table}, {&table}};
    for (const Redirected& one : kAll) {
        assert_refused(one, DAT_HANDLE_NULL);
        assert_refused(one, DAT_EVD_ASYNC_EXISTS);
        assert_refused(one, DAT_EVD_OUT_OF_SCOPE);
        assert_refused(one, reinterpret_cast<DAT_HANDLE>(0xff8));
        assert_refused(one, &nobodys);
        assert_refused(one, &empty);
        for (std::size_t odd = 1; odd < sizeof(Object); ++odd) {
            assert_refused(one, reinterpret_cast<unsigned char*>(behind) + odd);
        }
    }
}

TEST(every_function__no_provider_at_all__nothing_is_read) {
    assert_int_equal(remove_recorder(nullptr), 0);
    // Reading here would end the program.
    void* const no_access = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(no_access != MAP_FAILED);
    for (const Redirected& one : kAll) {
        assert_refused(one, no_access);
        assert_refused(one, &object);
        assert_refused(one, reinterpret_cast<DAT_HANDLE>(~std::uintptr_t{7}));
    }
    munmap(no_access, 4096);
    assert_int_equal(add_recorder(nullptr), 0);
}

TEST(every_function__provider_lacks_it__not_implemented) {
    for (const Redirected& one : kAll) {
        one.remove(table);
        Recorded sent;
        recorded = {};
        assert_int_equal(one.call(&object, sent), DAT_CLASS_ERROR | DAT_NOT_IMPLEMENTED);
        assert_int_equal(recorded.calls, 0);
        one.install(table);
    }
}

} // namespace

int main() {
    setenv("DAT_OVERRIDE", "/dev/null", 1);
    return sluice::test::run_all_tests("redirection", add_recorder, remove_recorder);
}
