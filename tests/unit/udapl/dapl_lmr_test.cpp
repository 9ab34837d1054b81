// SPDX-License-Identifier: BSD-3-Clause
//
// What can be registered, as what, and what the device is told of it. The device's registering is watched,
// and fails on order.
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/unit/udapl/dapl.hpp"
#include "tests/unit/udapl/limit.hpp"
#include "tests/unit/udapl/logged.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr unsigned kRelaxedOrdering = 1U << 20;
constexpr std::size_t kPage = 4096;
constexpr DAT_RETURN kBadSegment = coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
constexpr DAT_RETURN kBadRegion = coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);

std::atomic<unsigned> last_access{0};
std::atomic<int> next_error{0};
std::atomic<int> next_small_error{0}; // of what the provider registers to find out why that failed

} // namespace

// Of libibverbs, which our provider calls.
extern "C" [[gnu::visibility("default")]] ibv_mr*
ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, unsigned access) {
    using Function = ibv_mr* (*)(ibv_pd*, void*, std::size_t, std::uint64_t, unsigned);
    static const auto original =
        reinterpret_cast<Function>(dlsym(dlopen("libibverbs.so.1", RTLD_NOW), "ibv_reg_mr_iova2"));
    last_access = access;
    if (next_error != 0) {
        errno = next_error.exchange(0);
        return nullptr;
    }
    return original(pd, address, length, iova, access);
}

#undef ibv_reg_mr
extern "C" [[gnu::visibility("default")]] ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length,
                                                             int access) {
    using Function = ibv_mr* (*)(ibv_pd*, void*, std::size_t, int);
    static const auto original =
        reinterpret_cast<Function>(dlsym(dlopen("libibverbs.so.1", RTLD_NOW), "ibv_reg_mr"));
    if (next_small_error != 0) {
        errno = next_small_error.exchange(0);
        return nullptr;
    }
    return original(pd, address, length, access);
}

namespace {

struct Registered {
    DAT_RETURN status = DAT_SUCCESS;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context = 7;
    DAT_RMR_CONTEXT key = 7;
    DAT_VLEN size = 7;
    DAT_VADDR address = 7;
};

Registered create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_MEM_TYPE type, const DAT_REGION_DESCRIPTION& region,
                  DAT_VLEN length, unsigned privileges = DAT_MEM_PRIV_ALL_FLAG) {
    Registered made;
    made.status = dat_lmr_create(ia, type, region, length, pz, static_cast<DAT_MEM_PRIV_FLAGS>(privileges),
                                 &made.lmr, &made.context, &made.key, &made.size, &made.address);
    return made;
}

Registered create_at(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, const void* address, DAT_VLEN length,
                     DAT_MEM_TYPE type = DAT_MEM_TYPE_VIRTUAL) {
    DAT_REGION_DESCRIPTION region{};
    region.for_va = const_cast<void*>(address); // NOLINT: as DAT has it
    return create(ia, pz, type, region, length);
}

DAT_RETURN sync(DAT_IA_HANDLE ia, const Registered& of, DAT_VADDR address, DAT_VLEN length) {
    const DAT_LMR_TRIPLET part{of.context, 0, address, length};
    return dat_lmr_sync_rdma_read(ia, &part, 1);
}

// Pages, mapped in one way or another.
struct Mapped {
    explicit Mapped(std::size_t its_length, int flags, int fd = -1, int rights = PROT_READ | PROT_WRITE)
        : length(its_length), at(static_cast<std::uint8_t*>(mmap(nullptr, length, rights, flags, fd, 0))) {
        assert_ptr_not_equal(at, MAP_FAILED);
    }
    ~Mapped() { munmap(at, length); }
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;

    std::size_t length;
    std::uint8_t* at;
};

using CookieBytes = char[DAT_LMR_COOKIE_SIZE];

Registered share(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, void* address, DAT_VLEN length, CookieBytes* cookie) {
    DAT_REGION_DESCRIPTION region{};
    region.for_shared_memory = {address, cookie};
    return create(ia, pz, DAT_MEM_TYPE_SHARED_VIRTUAL, region, length);
}

TEST(lmr_create__every_privilege__as_asked_and_key_for_remote_ones) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    std::array<std::uint8_t, 64> bytes{};
    for (unsigned privileges = 0; privileges <= DAT_MEM_PRIV_ALL_FLAG; ++privileges) {
        DAT_REGION_DESCRIPTION region{};
        region.for_va = bytes.data();
        const Registered made = create(opened.ia, pz, DAT_MEM_TYPE_VIRTUAL, region, bytes.size(), privileges);
        if ((privileges & ~unsigned{DAT_MEM_PRIV_ALL_FLAG}) != 0) {
            assert_int_equal(made.status, coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG6));
            assert_int_equal(made.context, 7); // nothing is told
            continue;
        }
        assert_int_equal(made.status, DAT_SUCCESS);
        const unsigned remote = DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
        assert_int_equal(made.key != 0, (privileges & remote) != 0);
        DAT_LMR_PARAM param{};
        assert_int_equal(dat_lmr_query(made.lmr, DAT_LMR_FIELD_ALL, &param), DAT_SUCCESS);
        assert_int_equal(param.mem_priv, privileges);
        assert_int_equal(param.rmr_context, made.key);
        assert_int_equal(dat_lmr_free(made.lmr), DAT_SUCCESS);
    }
}

TEST(lmr_create__unaligned_overlapping_and_twice__each_for_itself) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    std::vector<std::uint8_t> bytes(3 * kPage);
    const Registered whole = create_at(opened.ia, pz, bytes.data() + 1, bytes.size() - 1);
    const Registered part = create_at(opened.ia, pz, bytes.data() + 4001, 333);
    const Registered again = create_at(opened.ia, pz, bytes.data() + 4001, 333);
    assert_int_equal(whole.status | part.status | again.status, DAT_SUCCESS);
    assert_int_not_equal(part.context, again.context);
    assert_int_not_equal(part.key, again.key);
    assert_int_equal(part.size, 333);
    assert_int_equal(part.address, reinterpret_cast<std::uintptr_t>(bytes.data() + 4001));
    assert_int_equal(dat_lmr_free(part.lmr), DAT_SUCCESS);
    assert_int_equal(sync(opened.ia, part, part.address, 1), kBadSegment);
    assert_int_equal(sync(opened.ia, again, again.address, 333), DAT_SUCCESS);
    assert_int_equal(sync(opened.ia, again, again.address - 1, 2), kBadSegment);
    assert_int_equal(sync(opened.ia, whole, again.address - 1, 2), DAT_SUCCESS);
}

TEST(lmr_create__sparse_64_gib__to_its_last_byte) {
    constexpr std::size_t kHuge = std::size_t{64} << 30;
    if (is_own_device_named()) {
        skip(); // a kernel's device pins it all
    }
    const Opened opened;
    const Mapped mapped(kHuge, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    const Registered made = create_at(opened.ia, opened.make_pz(), mapped.at, kHuge);
    assert_int_equal(made.status, DAT_SUCCESS);
    assert_int_equal(made.size, kHuge);
    assert_int_equal(sync(opened.ia, made, made.address + kHuge - 1, 1), DAT_SUCCESS);
    assert_int_equal(sync(opened.ia, made, made.address + kHuge, 1), kBadSegment);
    assert_int_equal(dat_lmr_free(made.lmr), DAT_SUCCESS);
}

TEST(lmr_create__file_mapped_either_way__registered) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    const int fd = memfd_create("sluice test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 2 * kPage), 0);
    const Mapped shared(2 * kPage, MAP_SHARED, fd);
    const Mapped own(2 * kPage, MAP_PRIVATE, fd);
    close(fd);
    for (const Mapped* mapped : {&shared, &own}) {
        assert_int_equal(create_at(opened.ia, pz, mapped->at + 100, kPage).status, DAT_SUCCESS);
    }
}

TEST(lmr_create__not_mapped__argument_3_and_nothing_told) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    const Registered nowhere = create_at(opened.ia, pz, nullptr, 1);
    assert_int_equal(nowhere.status, kBadRegion);
    assert_null(nowhere.lmr);
    assert_int_equal(nowhere.context, 7);
    assert_int_equal(nowhere.key, 7);
    assert_int_equal(nowhere.size, 7);
    assert_int_equal(nowhere.address, 7);
    assert_int_equal(dat_pz_free(pz), DAT_SUCCESS);
}

TEST(lmr_create__type_of_nobody__model_not_supported) {
    const Opened opened;
    std::uint8_t byte = 0;
    assert_int_equal(create_at(opened.ia, opened.make_pz(), &byte, 1, static_cast<DAT_MEM_TYPE>(4)).status,
                     coded(DAT_MODEL_NOT_SUPPORTED));
}

TEST(lmr_create__of_another_device_s_lmr__invalid_lmr) {
    if (is_own_device_named()) {
        skip(); // there is no other one
    }
    const Opened opened;
    const Opened elsewhere(own_device(1));
    const Block block(elsewhere, elsewhere.make_pz());
    DAT_REGION_DESCRIPTION region{};
    region.for_lmr_handle = block.lmr;
    assert_int_equal(create(opened.ia, opened.make_pz(), DAT_MEM_TYPE_LMR, region, 0).status,
                     coded(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_LMR));
}

// This thread's right to pin beyond the limit. Nothing is asserted while it is away.
class IpcLock {
  public:
    explicit IpcLock(bool is_held) {
        get(before_);
        was_held_ = (before_[0].effective & kBit) != 0;
        __user_cap_data_struct data[2] = {before_[0], before_[1]};
        data[0].effective = is_held ? data[0].effective : data[0].effective & ~kBit;
        set(data);
    }
    ~IpcLock() { set(before_); }
    IpcLock(const IpcLock&) = delete;
    IpcLock& operator=(const IpcLock&) = delete;
    bool was_held() const { return was_held_; }

  private:
    static constexpr __u32 kBit = 1U << CAP_IPC_LOCK;
    static void get(__user_cap_data_struct (&data)[2]) {
        __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
        (void)syscall(SYS_capget, &header, data);
    }
    static void set(const __user_cap_data_struct (&data)[2]) {
        __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
        (void)syscall(SYS_capset, &header, data);
    }
    __user_cap_data_struct before_[2]{};
    bool was_held_ = false;
};

Logged create_short(const Opened& opened, DAT_PZ_HANDLE pz, bool is_privileged, rlim_t limit_bytes) {
    std::uint8_t byte = 0;
    return logged_by([&] {
        const Limit limit(RLIMIT_MEMLOCK, limit_bytes);
        const IpcLock right(is_privileged);
        return create_at(opened.ia, pz, &byte, 1).status;
    });
}

// The numbers of another user namespace, whose rights don't count for this.
bool is_above_limits() {
    std::string map;
    std::getline(std::ifstream("/proc/self/uid_map"), map);
    return IpcLock(true).was_held() && map.ends_with("4294967295");
}

void must_log(const Logged& logged, const char* part, bool is_there) {
    assert_int_equal(logged.status, coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    if ((logged.text.find(part) != std::string::npos) != is_there) {
        fail_msg("'%s' is%s in '%s'", part, is_there ? "n't" : "", logged.text.c_str());
    }
}

TEST(lmr_create__no_memory_may_be_locked__resources_and_the_log_tells) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    for (const int error : {ENOMEM, EPERM}) {
        next_error = error;
        const Logged logged = create_short(opened, pz, false, 65536);
        for (const char* const part : {"registering 1 bytes", "65536 bytes", "ulimit -l"}) {
            must_log(logged, part, true);
        }
        must_log(logged, "memory regions", false);
    }
}

TEST(lmr_create__no_page_may_be_locked_and_none_is_registered__the_log_names_both_reasons) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    next_error = ENOMEM;
    next_small_error = ENOMEM;
    const Logged logged = create_short(opened, pz, false, 0);
    assert_int_equal(next_small_error, 0);
    must_log(logged, "ulimit -l", true);
    must_log(logged, "memory regions", true);
}

TEST(lmr_create__memlock_isn_t_enforced__the_log_doesn_t_name_it) {
    if (!is_above_limits()) {
        skip();
    }
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    next_error = ENOMEM;
    must_log(create_short(opened, pz, true, 0), "ulimit", false);
    next_error = ENOMEM;
    next_small_error = ENOMEM;
    const Logged logged = create_short(opened, pz, true, 0);
    must_log(logged, "ulimit", false);
    must_log(logged, "memory regions", true);
}

TEST(lmr_create__as_many_as_the_device_has__the_log_names_their_number_and_not_memlock) {
    if (is_own_device_named()) {
        skip(); // a kernel's device has more than this test makes
    }
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    DAT_IA_ATTR limits{};
    assert_int_equal(dat_ia_query(opened.ia, nullptr, DAT_IA_FIELD_IA_MAX_LMRS, &limits, 0, nullptr),
                     DAT_SUCCESS);
    std::vector<std::uint8_t> bytes(100'000); // more than may be locked
    DAT_COUNT count = 0;
    Logged logged{};
    while (logged.status == DAT_SUCCESS && count <= limits.max_lmrs) {
        logged = logged_by([&] {
            const Limit limit(RLIMIT_MEMLOCK, 65536);
            return create_at(opened.ia, pz, bytes.data(), bytes.size()).status;
        });
        ++count;
    }
    print_message("the LMR number %d of %d is refused\n", count, limits.max_lmrs);
    assert_int_equal(logged.status, coded(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    assert_null(std::strstr(logged.text.c_str(), "ulimit"));
    assert_non_null(
        std::strstr(logged.text.c_str(), (std::to_string(limits.max_lmrs) + " memory regions").c_str()));
}

TEST(relaxed_ordering__only_where_asked_and_not_strong) {
    const Opened plain;
    const Opened aware("RO_AWARE_" + own_device());
    std::uint8_t byte = 0;
    const auto is_relaxed = [&](const Opened& opened, DAT_MEM_TYPE type) {
        const Registered made = create_at(opened.ia, opened.make_pz(), &byte, 1, type);
        assert_int_equal(made.status, DAT_SUCCESS);
        DAT_LMR_PARAM param{};
        assert_int_equal(dat_lmr_query(made.lmr, DAT_LMR_FIELD_ALL, &param), DAT_SUCCESS);
        assert_int_equal(param.mem_type, opened.ia == plain.ia ? DAT_MEM_TYPE_SO_VIRTUAL : type);
        return (last_access & kRelaxedOrdering) != 0;
    };
    assert_false(is_relaxed(plain, DAT_MEM_TYPE_VIRTUAL));
    assert_false(is_relaxed(plain, DAT_MEM_TYPE_SO_VIRTUAL));
    assert_true(is_relaxed(aware, DAT_MEM_TYPE_VIRTUAL));
    assert_false(is_relaxed(aware, DAT_MEM_TYPE_SO_VIRTUAL));
}

TEST(shared__mapped_twice_with_one_cookie__both_and_queried) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    const int fd = memfd_create("sluice test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 4 * kPage), 0);
    const Mapped here(4 * kPage, MAP_SHARED, fd);
    const Mapped there(4 * kPage, MAP_SHARED, fd);
    close(fd);
    assert_int_equal(mprotect(there.at + kPage, kPage, PROT_READ | PROT_WRITE | PROT_EXEC),
                     0); // two mappings then, for the kernel
    CookieBytes cookie = {};
    std::memset(cookie, 'c', sizeof cookie);
    CookieBytes same = {};
    std::memcpy(same, cookie, sizeof cookie);
    const Registered one = share(opened.ia, pz, here.at + 10, 3 * kPage, &cookie);
    const Registered other = share(opened.ia, pz, there.at + 10, 3 * kPage, &same);
    assert_int_equal(one.status, DAT_SUCCESS);
    assert_int_equal(other.status, DAT_SUCCESS);
    assert_int_not_equal(one.context, other.context);
    DAT_LMR_PARAM param{};
    assert_int_equal(dat_lmr_query(other.lmr, DAT_LMR_FIELD_ALL, &param), DAT_SUCCESS);
    assert_int_equal(param.mem_type, DAT_MEM_TYPE_SHARED_VIRTUAL);
    assert_ptr_equal(param.region_desc.for_shared_memory.virtual_address, there.at + 10);
    assert_ptr_equal(param.region_desc.for_shared_memory.shared_memory_id, &same);
    assert_int_equal(dat_lmr_free(one.lmr), DAT_SUCCESS);
    assert_int_equal(sync(opened.ia, other, other.address, 3 * kPage), DAT_SUCCESS);
}

#ifndef SLUICE_UNDER_SANITIZER // a thread of the parent may have had its locks
TEST(shared__in_a_child_of_fork__what_its_parent_shares_binds_no_cookie) {
    if (is_own_device_named()) {
        skip(); // the kernel's devices are closed to children
    }
    const Opened opened;
    const Mapped ours(kPage, MAP_SHARED | MAP_ANONYMOUS);
    const Mapped childs(kPage, MAP_SHARED | MAP_ANONYMOUS);
    CookieBytes cookie = {};
    assert_int_equal(share(opened.ia, opened.make_pz(), ours.at, kPage, &cookie).status, DAT_SUCCESS);
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
        std::string name = own_device(1);
        const bool is_shared = dat_ia_open(name.data(), 8, &evd, &ia) == DAT_SUCCESS &&
                               dat_pz_create(ia, &pz) == DAT_SUCCESS &&
                               share(ia, pz, childs.at, kPage, &cookie).status == DAT_SUCCESS;
        _exit(is_shared ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}
#endif

TEST(shared__not_shared_or_only_in_part__invalid_state) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    CookieBytes cookie = {};
    const Mapped own(2 * kPage, MAP_PRIVATE | MAP_ANONYMOUS);
    assert_int_equal(share(opened.ia, pz, own.at, kPage, &cookie).status, coded(DAT_INVALID_STATE));
    const Mapped mixed(3 * kPage, MAP_SHARED | MAP_ANONYMOUS);
    assert_ptr_equal(
        mmap(mixed.at + kPage, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        mixed.at + kPage);
    assert_int_equal(share(opened.ia, pz, mixed.at, 3 * kPage, &cookie).status, coded(DAT_INVALID_STATE));
    assert_int_equal(share(opened.ia, pz, mixed.at, kPage + 1, &cookie).status, coded(DAT_INVALID_STATE));
    assert_int_equal(share(opened.ia, pz, mixed.at, kPage, &cookie).status, DAT_SUCCESS);
}

TEST(shared__not_mapped_or_no_cookie__argument_3) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    CookieBytes cookie = {};
    const Mapped mapped(3 * kPage, MAP_SHARED | MAP_ANONYMOUS);
    munmap(mapped.at + kPage, kPage);
    assert_int_equal(share(opened.ia, pz, mapped.at, 3 * kPage, &cookie).status, kBadRegion);
    assert_int_equal(share(opened.ia, pz, mapped.at, kPage, nullptr).status, kBadRegion);
}

TEST(shared__cookie_of_other_memory__argument_3_until_that_is_freed) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    CookieBytes cookie = {'x'};
    const Mapped one(2 * kPage, MAP_SHARED | MAP_ANONYMOUS);
    const Mapped other(2 * kPage, MAP_SHARED | MAP_ANONYMOUS);
    const Registered first = share(opened.ia, pz, one.at, kPage, &cookie);
    assert_int_equal(first.status, DAT_SUCCESS);
    assert_int_equal(share(opened.ia, pz, other.at, kPage, &cookie).status, kBadRegion);
    assert_int_equal(share(opened.ia, pz, one.at + kPage, kPage, &cookie).status, kBadRegion);
    assert_int_equal(dat_lmr_free(first.lmr), DAT_SUCCESS);
    assert_int_equal(share(opened.ia, pz, other.at, kPage, &cookie).status, DAT_SUCCESS);
    CookieBytes last_differs = {'x'};
    last_differs[DAT_LMR_COOKIE_SIZE - 1] = 'y';
    assert_int_equal(share(opened.ia, pz, one.at, kPage, &last_differs).status, DAT_SUCCESS);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
