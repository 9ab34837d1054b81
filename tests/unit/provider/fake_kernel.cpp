// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/provider/fake_kernel.hpp"

#include <sys/mman.h>

#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>

namespace sluice::provider::testing {

namespace {

FakeKernel* current = nullptr;

int fail(int error) {
    errno = error;
    return -1;
}

constexpr std::uint32_t kExtended = IB_USER_VERBS_CMD_FLAG_EXTENDED;

const ib_uverbs_attr* find(const ib_uverbs_ioctl_hdr& header, std::uint16_t id) {
    const auto* attrs = reinterpret_cast<const ib_uverbs_attr*>(&header + 1);
    for (int i = 0; i < header.num_attrs; ++i) {
        if (attrs[i].attr_id == id) {
            return &attrs[i];
        }
    }
    return nullptr;
}

const void* input(const ib_uverbs_attr* attr) {
    if (attr == nullptr) {
        return nullptr;
    }
    return attr->len <= 8 ? static_cast<const void*>(&attr->data) : reinterpret_cast<const void*>(attr->data);
}

void* output(const ib_uverbs_attr* attr) {
    return attr != nullptr ? reinterpret_cast<void*>(attr->data) : nullptr;
}

template<typename T>
T read(const void* in) {
    T value{};
    std::memcpy(static_cast<void*>(&value), in, sizeof value);
    return value;
}

template<typename T>
void put(void* out, const T& value) {
    std::memcpy(out, &value, sizeof value);
}

} // namespace

const abi::KernelCalls FakeKernel::kCalls{FakeKernel::ioctl,  FakeKernel::write, FakeKernel::mmap,
                                          FakeKernel::munmap, FakeKernel::open,  FakeKernel::pread,
                                          FakeKernel::close};

FakeKernel::FakeKernel() {
    assert(current == nullptr);
    current = this;
}

FakeKernel::~FakeKernel() {
    for (auto& [offset, ring] : rings_) {
        delete ring;
    }
    current = nullptr;
}

mminfo FakeKernel::make_ring(std::uint32_t slots, std::size_t element_bytes) {
    auto* ring = new FakeRing;
    const std::uint32_t rounded = std::bit_ceil(slots + 1);
    ring->shift = static_cast<std::uint32_t>(
        std::bit_width(std::bit_ceil(std::max<std::size_t>(element_bytes, 64))) - 1);
    ring->mask = rounded - 1;
    ring->memory.resize(384 + (std::size_t{rounded} << ring->shift));
    ring->header().log2_elem_size = ring->shift;
    ring->header().index_mask = ring->mask;
    if (spoil != nullptr) {
        spoil(*ring);
    }
    const std::uint64_t offset = (rings_.size() + 1) << 20;
    rings_.emplace_back(offset, ring);
    return {.offset = offset, .size = static_cast<std::uint32_t>(ring->memory.size()), .pad = 0};
}

void FakeKernel::complete(FakeRing& cq, const ib_uverbs_wc& wc) {
    const std::uint32_t at = cq.header().producer_index;
    std::memcpy(cq.element(at), &wc, sizeof wc);
    __atomic_store_n(&cq.header().producer_index, (at + 1) & cq.mask, __ATOMIC_RELEASE);
}

std::uint64_t FakeKernel::make_array(std::size_t bytes) {
    auto* ring = new FakeRing;
    ring->memory.resize(bytes);
    if (spoil != nullptr) {
        spoil(*ring);
    }
    const std::uint64_t offset = (rings_.size() + 1) << 20;
    rings_.emplace_back(offset, ring);
    return offset;
}

// The commands that siw answers in its own words; ENOSYS for the others.
int FakeKernel::run_siw(std::uint32_t command, const void* in, void* out, void* driver_out) {
    switch (command) {
    case IB_USER_VERBS_EX_CMD_CREATE_CQ | kExtended: {
        const auto cmd = read<ib_uverbs_ex_create_cq>(in);
        last_cq = cmd.user_handle;
        const std::uint32_t count = std::bit_ceil(cmd.cqe);
        ib_uverbs_ex_create_cq_resp answer{};
        answer.base.cq_handle = ++last_handle;
        last_cq_handle = last_handle;
        answer.base.cqe = count;
        put(out, answer);
        put(driver_out, siw_uresp_create_cq{1, siw_count != 0 ? siw_count : count,
                                            make_array(count * sizeof(siw_cqe) + sizeof(siw_cq_ctrl))});
        ++live[IB_USER_VERBS_CMD_CREATE_CQ];
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_QP: {
        std::uint32_t cmd[14];
        std::memcpy(cmd, in, 56);
        const std::uint32_t sends = std::bit_ceil(cmd[8]);
        const std::uint32_t receives = std::bit_ceil(cmd[9]);
        const std::uint32_t handle = ++last_handle;
        const std::uint32_t answer[8] = {handle, handle + 1000, cmd[8], cmd[9], cmd[10], cmd[11], 80, 0};
        put(out, answer);
        siw_uresp_create_qp rings{};
        rings.num_sqe = sends;
        rings.num_rqe = receives;
        rings.sq_key = make_array(sends * sizeof(siw_sqe));
        rings.rq_key = make_array(receives * sizeof(siw_rqe));
        put(driver_out, rings);
        ++live[command];
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_SRQ: {
        const auto cmd = read<ib_uverbs_create_srq>(in);
        const std::uint32_t count = std::bit_ceil(cmd.max_wr);
        ib_uverbs_create_srq_resp answer{};
        answer.srq_handle = ++last_handle;
        answer.max_wr = count;
        answer.max_sge = cmd.max_sge;
        put(out, answer);
        siw_uresp_create_srq ring{};
        ring.num_rqe = count;
        ring.srq_key = make_array(count * sizeof(siw_rqe));
        put(driver_out, ring);
        ++live[command];
        return 0;
    }
    default:
        return ENOSYS;
    }
}

int FakeKernel::run(std::uint32_t command, const void* in, void* out, const void* driver_in,
                    void* driver_out) {
    if (command == fail_command) {
        return fail(EINVAL);
    }
    if (siw) {
        const int answer = run_siw(command, in, out, driver_out);
        if (answer != ENOSYS) {
            return answer;
        }
    }
    const std::uint32_t handle = ++last_handle;
    switch (command) {
    case IB_USER_VERBS_CMD_ALLOC_PD:
        put(out, handle);
        ++live[command];
        return 0;
    case IB_USER_VERBS_CMD_DEALLOC_PD:
        --live[IB_USER_VERBS_CMD_ALLOC_PD];
        return 0;
    case IB_USER_VERBS_CMD_REG_MR: {
        const std::uint32_t answer[3] = {handle, handle << 8, handle << 8};
        put(out, answer);
        ++live[command];
        return 0;
    }
    case IB_USER_VERBS_CMD_DEREG_MR:
        --live[IB_USER_VERBS_CMD_REG_MR];
        return 0;
    case IB_USER_VERBS_CMD_ALLOC_MW: {
        const std::uint32_t answer[2] = {handle, handle << 8};
        put(out, answer);
        ++live[command];
        return 0;
    }
    case IB_USER_VERBS_CMD_DEALLOC_MW:
        --live[IB_USER_VERBS_CMD_ALLOC_MW];
        return 0;
    case IB_USER_VERBS_EX_CMD_CREATE_CQ | kExtended: {
        const auto cmd = read<ib_uverbs_ex_create_cq>(in);
        last_cq = cmd.user_handle;
        ib_uverbs_ex_create_cq_resp answer{};
        answer.base.cq_handle = handle;
        last_cq_handle = handle;
        answer.base.cqe = std::bit_ceil(cmd.cqe + 1) - 1;
        put(out, answer);
        put(driver_out, rxe_create_cq_resp{make_ring(cmd.cqe, sizeof(ib_uverbs_wc))});
        ++live[IB_USER_VERBS_CMD_CREATE_CQ];
        return 0;
    }
    case IB_USER_VERBS_CMD_RESIZE_CQ: {
        const auto cmd = read<ib_uverbs_poll_cq>(in); // response, handle, and in ne's place cqe
        put(out, std::bit_ceil(cmd.ne + 1) - 1);
        FakeRing& from = ring(0);
        const mminfo info = make_ring(cmd.ne, sizeof(ib_uverbs_wc));
        FakeRing& to = *rings_.back().second;
        for (std::uint32_t i = from.header().consumer_index & from.mask;
             i != (from.header().producer_index & from.mask); i = (i + 1) & from.mask) {
            complete(to, read<ib_uverbs_wc>(from.element(i)));
        }
        put(driver_out, rxe_resize_cq_resp{info});
        return 0;
    }
    case IB_USER_VERBS_CMD_DESTROY_CQ: {
        ib_uverbs_destroy_cq_resp answer{};
        if (read<ib_uverbs_destroy_cq>(in).cq_handle == last_cq_handle) {
            answer.async_events_reported = events_of_last_cq;
        }
        put(out, answer);
        --live[IB_USER_VERBS_CMD_CREATE_CQ];
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_QP: {
        struct {
            std::uint64_t response, user_handle;
            std::uint32_t pd, send_cq, recv_cq, srq, send_wr, recv_wr, send_sge, recv_sge, inline_data;
            std::uint8_t sig_all, type, is_srq, reserved;
        } cmd{};
        std::memcpy(&cmd, in, sizeof cmd);
        const std::uint32_t payload = std::max(cmd.send_sge * 16, cmd.inline_data);
        const std::uint32_t answer[8] = {handle,       handle + 1000, cmd.send_wr, cmd.recv_wr,
                                         payload / 16, cmd.recv_sge,  payload,     0};
        put(out, answer);
        rxe_create_qp_resp rings{};
        if (cmd.is_srq == 0) {
            rings.rq_mi = make_ring(cmd.recv_wr, 40 + std::size_t{cmd.recv_sge} * 16);
        }
        rings.sq_mi = make_ring(cmd.send_wr, 208 + std::size_t{payload});
        put(driver_out, rings);
        ++live[command];
        return 0;
    }
    case IB_USER_VERBS_CMD_MODIFY_QP: {
        const auto cmd = read<ib_uverbs_modify_qp>(in);
        qp_states[cmd.qp_handle] = cmd.qp_state;
        return 0;
    }
    case IB_USER_VERBS_CMD_DESTROY_QP:
        put(out, std::uint32_t{0});
        --live[IB_USER_VERBS_CMD_CREATE_QP];
        return 0;
    case IB_USER_VERBS_CMD_CREATE_SRQ: {
        struct {
            std::uint64_t response, user_handle;
            std::uint32_t pd, max_wr, max_sge, limit;
        } cmd{};
        std::memcpy(&cmd, in, sizeof cmd);
        const std::uint32_t answer[4] = {handle, cmd.max_wr, cmd.max_sge, 0};
        put(out, answer);
        put(driver_out, rxe_create_srq_resp{make_ring(cmd.max_wr, 40 + std::size_t{cmd.max_sge} * 16), 5, 0});
        ++live[command];
        return 0;
    }
    case IB_USER_VERBS_CMD_MODIFY_SRQ: {
        std::uint32_t cmd[4];
        std::memcpy(cmd, in, sizeof cmd);
        if ((cmd[1] & 1) != 0) {
            const auto driver = read<rxe_modify_srq_cmd>(driver_in);
            put(reinterpret_cast<void*>(driver.mmap_info_addr), make_ring(cmd[2], 40 + 2 * 16));
        }
        return 0;
    }
    case IB_USER_VERBS_CMD_DESTROY_SRQ:
        put(out, std::uint32_t{0});
        --live[IB_USER_VERBS_CMD_CREATE_SRQ];
        return 0;
    case IB_USER_VERBS_CMD_CREATE_AH:
        put(out, handle);
        put(driver_out, rxe_create_ah_resp{ah_number, 0});
        ++live[command];
        return 0;
    case IB_USER_VERBS_CMD_DESTROY_AH:
        --live[IB_USER_VERBS_CMD_CREATE_AH];
        return 0;
    case IB_USER_VERBS_EX_CMD_QUERY_DEVICE | kExtended: {
        ib_uverbs_ex_query_device_resp answer{};
        answer.base.fw_ver = 0x0001'0002'0003;
        answer.base.max_qp = 12;
        answer.device_cap_flags_ex = device_flags;
        put(out, answer);
        return 0;
    }
    case IB_USER_VERBS_CMD_POST_SEND:
        ++doorbells_by_ioctl;
        return 0;
    case IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
        return 0;
    default:
        return fail(EOPNOTSUPP);
    }
}

int FakeKernel::ioctl(int /*fd*/, unsigned long /*request*/, void* argument) {
    FakeKernel& kernel = *current;
    if (kernel.ioctl_error != 0) {
        return fail(kernel.ioctl_error);
    }
    const auto& header = *static_cast<const ib_uverbs_ioctl_hdr*>(argument);
    if (header.object_id != UVERBS_OBJECT_DEVICE) {
        return fail(EOPNOTSUPP);
    }
    switch (header.method_id) {
    case UVERBS_METHOD_GET_CONTEXT: // but not QUERY_CONTEXT, which neither driver answers
        put(output(find(header, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS)), std::uint32_t{2});
        return 0;
    case UVERBS_METHOD_INVOKE_WRITE:
        // A constant is a number of 64 bits, wherever its low half lies.
        return kernel.run(static_cast<std::uint32_t>(find(header, UVERBS_ATTR_WRITE_CMD)->data),
                          input(find(header, UVERBS_ATTR_CORE_IN)),
                          output(find(header, UVERBS_ATTR_CORE_OUT)), input(find(header, UVERBS_ATTR_UHW_IN)),
                          output(find(header, UVERBS_ATTR_UHW_OUT)));
    default:
        return fail(EOPNOTSUPP);
    }
}

ssize_t FakeKernel::write(int /*fd*/, const void* data, std::size_t len_bytes) {
    if (current->write_error != 0) {
        return fail(current->write_error);
    }
    if (read<ib_uverbs_cmd_hdr>(data).command == IB_USER_VERBS_CMD_POST_SEND) {
        ++current->doorbells_by_write;
    }
    return static_cast<ssize_t>(len_bytes);
}

void* FakeKernel::mmap(void* address, std::size_t len_bytes, int /*protection*/, int flags, int /*fd*/,
                       off_t offset) {
    if ((flags & MAP_ANONYMOUS) != 0) {
        std::memset(address, 0, len_bytes);
        return address;
    }
    if (current->mmap_error != 0) {
        errno = current->mmap_error;
        return MAP_FAILED;
    }
    for (auto& [key, ring] : current->rings_) {
        if (key == static_cast<std::uint64_t>(offset)) {
            ++current->live_mappings;
            return ring->memory.data();
        }
    }
    errno = EINVAL;
    return MAP_FAILED;
}

int FakeKernel::munmap(void* /*address*/, std::size_t /*len_bytes*/) {
    --current->live_mappings;
    return 0;
}

int FakeKernel::open(const char* /*path*/) {
    ++current->open_files;
    return 43;
}

ssize_t FakeKernel::pread(int /*fd*/, void* data, std::size_t len_bytes) {
    if (current->removed) {
        return fail(ENODEV);
    }
    std::memset(data, '1', len_bytes);
    return static_cast<ssize_t>(len_bytes);
}

int FakeKernel::close(int /*fd*/) {
    --current->open_files;
    return 0;
}

} // namespace sluice::provider::testing
