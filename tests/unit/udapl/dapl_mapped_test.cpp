// SPDX-License-Identifier: BSD-3-Clause
//
// LMRs of memory that is mapped in one way or another: what a peer writes there arrives where it is mapped
// from. DAT_TEST_DAX names a device DAX node, which the lab has.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tests/unit/udapl/dapl_pair.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr std::size_t kHugePage = 2 << 20;

struct Mapped {
    Mapped(std::size_t its_length, int flags, int fd = -1)
        : length(its_length),
          at(static_cast<std::uint8_t*>(mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, fd, 0))) {
        assert_ptr_not_equal(at, MAP_FAILED);
    }
    ~Mapped() { munmap(at, length); }
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;

    std::size_t length;
    std::uint8_t* at;
};

struct Lmr {
    Lmr(const Opened& opened, DAT_PZ_HANDLE pz, void* at, DAT_VLEN length,
        DAT_MEM_TYPE type = DAT_MEM_TYPE_VIRTUAL) {
        DAT_REGION_DESCRIPTION region{};
        region.for_va = at;
        const DAT_RETURN status = dat_lmr_create(opened.ia, type, region, length, pz, DAT_MEM_PRIV_ALL_FLAG,
                                                 &handle, &context, &key, &size, &address);
        assert_int_equal(status, DAT_SUCCESS);
    }
    DAT_LMR_HANDLE handle = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context = 0;
    DAT_RMR_CONTEXT key = 0;
    DAT_VLEN size = 0;
    DAT_VADDR address = 0;
};

// The peer writes 1,000 bytes to an odd place of MAPPED, across the end of a page, and reads them again.
void write_and_read(const Mapped& mapped, std::uint8_t value) {
    Pair pair;
    pair.connect();
    const Lmr lmr(pair.passive.opened, pair.passive.pz, mapped.at + 1, mapped.length - 1);
    const DAT_RMR_TRIPLET remote{lmr.key, 0, lmr.address + 3500, 1000};
    auto& bytes = pair.active.block.bytes;
    std::fill_n(bytes.begin(), 1000, value);
    DAT_LMR_TRIPLET part = pair.active.block.part(0, 1000);
    assert_int_equal(dat_ep_post_rdma_write(pair.active.ep, 1, &part, Side::cookie_of(1), &remote,
                                            DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    pair.active.must_complete(1, DAT_DTO_SUCCESS, 1000);
    DAT_LMR_TRIPLET back = pair.active.block.part(2000, 1000);
    assert_int_equal(dat_ep_post_rdma_read(pair.active.ep, 1, &back, Side::cookie_of(2), &remote,
                                           DAT_COMPLETION_DEFAULT_FLAG),
                     DAT_SUCCESS);
    pair.active.must_complete(2, DAT_DTO_SUCCESS, 1000);
    assert_memory_equal(bytes.data() + 2000, bytes.data(), 1000);
    const DAT_LMR_TRIPLET written{lmr.context, 0, lmr.address + 3500, 1000};
    assert_int_equal(dat_lmr_sync_rdma_write(pair.passive.opened.ia, &written, 1), DAT_SUCCESS);
    assert_memory_equal(mapped.at + 3501, bytes.data(), 1000);
    assert_int_equal(dat_lmr_free(lmr.handle), DAT_SUCCESS);
}

TEST(lmr__file_mapped_to_be_shared__the_file_has_what_the_peer_wrote) {
    char name[] = "/tmp/sluice-mapped-XXXXXX";
    const int fd = mkstemp(name);
    assert_true(fd >= 0);
    unlink(name);
    assert_int_equal(ftruncate(fd, 16384), 0);
    write_and_read(Mapped(16384, MAP_SHARED, fd), 0x3c);
    std::vector<std::uint8_t> bytes(16384);
    assert_int_equal(pread(fd, bytes.data(), bytes.size(), 0), bytes.size());
    close(fd);
    assert_int_equal(std::count(bytes.begin(), bytes.end(), 0x3c), 1000);
    assert_int_equal(bytes[3501], 0x3c);
    assert_int_equal(bytes[4500], 0x3c);
}

TEST(lmr__file_mapped_for_itself__the_file_stays_as_it_was) {
    const int fd = memfd_create("sluice test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 16384), 0);
    write_and_read(Mapped(16384, MAP_PRIVATE, fd), 0x3c);
    std::vector<std::uint8_t> bytes(16384);
    assert_int_equal(pread(fd, bytes.data(), bytes.size(), 0), bytes.size());
    close(fd);
    assert_int_equal(std::count(bytes.begin(), bytes.end(), 0), 16384);
}

TEST(lmr__device_dax__the_memory_has_what_the_peer_wrote) {
    const char* const name = std::getenv("DAT_TEST_DAX"); // NOLINT(concurrency-mt-unsafe)
    if (name == nullptr) {
        skip();
        return; // for who doesn't know that skip() is the end
    }
    const int fd = open(name, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    constexpr int kDurable = MAP_SHARED_VALIDATE | MAP_SYNC;
    std::memset(Mapped(2 * kHugePage, kDurable, fd).at, 0, 2 * kHugePage);
    write_and_read(Mapped(2 * kHugePage, kDurable, fd), 0x3c);
    const Mapped again(2 * kHugePage, kDurable, fd);
    close(fd);
    assert_int_equal(std::count(again.at, again.at + again.length, 0x3c), 1000);
    assert_int_equal(again.at[3501], 0x3c);
}

// Of the mapping that ADDRESS is in, as the kernel tells them.
bool has_flag(const void* address, const std::string& flag) {
    std::ifstream maps("/proc/self/smaps");
    bool is_inside = false;
    for (std::string line; std::getline(maps, line);) {
        unsigned long long first = 0;
        unsigned long long end = 0;
        if (std::sscanf(line.c_str(), "%llx-%llx ", &first, &end) == 2) { // NOLINT(cert-err34-c)
            const auto at = reinterpret_cast<std::uintptr_t>(address);
            is_inside = at >= first && at < end;
        } else if (is_inside && line.starts_with("VmFlags:")) {
            return line.find(" " + flag) != std::string::npos;
        }
    }
    fail_msg("%p is not mapped", address);
    return false;
}

TEST(lmr__huge_pages__only_where_asked) {
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) {
        skip(); // a kernel without
    }
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    for (const char* const wanted : {"no", "yes", "sometimes"}) {
        setenv("SLUICE_DAT_HUGE_PAGES", wanted, 1); // NOLINT(concurrency-mt-unsafe)
        const Mapped mapped(2 * kHugePage, MAP_PRIVATE | MAP_ANONYMOUS);
        const Lmr lmr(opened, pz, mapped.at + 100, mapped.length - 100);
        assert_int_equal(has_flag(mapped.at, "hg"), std::string_view(wanted) == "yes");
        assert_int_equal(dat_lmr_free(lmr.handle), DAT_SUCCESS);
    }
    unsetenv("SLUICE_DAT_HUGE_PAGES"); // NOLINT(concurrency-mt-unsafe)
    const Mapped mapped(2 * kHugePage, MAP_PRIVATE | MAP_ANONYMOUS);
    const Lmr lmr(opened, pz, mapped.at, mapped.length);
    assert_false(has_flag(mapped.at, "hg"));
}

TEST(lmr__no_bytes__a_region_and_no_key) {
    const Opened opened;
    const DAT_PZ_HANDLE pz = opened.make_pz();
    const Mapped mapped(4096, MAP_PRIVATE | MAP_ANONYMOUS);
    for (const DAT_MEM_TYPE type : {DAT_MEM_TYPE_VIRTUAL, DAT_MEM_TYPE_SO_VIRTUAL}) {
        const Lmr lmr(opened, pz, mapped.at + 17, 0, type);
        assert_int_equal(lmr.size, 0);
        assert_int_equal(lmr.key, 0);
        const DAT_LMR_TRIPLET nothing{lmr.context, 0, lmr.address, 0};
        assert_int_equal(dat_lmr_sync_rdma_read(opened.ia, &nothing, 1), DAT_SUCCESS);
        const DAT_LMR_TRIPLET byte{lmr.context, 0, lmr.address, 1};
        assert_int_equal(dat_lmr_sync_rdma_read(opened.ia, &byte, 1),
                         coded(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
        assert_int_equal(dat_lmr_free(lmr.handle), DAT_SUCCESS);
    }
}

// A peer's memory, and an agent in the provider's thread that writes there.
class WrittenByAgent {
  public:
    explicit WrittenByAgent(const Mapped& mapped)
        : lmr_(pair_.passive.opened, pair_.passive.pz, mapped.at, mapped.length) {
        pair_.connect();
        const DAT_IA_HANDLE ia = pair_.active.opened.ia;
        assert_int_equal(dat_cno_create(ia, {nullptr, nullptr}, &waited_), DAT_SUCCESS);
        assert_int_equal(dat_evd_modify_cno(pair_.active.transfers, waited_), DAT_SUCCESS);
        assert_int_equal(dat_cno_create(ia, {this, write}, &agent_), DAT_SUCCESS);
        assert_int_equal(dat_evd_create(ia, 1, agent_, DAT_EVD_SOFTWARE_FLAG, &trigger_), DAT_SUCCESS);
    }
    WrittenByAgent(const WrittenByAgent&) = delete;
    WrittenByAgent& operator=(const WrittenByAgent&) = delete;

    // Waits at the CNO for the end of a write, which has that STATUS.
    void must_end(DAT_DTO_COMPLETION_STATUS status) {
        assert_int_equal(post(trigger_, 1), DAT_SUCCESS);
        DAT_EVD_HANDLE told = DAT_HANDLE_NULL;
        assert_int_equal(dat_cno_wait(waited_, kLong, &told), DAT_SUCCESS);
        assert_ptr_equal(told, pair_.active.transfers);
        pair_.active.must_complete(1, status, kBytes);
        must_dequeue(trigger_, 1);
    }

  private:
    static constexpr DAT_VLEN kBytes = 1000;

    static void write(DAT_PVOID self, DAT_EVD_HANDLE) {
        const auto& its = *static_cast<const WrittenByAgent*>(self);
        const DAT_RMR_TRIPLET remote{its.lmr_.key, 0, its.lmr_.address, kBytes};
        DAT_LMR_TRIPLET part = its.pair_.active.block.part(0, kBytes);
        // Its end is the test's to see: an assertion would leave the provider's thread.
        (void)dat_ep_post_rdma_write(its.pair_.active.ep, 1, &part, Side::cookie_of(1), &remote,
                                     DAT_COMPLETION_DEFAULT_FLAG);
    }

    Pair pair_;
    const Lmr lmr_;
    DAT_CNO_HANDLE waited_ = DAT_HANDLE_NULL;
    DAT_CNO_HANDLE agent_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE trigger_ = DAT_HANDLE_NULL;
};

TEST(lmr__file_is_truncated_while_a_cno_waits__the_write_fails_and_no_more) {
    if (is_own_device_named()) {
        skip(); // it keeps the pages
        return;
    }
    const int fd = memfd_create("sluice test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 16384), 0);
    const Mapped mapped(16384, MAP_SHARED, fd);
    WrittenByAgent written(mapped);
    written.must_end(DAT_DTO_SUCCESS);
    assert_int_equal(ftruncate(fd, 0), 0);
    close(fd);
    written.must_end(DAT_DTO_ERR_REMOTE_RESPONDER);
}

TEST(lmr__memory_is_unmapped_while_a_cno_waits__the_write_fails_and_no_more) {
    if (is_own_device_named()) {
        skip(); // it keeps the pages
        return;
    }
    const Mapped mapped(16384, MAP_PRIVATE | MAP_ANONYMOUS);
    WrittenByAgent written(mapped);
    written.must_end(DAT_DTO_SUCCESS);
    // Not given back, so that nothing else comes to lie there.
    assert_ptr_equal(
        mmap(mapped.at, mapped.length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), mapped.at);
    written.must_end(DAT_DTO_ERR_REMOTE_RESPONDER);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
