// SPDX-License-Identifier: BSD-3-Clause
//
// What a device says of itself, how objects are born and die, and what wrong arguments get.
#include <dirent.h>
#include <endian.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>

#include "provider/uroce/device/addresses.hpp"
#include "provider/uroce/device/sysfs_directory.hpp"
#include "tests/unit/uroce/opened.hpp"

using namespace sluice::uroce::test;
using sluice::ErrorKind;
using sluice::uroce::device::LocalAddress;
using sluice::uroce::device::resolve;

namespace {

std::size_t entries_of(const std::string& directory, const std::string& prefix) {
    std::size_t count = 0;
    DIR* dir = opendir(directory.c_str());
    assert_non_null(dir);
    while (const dirent* entry = readdir(dir)) {
        count += std::string(entry->d_name).starts_with(prefix) ? 1 : 0;
    }
    closedir(dir);
    return count;
}

std::size_t resident_kib() {
    std::ifstream statm("/proc/self/statm");
    std::size_t total = 0, resident = 0;
    statm >> total >> resident;
    return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

TEST(memory__of_contexts_and_queue_pairs__within_the_goals) {
#ifdef SLUICE_UNDER_SANITIZER
    skip(); // it has memory of its own for each piece
#else
    const std::size_t before = resident_kib();
    const OpenContext context(open_uroce(own_address(2)));
    const std::size_t idle = resident_kib() - before;
    End end(context.get());
    EndOptions options;
    options.depth = 1;
    options.sges = 1;
    options.inline_bytes = 0;
    std::vector<ibv_qp*> qps(512);
    const std::size_t without = resident_kib();
    for (ibv_qp*& qp : qps) {
        qp = end.make_qp(options);
        bring_up(qp, 2, end.gid);
    }
    const double each = static_cast<double>(resident_kib() - without) / static_cast<double>(qps.size());
    print_message("idle context %zu KiB, RC queue pair %.1f KiB\n", idle, each);
    assert_true(idle <= 4096);
    assert_true(each <= 16);
    for (ibv_qp* qp : qps) {
        assert_int_equal(ibv_destroy_qp(qp), 0);
    }
#endif
}

TEST(resolve__names_and_addresses__mean_one_address_each) {
    const auto gid_of = [](const char* name) { return sluice::uroce::device::gid_text(resolve(name)->gid); };
    assert_string_equal(gid_of("uroce0").c_str(), "0000:0000:0000:0000:0000:ffff:7f00:0001");
    assert_string_equal(gid_of("uroce253").c_str(), "0000:0000:0000:0000:0000:ffff:7f00:00fe");
    assert_string_equal(gid_of("127.1.2.3").c_str(), "0000:0000:0000:0000:0000:ffff:7f01:0203");
    assert_string_equal(resolve("127.0.0.2")->name.c_str(), "uroce1");
    assert_string_equal(resolve("127.1.2.3")->name.c_str(), "uroce-127.1.2.3");
    assert_string_equal(resolve("uroce0")->interface.c_str(), "lo");
    for (const char* wrong : {"", "uroce", "uroce254", "uroce-1", "uroce01", "uroce1x", "uroce99999999999",
                              "mlx5_0", "127.0.0", "127.0.0.256", "::g"}) {
        const auto result = resolve(wrong);
        assert_false(result.ok());
        assert_true(result.error().kind() == ErrorKind::kInvalidArgument);
    }
    assert_true(resolve("192.0.2.77").error().kind() == ErrorKind::kNotFound); // documentation's
    assert_true(resolve("2001:db8::77").error().kind() == ErrorKind::kNotFound);
}

// Where devices of this program keep their files, and nobody else's does.
const std::string& runtime_directory() {
    static const std::string directory = [] {
        char path[] = "/tmp/sluice-test-XXXXXX";
        assert_non_null(mkdtemp(path));
        assert_int_equal(setenv("XDG_RUNTIME_DIR", path, 1), 0);
        return std::string(path);
    }();
    return directory;
}

int remove_runtime_directory(void**) {
    return rmdir(runtime_directory().c_str()); // it is empty again
}

TEST(path_mtu__of_interfaces__largest_that_fits) {
    const auto mtu = [](std::uint32_t interface_mtu) {
        LocalAddress where;
        where.interface_mtu = interface_mtu;
        return where.path_mtu();
    };
    assert_int_equal(mtu(65536), 4096);
    assert_int_equal(mtu(4176), 4096);
    assert_int_equal(mtu(4175), 2048);
    assert_int_equal(mtu(1500), 1024);
    assert_int_equal(mtu(1280), 1024);
    assert_int_equal(mtu(500), 256);
    assert_int_equal(mtu(336), 256);
    assert_int_equal(mtu(335), 0);
}

TEST(queries__of_the_public_library__all_answer) {
    const OpenContext context(open_uroce(own_address(3)));
    assert_string_equal(ibv_get_device_name(context->device), ("uroce-" + own_address(3)).c_str());
    assert_int_equal(context->device->node_type, IBV_NODE_CA);
    assert_true(ibv_get_device_guid(context->device) != 0);
    ibv_device_attr_ex attr{};
    assert_int_equal(ibv_query_device_ex(context.get(), nullptr, &attr), 0);
    assert_int_equal(attr.orig_attr.max_sge, 32);
    assert_int_equal(attr.orig_attr.vendor_id, 0x726f63);
    assert_int_equal(attr.orig_attr.vendor_id >> 16 & 3, 2); // an OUI that is administered locally
    assert_int_not_equal(attr.orig_attr.vendor_part_id, 0);
    assert_int_equal(attr.orig_attr.phys_port_cnt, 1);
    assert_int_equal(attr.orig_attr.atomic_cap, IBV_ATOMIC_HCA);
    assert_int_equal(attr.orig_attr.node_guid, ibv_get_device_guid(context->device));
    ibv_device_attr base{};
    assert_int_equal(ibv_query_device(context.get(), &base), 0);
    assert_int_equal(base.max_qp, attr.orig_attr.max_qp);
    ibv_port_attr port{};
    assert_int_equal(ibv_query_port(context.get(), 1, &port), 0);
    assert_int_equal(port.state, IBV_PORT_ACTIVE);
    assert_int_equal(port.active_mtu, IBV_MTU_4096);
    assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    assert_int_equal(ibv_query_port(context.get(), 0, &port), EINVAL);
    assert_int_equal(ibv_query_port(context.get(), 2, &port), EINVAL);
    __be16 pkey = 0;
    assert_int_equal(ibv_query_pkey(context.get(), 1, 0, &pkey), 0);
    assert_int_equal(pkey, 0xffff);
    assert_int_equal(ibv_get_pkey_index(context.get(), 1, 0xffff), 0);
    assert_int_equal(ibv_query_pkey(context.get(), 1, 1, &pkey), -1);
}

// As in the list of `sluice run`: UCX, for one, asks for the device's file.
TEST(device__of_an_open_context__names_its_files) {
    const OpenContext context(open_uroce(own_address(2)));
    const ibv_device* const device = context->device;
    const std::string name = device->name;
    assert_false(name.empty());
    assert_string_equal(device->dev_name, ("uverbs-" + name).c_str());
    assert_string_equal(device->dev_path, ("/sys/class/infiniband_verbs/uverbs-" + name).c_str());
    assert_string_equal(device->ibdev_path, ("/sys/class/infiniband/" + name).c_str());
}

TEST(gids__of_the_public_library__the_address_and_its_type) {
    const OpenContext context(open_uroce(own_address(3)));
    union ibv_gid gid {};
    assert_int_equal(ibv_query_gid(context.get(), 1, 0, &gid), 0);
    const auto expected = resolve(own_address(3).c_str())->gid.gid;
    assert_memory_equal(gid.raw, expected.data(), expected.size());
    assert_int_equal(ibv_query_gid(context.get(), 1, 1, &gid), -1);
    ibv_gid_entry entry{};
    assert_int_equal(ibv_query_gid_ex(context.get(), 1, 0, &entry, 0), 0);
    assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
    assert_int_equal(entry.ndev_ifindex, 1); // lo
    ibv_gid_entry table[4] = {};
    assert_int_equal(ibv_query_gid_table(context.get(), table, 4, 0), 1);
    assert_memory_equal(table[0].gid.raw, expected.data(), expected.size());
}

TEST(open__twice_and_another__share_what_is_the_same) {
    const std::size_t before = entries_of(runtime_directory(), "sluice-uroce-");
    {
        const OpenContext one(open_uroce(own_address(0)));
        const OpenContext two(open_uroce("::ffff:" + own_address(0)));
        assert_ptr_not_equal(one.get(), two.get());
        const OpenContext other(open_uroce(own_address(1)));
        union ibv_gid gids[3];
        assert_int_equal(ibv_query_gid(one.get(), 1, 0, &gids[0]), 0);
        assert_int_equal(ibv_query_gid(two.get(), 1, 0, &gids[1]), 0);
        assert_int_equal(ibv_query_gid(other.get(), 1, 0, &gids[2]), 0);
        assert_memory_equal(&gids[0], &gids[1], sizeof gids[0]);
        assert_memory_not_equal(&gids[0], &gids[2], sizeof gids[0]);
        assert_int_equal(entries_of(runtime_directory(), "sluice-uroce-"), before + 2);
    }
    assert_true(entries_of(runtime_directory(), "sluice-uroce-") <= before);
}

TEST(open__nonsense__says_what_would_work) {
    assert_false(sluice::uroce::verbs::open_context("nonsense").ok());
    const auto result = sluice::uroce::verbs::open_context("nonsense");
    assert_non_null(strstr(result.error().text(), "uroce0"));
    assert_int_equal(result.error().to_errno(), EINVAL);
}

TEST(numbers__of_two_processes_worth__are_not_in_order) {
    const OpenContext context(open_uroce());
    const End one(context.get()), two(context.get());
    std::uint32_t first_qpn = 0;
    {
        const OpenContext other(open_uroce(own_address(2)));
        first_qpn = End(other.get()).qp->qp_num;
    }
    const OpenContext again(open_uroce(own_address(2)));
    const End anew(again.get());
    // Each has odds of one in some thousands to be wrong by chance.
    assert_true(anew.qp->qp_num != first_qpn);
    assert_true(one.mr->rkey >> 8 != (two.mr->rkey >> 8) + 1);
    assert_true(one.qp->qp_num > 1 && one.qp->qp_num <= 0xffffff);
}

TEST(regions__made_and_changed__check_what_they_are_told) {
    const OpenContext context(open_uroce());
    End end(context.get());
    ibv_pd* pd = end.pd;
    auto* block = end.block.data();
    assert_null(ibv_reg_mr(pd, block, 16, int{IBV_ACCESS_REMOTE_WRITE})); // without local write
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_reg_mr(pd, block, 16, 1 << 19)); // no kind of access
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(ibv_reg_mr(pd, block, ~std::size_t{0}, int{IBV_ACCESS_LOCAL_WRITE}));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_reg_mr_iova(pd, block, 16, ~std::uint64_t{0} - 8, 0U));
    assert_int_equal(errno, EINVAL);
    constexpr std::size_t kPage = 4096;
    void* hole = mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(static_cast<char*>(hole) + kPage, kPage);
    assert_null(ibv_reg_mr(pd, hole, 3 * kPage, 0));
    assert_int_equal(errno, EFAULT);
    munmap(hole, 3 * kPage);
    ibv_mr* empty = ibv_reg_mr(pd, block, 0, 0);
    assert_non_null(empty);
    assert_int_equal(ibv_dereg_mr(empty), 0);
    ibv_mr* relaxed = ibv_reg_mr(pd, block, 64, int{IBV_ACCESS_RELAXED_ORDERING});
    assert_non_null(relaxed);
    const std::uint32_t old_key = relaxed->lkey;
    assert_int_equal(
        ibv_rereg_mr(relaxed, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), 0);
    assert_int_equal(relaxed->lkey, old_key);
    assert_int_equal(relaxed->rkey, old_key);
    assert_int_not_equal(
        ibv_rereg_mr(relaxed, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE), 0);
    assert_int_equal(ibv_dereg_mr(relaxed), 0);
}

// Peers have the key: as with rxe, it stays.
TEST(rereg__access_and_domain_changed__key_stays_and_opens_what_it_now_may) {
    Connected pair(Where::kTwoContexts);
    const std::uint32_t key = pair.right.mr->rkey;
    ibv_pd* other = ibv_alloc_pd(pair.right.context);
    assert_int_equal(ibv_rereg_mr(pair.right.mr, IBV_REREG_MR_CHANGE_ACCESS | int{IBV_REREG_MR_CHANGE_PD},
                                  other, nullptr, 0, int{IBV_ACCESS_REMOTE_READ}),
                     0);
    assert_int_equal(pair.right.mr->rkey, key);
    assert_ptr_equal(pair.right.mr->pd, other);
    assert_int_equal(ibv_rereg_mr(pair.right.mr, IBV_REREG_MR_CHANGE_PD, pair.right.pd, nullptr, 0, 0), 0);
    assert_int_equal(pair.right.mr->rkey, key);
    assert_int_equal(pair.left.send(IBV_WR_RDMA_READ, pair.left.sge(0, 64), pair.right), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 64), pair.right), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dealloc_pd(other), 0);
}

TEST(rereg__other_place__data_goes_there) {
    Connected pair(Where::kTwoContexts);
    const std::uint32_t key = pair.right.mr->rkey;
    assert_int_equal(ibv_rereg_mr(pair.right.mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
                                  pair.right.block.data() + 4096, 4096, 0),
                     0);
    assert_int_equal(pair.right.mr->rkey, key);
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 4096), pair.right, 4096), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
    assert_memory_equal(pair.left.block.data(), pair.right.block.data() + 4096, 4096);
    assert_int_equal(pair.left.send(IBV_WR_RDMA_WRITE, pair.left.sge(0, 1), pair.right, 0), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_REM_ACCESS_ERR);
}

TEST(iova__of_a_region__is_what_peers_name) {
    Connected pair(Where::kTwoContexts);
    ibv_mr* moved = ibv_reg_mr_iova(pair.right.pd, pair.right.block.data() + 100, 1000, 0x1234000,
                                    static_cast<unsigned>(kAllAccess));
    ibv_mr* zero =
        ibv_reg_mr(pair.right.pd, pair.right.block.data() + 100, 1000, kAllAccess | IBV_ACCESS_ZERO_BASED);
    assert_non_null(moved);
    assert_non_null(zero);
    const auto write_to = [&pair](std::uint64_t addr, std::uint32_t rkey) {
        pair.right.block[110] = 0;
        pair.left.block[0] = 0xa5;
        ibv_sge sge = pair.left.sge(0, 1);
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.wr.rdma.remote_addr = addr;
        wr.wr.rdma.rkey = rkey;
        assert_int_equal(pair.left.post(wr), 0);
        assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
        assert_int_equal(pair.right.block[110], 0xa5);
    };
    write_to(0x1234000 + 10, moved->rkey);
    write_to(10, zero->rkey);
    assert_int_equal(ibv_dereg_mr(moved), 0);
    assert_int_equal(ibv_dereg_mr(zero), 0);
}

TEST(dmabuf__a_file_that_maps__is_written_to) {
    const int fd = memfd_create("buffer", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 8192), 0);
    Connected pair;
    ibv_mr* mr = ibv_reg_dmabuf_mr(pair.right.pd, 5000, 100, 0x7000, fd, kAllAccess);
    assert_non_null(mr);
    ibv_sge sge = pair.left.sge(0, 100);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = 0x7000;
    wr.wr.rdma.rkey = mr->rkey;
    assert_int_equal(pair.left.post(wr), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
    std::uint8_t got[100];
    assert_int_equal(pread(fd, got, sizeof got, 5000), sizeof got);
    assert_memory_equal(got, pair.left.block.data(), sizeof got);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_null(ibv_reg_dmabuf_mr(pair.right.pd, 0, 100, 0, -1, kAllAccess));
    assert_int_equal(errno, EBADF);
    close(fd);
}

ibv_send_wr bind_of(ibv_mw* mw, std::uint32_t rkey, const End& owner, std::size_t offset, std::size_t len,
                    unsigned access) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = {owner.mr, owner.addr(offset), len, access};
    return wr;
}

TEST(window_of_type_1__bound_moved_and_closed__opens_what_it_covers) {
    Connected pair(Where::kTwoDevices);
    ibv_mw* mw = ibv_alloc_mw(pair.right.pd, IBV_MW_TYPE_1);
    assert_non_null(mw);
    ibv_mw_bind bind{};
    bind.wr_id = 3;
    bind.send_flags = IBV_SEND_SIGNALED;
    // What is said of the local side means nothing for a window; programs say it, and no device minds.
    bind.bind_info = {pair.right.mr, pair.right.addr(1000), 100,
                      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND |
                          IBV_ACCESS_RELAXED_ORDERING};
    assert_int_equal(ibv_bind_mw(pair.right.qp, mw, &bind), 0);
    assert_int_equal(pair.right.wait().opcode, IBV_WC_BIND_MW);
    assert_int_equal(ibv_dereg_mr(pair.right.mr), EBUSY);
    ibv_sge sge = pair.left.sge(0, 100);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = pair.right.addr(1000);
    wr.wr.rdma.rkey = mw->rkey;
    assert_int_equal(pair.left.post(wr), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
    assert_memory_equal(pair.right.block.data() + 1000, pair.left.block.data(), 100);
    bind.bind_info = {nullptr, 0, 0, 0};
    assert_int_equal(ibv_bind_mw(pair.right.qp, mw, &bind), 0);
    assert_int_equal(pair.right.wait().status, IBV_WC_SUCCESS);
    assert_int_equal(pair.left.post(wr), 0); // with the old key
    assert_int_equal(pair.left.wait().status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

TEST(window_of_type_2__invalidated_by_the_peer__is_closed) {
    Connected pair(Where::kTwoContexts);
    ibv_mw* mw = ibv_alloc_mw(pair.right.pd, IBV_MW_TYPE_2);
    assert_non_null(mw);
    const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
    ibv_send_wr bind =
        bind_of(mw, rkey, pair.right, 1000, 100, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED);
    assert_int_equal(pair.right.post(bind), 0);
    assert_int_equal(pair.right.wait().status, IBV_WC_SUCCESS);
    mw->rkey = rkey;
    ibv_sge sge = pair.left.sge(0, 10);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_READ;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = 5; // from the window's start
    wr.wr.rdma.rkey = rkey;
    assert_int_equal(pair.left.post(wr), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
    assert_memory_equal(pair.left.block.data(), pair.right.block.data() + 1005, 10);
    assert_int_equal(pair.right.receive(pair.right.sge(0, 16)), 0);
    wr.opcode = IBV_WR_SEND_WITH_INV;
    wr.invalidate_rkey = rkey;
    assert_int_equal(pair.left.post(wr), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_SUCCESS);
    const ibv_wc wc = pair.right.wait();
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, rkey);
    // May be bound again, and closed by its owner.
    bind = bind_of(mw, ibv_inc_rkey(rkey), pair.right, 0, 8, IBV_ACCESS_REMOTE_READ);
    assert_int_equal(pair.right.post(bind), 0);
    assert_int_equal(pair.right.wait().status, IBV_WC_SUCCESS);
    mw->rkey = ibv_inc_rkey(rkey);
    ibv_send_wr invalidate{};
    invalidate.opcode = IBV_WR_LOCAL_INV;
    invalidate.send_flags = IBV_SEND_SIGNALED;
    invalidate.invalidate_rkey = mw->rkey;
    assert_int_equal(pair.right.post(invalidate), 0);
    assert_int_equal(pair.right.wait().opcode, IBV_WC_LOCAL_INV);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

TEST(bind__of_what_doesnt_belong_together__refused) {
    Connected pair;
    ibv_mw* mw = ibv_alloc_mw(pair.right.pd, IBV_MW_TYPE_2);
    ibv_send_wr wr = bind_of(mw, mw->rkey + 1, pair.left, 0, 8, IBV_ACCESS_REMOTE_READ);
    assert_int_equal(pair.right.post(wr), EPERM); // the region is of another domain
    wr = bind_of(nullptr, 1, pair.right, 0, 8, 0);
    assert_int_equal(pair.right.post(wr), EINVAL);
    ibv_mw_bind bind{};
    assert_int_equal(ibv_bind_mw(pair.right.qp, mw, &bind), EINVAL); // type 2
    assert_null(ibv_alloc_mw(pair.right.pd, static_cast<ibv_mw_type>(3)));
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

TEST(queue_pair__as_deep_as_told__takes_as_many) {
    const OpenContext context(open_uroce());
    ibv_device_attr device{};
    assert_int_equal(ibv_query_device(context.get(), &device), 0);
    assert_true(device.max_qp_wr >= 32768 && device.max_srq_wr >= 32768); // as adapters have
    EndOptions options;
    options.depth = static_cast<std::uint32_t>(device.max_qp_wr);
    options.sges = 1;
    for (const bool with_srq : {false, true}) {
        options.with_srq = with_srq;
        End end(context.get(), options);
        bring_up(end.qp, end.qp->qp_num, end.gid);
        for (std::uint32_t i = 0; i < options.depth; ++i) {
            assert_int_equal(end.receive(end.sge(0, 1)), 0);
        }
        assert_int_equal(end.receive(end.sge(0, 1)), ENOMEM);
    }
}

TEST(limits__one_more__refused) {
    const OpenContext context(open_uroce());
    End end(context.get());
    ibv_device_attr device{};
    assert_int_equal(ibv_query_device(context.get(), &device), 0);
    const auto refuses = [&](auto change) {
        EndOptions options;
        change(options);
        errno = 0;
        const ibv_qp* qp = end.make_qp(options);
        return qp == nullptr && errno == EINVAL;
    };
    const auto max_wr = static_cast<std::uint32_t>(device.max_qp_wr);
    assert_true(refuses([&](EndOptions& options) { options.depth = max_wr + 1; }));
    assert_true(refuses([](EndOptions& options) { options.depth = UINT32_MAX; }));
    assert_true(refuses([](EndOptions& options) { options.sges = 33; }));
    assert_true(refuses([](EndOptions& options) { options.inline_bytes = 1025; }));
    EndOptions raw;
    raw.type = IBV_QPT_RAW_PACKET;
    assert_null(end.make_qp(raw));
    assert_int_equal(errno, EOPNOTSUPP);
    for (const int cqe : {0, -1, device.max_cqe + 1}) {
        assert_null(ibv_create_cq(context.get(), cqe, nullptr, nullptr, 0));
        assert_int_equal(errno, EINVAL);
    }
    assert_null(ibv_create_cq(context.get(), 1, nullptr, nullptr, 1));
    ibv_srq_init_attr srq{};
    for (const std::uint32_t wr : {0U, max_wr + 1}) {
        srq.attr = {wr, 1, 0};
        assert_null(ibv_create_srq(end.pd, &srq));
        assert_int_equal(errno, EINVAL);
    }
    srq.attr = {1, 33, 0};
    assert_null(ibv_create_srq(end.pd, &srq));
    ibv_ah_attr path{};
    path.port_num = 1;
    assert_null(ibv_create_ah(end.pd, &path)); // no global route
    path.is_global = 1;
    path.grh.sgid_index = 1;
    assert_null(ibv_create_ah(end.pd, &path));
}

// As rxe: 16 bytes for each piece that a request may have. Programs post a few bytes inline without having
// asked.
TEST(inline_data__not_asked_for__room_for_some_is_granted) {
    const OpenContext context(open_uroce());
    End end(context.get());
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = end.cq;
    init.qp_type = IBV_QPT_RC;
    const auto granted = [&](std::uint32_t sges, std::uint32_t asked) {
        init.cap = {1, 1, sges, 1, asked};
        ibv_qp* qp = ibv_create_qp(end.pd, &init);
        assert_non_null(qp);
        ibv_qp_attr attr{};
        ibv_qp_init_attr known{};
        assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_CAP, &known), 0);
        assert_int_equal(known.cap.max_inline_data, init.cap.max_inline_data);
        assert_int_equal(attr.cap.max_inline_data, init.cap.max_inline_data);
        assert_int_equal(ibv_destroy_qp(qp), 0);
        return init.cap.max_inline_data;
    };
    assert_int_equal(granted(0, 0), 8);
    assert_int_equal(granted(1, 0), 16);
    assert_int_equal(granted(4, 63), 64);
    assert_int_equal(granted(4, 100), 100);
    assert_int_equal(granted(32, 1024), 1024);
    EndOptions options;
    options.sges = 1;
    options.inline_bytes = 0;
    End left(context.get(), options), right(context.get());
    connect(left, right);
    ibv_sge sge = left.sge(0, 16);
    sge.lkey = 0; // nobody looks at it
    assert_int_equal(left.send(IBV_WR_RDMA_WRITE, sge, right, 0, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
    assert_int_equal(left.wait().status, IBV_WC_SUCCESS);
    assert_memory_equal(left.block.data(), right.block.data(), 16);
    sge.length = 17;
    assert_int_equal(left.send(IBV_WR_RDMA_WRITE, sge, right, 0, IBV_SEND_INLINE), EINVAL);
}

TEST(modify__wrong_masks_and_values__refused_with_nothing_changed) {
    const OpenContext context(open_uroce());
    End end(context.get());
    ibv_qp_attr attr = usual_path(end.qp->qp_num, end.gid, {});
    const int to_init = kToInit | IBV_QP_ACCESS_FLAGS;
    assert_int_equal(modify(end.qp, attr, IBV_QPS_INIT, kToInit), EINVAL);
    assert_int_equal(modify(end.qp, attr, IBV_QPS_INIT, to_init | IBV_QP_QKEY), EINVAL);
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RTR, kToRtr), EINVAL);
    attr.port_num = 2;
    assert_int_equal(modify(end.qp, attr, IBV_QPS_INIT, to_init), EINVAL);
    attr.port_num = 1;
    assert_int_equal(end.state(), IBV_QPS_RESET);
    assert_int_equal(modify(end.qp, attr, IBV_QPS_INIT, to_init), 0);
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RTR, kToRtr & ~IBV_QP_AV), EINVAL);
    const auto refuses_rtr = [&](auto change) {
        ibv_qp_attr wrong = attr;
        change(wrong);
        return modify(end.qp, wrong, IBV_QPS_RTR, kToRtr) == EINVAL && end.state() == IBV_QPS_INIT;
    };
    assert_true(refuses_rtr([](ibv_qp_attr& wrong) { wrong.path_mtu = static_cast<ibv_mtu>(6); }));
    assert_true(refuses_rtr([](ibv_qp_attr& wrong) { wrong.path_mtu = static_cast<ibv_mtu>(0); }));
    assert_true(refuses_rtr([](ibv_qp_attr& wrong) { wrong.path_mtu = static_cast<ibv_mtu>(0x5d37'4400); }));
    assert_true(refuses_rtr([](ibv_qp_attr& wrong) { wrong.dest_qp_num = 1 << 24; }));
    assert_true(refuses_rtr([](ibv_qp_attr& wrong) { wrong.max_dest_rd_atomic = 17; }));
    assert_true(refuses_rtr([](ibv_qp_attr& wrong) { wrong.min_rnr_timer = 32; }));
    assert_true(refuses_rtr([](ibv_qp_attr& wrong) { wrong.ah_attr.is_global = 0; }));
    assert_true(refuses_rtr([](ibv_qp_attr& wrong) { wrong.ah_attr.grh.sgid_index = 3; }));
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RTR, kToRtr), 0);
    attr.timeout = 32;
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RTS, kToRts), EINVAL);
    attr.timeout = 14;
    attr.cur_qp_state = IBV_QPS_INIT;
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RTS, kToRts | IBV_QP_CUR_STATE), EINVAL);
    attr.cur_qp_state = IBV_QPS_RTR;
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RTS, kToRts | IBV_QP_CUR_STATE), 0);
    ibv_qp_attr got{};
    ibv_qp_init_attr init{};
    assert_int_equal(ibv_query_qp(end.qp, &got, kToRts, &init), 0);
    assert_int_equal(got.qp_state, IBV_QPS_RTS);
    assert_int_equal(got.dest_qp_num, end.qp->qp_num);
    assert_int_equal(got.sq_psn, 0xfffffe);
    assert_int_equal(got.timeout, 14);
    assert_int_equal(got.path_mtu, IBV_MTU_4096);
    assert_memory_equal(&got.ah_attr.grh.dgid, &end.gid, sizeof end.gid);
    assert_int_equal(init.cap.max_send_wr, 64);
    assert_ptr_equal(init.send_cq, end.cq);
    assert_int_equal(modify(end.qp, attr, static_cast<ibv_qp_state>(9), IBV_QP_STATE), EINVAL);
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RESET, IBV_QP_STATE), 0);
    assert_int_equal(end.state(), IBV_QPS_RESET);
}

TEST(modify__to_reset__completions_go_with_their_requests) {
    const OpenContext context(open_uroce());
    End end(context.get());
    End other(context.get());
    for (End* one : {&end, &other}) {
        bring_up(one->qp, one->qp->qp_num, one->gid);
        assert_int_equal(one->send(IBV_WR_RDMA_WRITE, one->sge(0, 8), *one, 64), 0);
    }
    assert_int_equal(modify(end.qp, {}, IBV_QPS_RESET, IBV_QP_STATE), 0);
    ibv_wc wc{};
    assert_int_equal(ibv_poll_cq(end.cq, 1, &wc), 0);
    assert_int_equal(other.wait().status, IBV_WC_SUCCESS);
    bring_up(end.qp, end.qp->qp_num, end.gid);
    assert_int_equal(end.send(IBV_WR_RDMA_WRITE, end.sge(0, 8), end, 64), 0);
    assert_int_equal(end.wait().status, IBV_WC_SUCCESS);
}

TEST(modify__unreliable_connection__its_own_attributes) {
    const OpenContext context(open_uroce());
    EndOptions options;
    options.type = IBV_QPT_UC;
    End end(context.get(), options);
    ibv_qp_attr attr = usual_path(end.qp->qp_num, end.gid, {});
    assert_int_equal(modify(end.qp, attr, IBV_QPS_INIT, kToInit | IBV_QP_QKEY), EINVAL);
    assert_int_equal(modify(end.qp, attr, IBV_QPS_INIT, kToInit | IBV_QP_ACCESS_FLAGS), 0);
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RTR, kToRtrUc | IBV_QP_MIN_RNR_TIMER), EINVAL);
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RTR, kToRtrUc | IBV_QP_MAX_DEST_RD_ATOMIC), EINVAL);
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RTR, kToRtrUc & ~IBV_QP_RQ_PSN), EINVAL);
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RTR, kToRtrUc), 0);
    for (const int reliable :
         {int{IBV_QP_TIMEOUT}, int{IBV_QP_RETRY_CNT}, int{IBV_QP_RNR_RETRY}, int{IBV_QP_MAX_QP_RD_ATOMIC}}) {
        assert_int_equal(modify(end.qp, attr, IBV_QPS_RTS, kToRtsUc | reliable), EINVAL);
    }
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RTS, kToRtsUc), 0);
    ibv_sge sge = end.sge(0, 8);
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_SEND_WITH_INV, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
        assert_int_equal(end.send(opcode, sge, end), EINVAL);
    }
    sge.lkey ^= 0x700;
    assert_int_equal(end.send(IBV_WR_SEND, sge, end), 0);
    assert_int_equal(end.wait().status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(end.state(), IBV_QPS_SQE);
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_QKEY), EINVAL);
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_CUR_STATE),
                     EINVAL); // it is RESET there
    assert_int_equal(modify(end.qp, attr, IBV_QPS_RTS, IBV_QP_STATE), 0);
    assert_int_equal(end.send(IBV_WR_RDMA_WRITE, end.sge(0, 8), end, 64), 0);
    assert_int_equal(end.wait().status, IBV_WC_SUCCESS);
    assert_memory_equal(end.block.data(), end.block.data() + 64, 8);
}

TEST(create_qp_ex__operations_that_need_answers__not_for_an_unreliable_connection) {
    const OpenContext context(open_uroce());
    End end(context.get());
    EndOptions options;
    options.type = IBV_QPT_UC;
    for (const std::uint64_t op :
         {std::uint64_t{IBV_QP_EX_WITH_RDMA_READ}, std::uint64_t{IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP},
          std::uint64_t{IBV_QP_EX_WITH_SEND_WITH_INV}}) {
        options.wr_ops = IBV_QP_EX_WITH_SEND | op;
        assert_null(end.make_qp(options));
        assert_int_equal(errno, EOPNOTSUPP);
    }
    options.wr_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_BIND_MW;
    ibv_qp* qp = end.make_qp(options);
    assert_non_null(qp);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

// The fields of packets hold three bits, but these counts are in none: rxe takes what it is told.
TEST(modify__retry_counts_above_seven__taken_and_counted) {
    Connected pair(Where::kOneContext, {}, {.retries = 200, .rnr_retries = 9});
    ibv_qp_attr got{};
    ibv_qp_init_attr init{};
    assert_int_equal(ibv_query_qp(pair.left.qp, &got, kToRts, &init), 0);
    assert_int_equal(got.retry_cnt, 200);
    assert_int_equal(got.rnr_retry, 9);
    // Nine, and not without end: that is 7 alone.
    assert_int_equal(pair.left.send(IBV_WR_SEND, pair.left.sge(0, 8), pair.right), 0);
    assert_int_equal(pair.left.wait().status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST(post__before_its_state__refused) {
    const OpenContext context(open_uroce());
    End end(context.get());
    assert_int_equal(end.receive(end.sge(0, 8)), EINVAL);
    assert_int_equal(end.send(IBV_WR_SEND, end.sge(0, 8), end), EINVAL);
    const ibv_qp_attr attr = usual_path(end.qp->qp_num, end.gid, {});
    assert_int_equal(modify(end.qp, attr, IBV_QPS_INIT, kToInit | IBV_QP_ACCESS_FLAGS), 0);
    assert_int_equal(end.receive(end.sge(0, 8)), 0);
    assert_int_equal(end.send(IBV_WR_SEND, end.sge(0, 8), end), EINVAL);
}

TEST(destroy__in_the_wrong_order__busy) {
    const OpenContext context(open_uroce());
    EndOptions options;
    options.with_srq = true;
    End end(context.get(), options);
    assert_int_equal(ibv_destroy_cq(end.cq), EBUSY);
    assert_int_equal(ibv_destroy_srq(end.srq), EBUSY);
    assert_int_equal(ibv_dealloc_pd(end.pd), EBUSY);
    assert_int_equal(ibv_destroy_qp(end.qp), 0);
    end.qp = nullptr;
    assert_int_equal(ibv_dealloc_pd(end.pd), EBUSY); // the region and the shared queue
    ibv_td_init_attr td_attr{};
    ibv_td* td = ibv_alloc_td(context.get(), &td_attr);
    assert_non_null(td);
    ibv_parent_domain_init_attr parent_attr{};
    parent_attr.pd = end.pd;
    parent_attr.td = td;
    ibv_pd* parent = ibv_alloc_parent_domain(context.get(), &parent_attr);
    assert_non_null(parent);
    assert_int_equal(ibv_dealloc_td(td), EBUSY);
    ibv_mr* mr = ibv_reg_mr(parent, end.block.data(), 8, 0);
    assert_non_null(mr);
    assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    assert_int_equal(ibv_dealloc_td(td), 0);
}

TEST(comp_channel__made_by_libibverbs__not_there) {
    const OpenContext context(open_uroce());
    assert_null(ibv_create_comp_channel(context.get()));
}

TEST(queue_pairs__a_thousand__all_work) {
    const OpenContext context(open_uroce());
    EndOptions options;
    options.cqe = 4096;
    End end(context.get(), options);
    options.depth = 4;
    options.inline_bytes = 0;
    options.sges = 1;
    std::vector<ibv_qp*> qps;
    std::set<std::uint32_t> numbers;
    for (int i = 0; i < 1000; ++i) {
        qps.push_back(end.make_qp(options));
        assert_non_null(qps.back());
        numbers.insert(qps.back()->qp_num);
    }
    assert_int_equal(numbers.size(), 1000);
    for (std::size_t i = 0; i < qps.size(); ++i) {
        bring_up(qps[i], qps[i ^ 1]->qp_num, end.gid);
    }
    for (ibv_qp* qp : qps) {
        std::swap(end.qp, qp);
        assert_int_equal(end.send(IBV_WR_RDMA_WRITE, end.sge(0, 64), end, 128), 0);
        assert_int_equal(end.wait().status, IBV_WC_SUCCESS);
        std::swap(end.qp, qp);
    }
    for (ibv_qp* qp : qps) {
        assert_int_equal(ibv_destroy_qp(qp), 0);
    }
}

TEST(cycles__ten_thousand__leave_nothing_behind) {
    const OpenContext context(open_uroce());
    EndOptions options;
    options.block_bytes = 64;
    options.depth = 2;
    const auto cycle = [&] {
        const End end(context.get(), options);
        ibv_mw* mw = ibv_alloc_mw(end.pd, IBV_MW_TYPE_2);
        assert_non_null(mw);
        assert_int_equal(ibv_dealloc_mw(mw), 0);
    };
#ifdef SLUICE_UNDER_SANITIZER
    constexpr int kCycles = 1000;
#else
    constexpr int kCycles = 10000;
#endif
    for (int i = 0; i < 100; ++i) {
        cycle();
    }
    const std::size_t before = resident_kib();
    const std::size_t files = entries_of("/proc/self/fd", "");
    for (int i = 0; i < kCycles; ++i) {
        cycle();
    }
#ifndef SLUICE_UNDER_SANITIZER
    assert_true(resident_kib() <= before + 512);
#else
    (void)before;
#endif
    assert_int_equal(entries_of("/proc/self/fd", ""), files);
}

TEST(opens__many__leave_no_descriptor_and_no_file) {
    const std::size_t files = entries_of("/proc/self/fd", "");
    const std::size_t directories = entries_of(runtime_directory(), "sluice-uroce-");
    for (int i = 0; i < 50; ++i) {
        Connected pair(Where::kTwoDevices);
        ibv_comp_channel* channel = *sluice::uroce::verbs::create_comp_channel(pair.first.get());
        assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    }
    assert_int_equal(entries_of("/proc/self/fd", ""), files);
    assert_true(entries_of(runtime_directory(), "sluice-uroce-") <= directories);
}

} // namespace

int main() {
    (void)runtime_directory();
    return sluice::test::run_all_tests("uroce.verbs_objects", nullptr, remove_runtime_directory);
}
