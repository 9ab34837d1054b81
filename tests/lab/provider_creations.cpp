// SPDX-License-Identifier: BSD-3-Clause
//
//   provider_creations DEVICE GID_INDEX
//
// Makes every kind of object with every kind of argument: nothing, one, powers of two and their
// neighbours, the device's limits, and what lies beyond. Prints one line for each call: what was
// asked, " = ", and what came out of it, which is "ok" with what was granted, or the errno. Two
// providers agree if their lines do.
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/lab/verbs_loop.hpp"

namespace {

using namespace sluice::lab;

// What all calls share.
struct Bench {
    ibv_context* context = nullptr;
    ibv_device_attr limits{};
    ibv_pd* pd = nullptr;
    ibv_cq* cq = nullptr;
    ibv_srq* srq = nullptr;
    ibv_comp_channel* channel = nullptr;
    char* memory = nullptr; // kMemoryBytes of it
};
constexpr std::size_t kMemoryBytes = std::size_t{1} << 20;

[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...) {
    std::array<char, 256> line{};
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line.data(), line.size(), format, arguments);
    va_end(arguments);
    return line.data();
}

std::string refusal(int error) {
    const char* name = error != 0 ? strerrorname_np(error) : "refused, errno untouched";
    return name != nullptr ? name : text("error %d", error);
}

void report(const std::string& asked, const std::string& came) {
    std::printf("%s = %s\n", asked.c_str(), came.c_str());
}

// A call whose verdict is an errno.
void report_code(const std::string& asked, int error) {
    report(asked, error == 0 ? "ok" : refusal(error));
}

// Counts a queue may be made with: 0 up, around powers of two, and around a limit.
std::vector<std::int64_t> counts(std::int64_t limit) {
    return {0,  1,    2,    3,         4,     7,         8,         15,        16,      63, 64,
            65, 1000, 4095, limit / 2, limit, limit - 1, limit + 1, limit * 2, INT_MAX, -1};
}

// --- completion queues ---

void create_cqs(const Bench& it) {
    const int vectors = it.context->num_comp_vectors;
    for (const std::int64_t cqe : counts(it.limits.max_cqe)) {
        for (ibv_comp_channel* channel : {static_cast<ibv_comp_channel*>(nullptr), it.channel}) {
            errno = 0;
            ibv_cq* cq = ibv_create_cq(it.context, static_cast<int>(cqe), nullptr, channel, 0);
            report(text("create_cq cqe %ld channel %d", static_cast<long>(cqe), channel != nullptr),
                   cq != nullptr ? text("ok, %d", cq->cqe) : refusal(errno));
            require(cq == nullptr || ibv_destroy_cq(cq) == 0, "destroy a CQ");
        }
    }
    for (const int vector : {0, vectors - 1, vectors, vectors + 1, -1}) {
        errno = 0;
        ibv_cq* cq = ibv_create_cq(it.context, 8, nullptr, nullptr, vector);
        report(text("create_cq vector %d", vector), cq != nullptr ? text("ok, %d", cq->cqe) : refusal(errno));
        require(cq == nullptr || ibv_destroy_cq(cq) == 0, "destroy a CQ");
    }
}

// What was asked for can be read, and what is always there.
bool readable(const ibv_cq_ex& cq, std::uint64_t wc_flags) {
    const auto has = [wc_flags](std::uint64_t flag, bool reader) { return (wc_flags & flag) == 0 || reader; };
    return cq.start_poll != nullptr && cq.next_poll != nullptr && cq.end_poll != nullptr &&
           cq.read_opcode != nullptr && cq.read_vendor_err != nullptr && cq.read_wc_flags != nullptr &&
           has(IBV_WC_EX_WITH_BYTE_LEN, cq.read_byte_len != nullptr) &&
           has(IBV_WC_EX_WITH_IMM, cq.read_imm_data != nullptr) &&
           has(IBV_WC_EX_WITH_QP_NUM, cq.read_qp_num != nullptr) &&
           has(IBV_WC_EX_WITH_SRC_QP, cq.read_src_qp != nullptr) &&
           has(IBV_WC_EX_WITH_SLID, cq.read_slid != nullptr) &&
           has(IBV_WC_EX_WITH_SL, cq.read_sl != nullptr) &&
           has(IBV_WC_EX_WITH_DLID_PATH_BITS, cq.read_dlid_path_bits != nullptr) &&
           has(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, cq.read_completion_ts != nullptr) &&
           has(IBV_WC_EX_WITH_CVLAN, cq.read_cvlan != nullptr) &&
           has(IBV_WC_EX_WITH_FLOW_TAG, cq.read_flow_tag != nullptr) &&
           has(IBV_WC_EX_WITH_TM_INFO, cq.read_tm_info != nullptr) &&
           has(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, cq.read_completion_wallclock_ns != nullptr);
}

void create_cq_ex(const Bench& it, ibv_cq_init_attr_ex attr) {
    errno = 0;
    ibv_cq_ex* cq = ibv_create_cq_ex(it.context, &attr);
    report(text("create_cq_ex cqe %u wc_flags %#llx comp_mask %#x flags %#x", attr.cqe,
                static_cast<unsigned long long>(attr.wc_flags), attr.comp_mask, attr.flags),
           cq != nullptr
               ? text("ok, %d, %s", cq->cqe, readable(*cq, attr.wc_flags) ? "readable" : "not readable")
               : refusal(errno));
    require(cq == nullptr || ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0, "destroy an extended CQ");
}

void create_cqs_ex(const Bench& it) {
    ibv_cq_init_attr_ex base{};
    base.cqe = 16;
    for (const std::int64_t cqe : counts(it.limits.max_cqe)) {
        ibv_cq_init_attr_ex attr = base;
        attr.cqe = static_cast<std::uint32_t>(cqe);
        create_cq_ex(it, attr);
    }
    for (unsigned bit = 0; bit < 16; ++bit) {
        ibv_cq_init_attr_ex attr = base;
        attr.wc_flags = 1ULL << bit;
        create_cq_ex(it, attr);
    }
    for (const std::uint64_t wc_flags : {std::uint64_t{IBV_WC_STANDARD_FLAGS}, ~std::uint64_t{0}}) {
        ibv_cq_init_attr_ex attr = base;
        attr.wc_flags = wc_flags;
        create_cq_ex(it, attr);
    }
    for (std::uint32_t flags = 0; flags < 8; ++flags) {
        ibv_cq_init_attr_ex attr = base;
        attr.flags = flags;
        create_cq_ex(it, attr);
        attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
        create_cq_ex(it, attr);
    }
    for (unsigned bit = 1; bit < 5; ++bit) {
        ibv_cq_init_attr_ex attr = base;
        attr.comp_mask = 1U << bit; // of IBV_CQ_INIT_ATTR_MASK_PD, too: with no domain
        create_cq_ex(it, attr);
    }
}

void resize_cqs(const Bench& it) {
    for (const std::int64_t cqe : counts(it.limits.max_cqe)) {
        ibv_cq* cq = ibv_create_cq(it.context, 64, nullptr, nullptr, 0);
        require(cq != nullptr, "create a CQ to resize");
        const int error = ibv_resize_cq(cq, static_cast<int>(cqe));
        report(text("resize_cq from 64 to %ld", static_cast<long>(cqe)),
               text("%s, %d", error == 0 ? "ok" : refusal(error).c_str(), cq->cqe));
        require(ibv_destroy_cq(cq) == 0, "destroy a resized CQ");
    }
}

// --- shared receive queues ---

void report_srq(const std::string& asked, ibv_srq* srq, const ibv_srq_attr& attr) {
    const int error = errno;
    report(asked, srq != nullptr ? text("ok, %u of %u", attr.max_wr, attr.max_sge) : refusal(error));
    if (srq == nullptr) {
        return;
    }
    ibv_srq_attr now{};
    const int query_error = ibv_query_srq(srq, &now);
    report("query_srq after " + asked,
           query_error == 0 ? text("ok, %u of %u limit %u", now.max_wr, now.max_sge, now.srq_limit)
                            : refusal(query_error));
}

void create_srq(const Bench& it, std::int64_t max_wr, std::int64_t max_sge, std::uint32_t limit) {
    ibv_srq_init_attr attr{};
    attr.attr.max_wr = static_cast<std::uint32_t>(max_wr);
    attr.attr.max_sge = static_cast<std::uint32_t>(max_sge);
    attr.attr.srq_limit = limit;
    errno = 0;
    ibv_srq* srq = ibv_create_srq(it.pd, &attr);
    report_srq(text("create_srq max_wr %ld max_sge %ld limit %u", static_cast<long>(max_wr),
                    static_cast<long>(max_sge), limit),
               srq, attr.attr);
    require(srq == nullptr || ibv_destroy_srq(srq) == 0, "destroy an SRQ");
}

void create_srqs(const Bench& it) {
    for (const std::int64_t max_wr : counts(it.limits.max_srq_wr)) {
        create_srq(it, max_wr, 1, 0);
        create_srq(it, max_wr, 0, 0);
    }
    for (const std::int64_t max_sge : counts(it.limits.max_srq_sge)) {
        create_srq(it, 8, max_sge, 0);
    }
    for (const std::uint32_t limit : {1U, 7U, 8U, 9U, 1000U}) {
        create_srq(it, 8, 1, limit);
    }
}

void create_srqs_ex(const Bench& it) {
    constexpr std::uint32_t kTypeAndPd = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    constexpr std::array<std::uint32_t, 12> kMasks{
        0, IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQ_INIT_ATTR_PD, kTypeAndPd,
        // Fields of other types, without what they need, and beside what a basic queue needs.
        IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD,
        kTypeAndPd | IBV_SRQ_INIT_ATTR_CQ, kTypeAndPd | IBV_SRQ_INIT_ATTR_XRCD,
        kTypeAndPd | IBV_SRQ_INIT_ATTR_TM, IBV_SRQ_INIT_ATTR_RESERVED - 1,
        // What doesn't exist.
        IBV_SRQ_INIT_ATTR_RESERVED, kTypeAndPd | IBV_SRQ_INIT_ATTR_RESERVED << 1};
    for (const std::uint32_t mask : kMasks) {
        for (const ibv_srq_type type : {IBV_SRQT_BASIC, IBV_SRQT_XRC, IBV_SRQT_TM}) {
            if ((mask & IBV_SRQ_INIT_ATTR_XRCD) != 0 && type == IBV_SRQT_XRC) {
                continue; // neither device has a domain to give here
            }
            ibv_srq_init_attr_ex attr{};
            attr.attr.max_wr = 8;
            attr.attr.max_sge = 2;
            attr.comp_mask = mask;
            attr.srq_type = type;
            attr.pd = it.pd;
            attr.cq = it.cq;
            errno = 0;
            ibv_srq* srq = ibv_create_srq_ex(it.context, &attr);
            report_srq(text("create_srq_ex comp_mask %#x type %d", mask, static_cast<int>(type)), srq,
                       attr.attr);
            require(srq == nullptr || ibv_destroy_srq(srq) == 0, "destroy an SRQ");
        }
    }
}

void modify_srqs(const Bench& it) {
    for (const std::int64_t max_wr : counts(it.limits.max_srq_wr)) {
        ibv_srq_init_attr attr{};
        attr.attr.max_wr = 64;
        attr.attr.max_sge = 1;
        ibv_srq* srq = ibv_create_srq(it.pd, &attr);
        require(srq != nullptr, "create an SRQ to modify");
        for (const int mask : {int{IBV_SRQ_MAX_WR}, int{IBV_SRQ_LIMIT}, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT}) {
            ibv_srq_attr wanted{};
            wanted.max_wr = static_cast<std::uint32_t>(max_wr);
            wanted.srq_limit = (mask & IBV_SRQ_MAX_WR) != 0 ? 1 : static_cast<std::uint32_t>(max_wr);
            errno = ibv_modify_srq(srq, &wanted, mask);
            report_srq(text("modify_srq mask %d to %ld", mask, static_cast<long>(max_wr)),
                       errno == 0 ? srq : nullptr, wanted);
        }
        require(ibv_destroy_srq(srq) == 0, "destroy a modified SRQ");
    }
}

// --- queue pairs ---

constexpr std::array kTypes{IBV_QPT_RC,       IBV_QPT_UC,       IBV_QPT_UD,    IBV_QPT_RAW_PACKET,
                            IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_DRIVER};

const char* name_of(ibv_qp_type type) {
    switch (type) {
    case IBV_QPT_RC:
        return "RC";
    case IBV_QPT_UC:
        return "UC";
    case IBV_QPT_UD:
        return "UD";
    case IBV_QPT_RAW_PACKET:
        return "raw";
    case IBV_QPT_XRC_SEND:
        return "XRC send";
    case IBV_QPT_XRC_RECV:
        return "XRC receive";
    default:
        return "driver";
    }
}

std::string text_of(const ibv_qp_cap& cap) {
    return text("%u/%u %u/%u %u", cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge,
                cap.max_inline_data);
}

std::string granted(ibv_qp* qp, const ibv_qp_cap& cap) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    const int error = ibv_query_qp(qp, &attr, IBV_QP_CAP, &init);
    return text("ok, %s; queried: %s, signals all %d", text_of(cap).c_str(),
                error == 0 ? text_of(init.cap).c_str() : refusal(error).c_str(), init.sq_sig_all);
}

void create_qp(const Bench& it, ibv_qp_type type, bool shared, const ibv_qp_cap& cap, int signal_all = 0) {
    ibv_qp_init_attr attr{};
    attr.send_cq = it.cq;
    attr.recv_cq = it.cq;
    attr.srq = shared ? it.srq : nullptr;
    attr.cap = cap;
    attr.qp_type = type;
    attr.sq_sig_all = signal_all;
    errno = 0;
    ibv_qp* qp = ibv_create_qp(it.pd, &attr);
    report(text("create_qp %s%s %s signals all %d", name_of(type), shared ? " with an SRQ" : "",
                text_of(cap).c_str(), signal_all),
           qp != nullptr ? granted(qp, attr.cap) : refusal(errno));
    require(qp == nullptr || ibv_destroy_qp(qp) == 0, "destroy a QP");
}

constexpr ibv_qp_cap kOneOfAll{
    .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};

// Every combination of nothing, one and several.
void create_small_qps(const Bench& it, ibv_qp_type type, bool shared) {
    for (unsigned i = 0; i < 3 * 3 * 3 * 3 * 2; ++i) {
        constexpr std::uint32_t kDepths[] = {0, 1, 60};
        constexpr std::uint32_t kSges[] = {0, 1, 3};
        constexpr std::uint32_t kInline[] = {0, 65};
        create_qp(it, type, shared,
                  {.max_send_wr = kDepths[i % 3],
                   .max_recv_wr = kDepths[i / 3 % 3],
                   .max_send_sge = kSges[i / 9 % 3],
                   .max_recv_sge = kSges[i / 27 % 3],
                   .max_inline_data = kInline[i / 81]});
    }
}

// One capability after the other through its range.
void create_large_qps(const Bench& it, ibv_qp_type type, bool shared) {
    for (const std::int64_t depth : counts(it.limits.max_qp_wr)) {
        ibv_qp_cap cap = kOneOfAll;
        cap.max_send_wr = static_cast<std::uint32_t>(depth);
        create_qp(it, type, shared, cap);
        cap = kOneOfAll;
        cap.max_recv_wr = static_cast<std::uint32_t>(depth);
        create_qp(it, type, shared, cap);
    }
    for (const std::int64_t sges : counts(it.limits.max_sge)) {
        ibv_qp_cap cap = kOneOfAll;
        cap.max_send_sge = static_cast<std::uint32_t>(sges);
        create_qp(it, type, shared, cap);
        cap = kOneOfAll;
        cap.max_recv_sge = static_cast<std::uint32_t>(sges);
        create_qp(it, type, shared, cap);
    }
    for (const std::uint32_t bytes :
         {16U, 17U, 80U, 81U, 96U, 100U, 128U, 256U, 400U, 511U, 512U, 513U, 1024U, ~0U}) {
        ibv_qp_cap cap = kOneOfAll;
        cap.max_inline_data = bytes;
        create_qp(it, type, shared, cap);
    }
}

void create_qps(const Bench& it) {
    for (const ibv_qp_type type : kTypes) {
        create_qp(it, type, false, kOneOfAll, 1);
        create_qp(it, type, true, kOneOfAll, 1);
    }
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
        create_small_qps(it, type, false);
        create_large_qps(it, type, false);
    }
    create_small_qps(it, IBV_QPT_RC, true);
    create_large_qps(it, IBV_QPT_RC, true);
}

void create_qp_ex(const Bench& it, ibv_qp_type type, std::uint32_t mask, std::uint64_t ops,
                  std::uint32_t create_flags, const ibv_qp_cap& cap = kOneOfAll) {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = it.cq;
    attr.recv_cq = it.cq;
    attr.cap = cap;
    attr.qp_type = type;
    attr.comp_mask = mask;
    attr.pd = it.pd;
    attr.send_ops_flags = ops;
    attr.create_flags = create_flags;
    errno = 0;
    ibv_qp* qp = ibv_create_qp_ex(it.context, &attr);
    report(text("create_qp_ex %s comp_mask %#x ops %#llx flags %#x %s", name_of(type), mask,
                static_cast<unsigned long long>(ops), create_flags, text_of(cap).c_str()),
           qp != nullptr ? granted(qp, attr.cap) : refusal(errno));
    require(qp == nullptr || ibv_destroy_qp(qp) == 0, "destroy an extended QP");
}

void create_qps_ex(const Bench& it) {
    constexpr std::uint32_t kPd = IBV_QP_INIT_ATTR_PD;
    constexpr std::uint32_t kOps = kPd | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
        for (unsigned bit = 0; bit < 16; ++bit) {
            create_qp_ex(it, type, kOps, 1ULL << bit, 0);
        }
        create_qp_ex(it, type, kOps, 0, 0);
        create_qp_ex(it, type, kOps, ~0ULL, 0);
        for (const std::uint32_t depth : {0U, 1U, 60U}) {
            ibv_qp_cap cap = kOneOfAll;
            cap.max_send_wr = depth;
            create_qp_ex(it, type, kOps, IBV_QP_EX_WITH_SEND, 0, cap);
            cap = kOneOfAll;
            cap.max_recv_wr = depth;
            create_qp_ex(it, type, kOps, IBV_QP_EX_WITH_SEND, 0, cap);
        }
        for (unsigned bit = 1; bit < 12; ++bit) {
            // Targets, domains and tables come along with masks; there are none here.
            create_qp_ex(it, type, kPd | (1U << bit), 0, 0);
        }
        for (unsigned bit = 0; bit < 14; ++bit) {
            create_qp_ex(it, type, kPd | IBV_QP_INIT_ATTR_CREATE_FLAGS, 0, 1U << bit);
        }
    }
    for (const ibv_qp_type type : kTypes) {
        create_qp_ex(it, type, kPd, 0, 0);
    }
}

// --- memory ---

void register_memory(const Bench& it, const char* what, void* address, std::size_t len_bytes,
                     unsigned access) {
    errno = 0;
    ibv_mr* mr = ibv_reg_mr(it.pd, address, len_bytes, static_cast<int>(access));
    report(text("reg_mr %s of %zu access %#x", what, len_bytes, access),
           mr != nullptr ? text("ok, address %d, length %zu, keys %s", mr->addr == address, mr->length,
                                mr->lkey == mr->rkey ? "equal" : "differ")
                         : refusal(errno));
    require(mr == nullptr || ibv_dereg_mr(mr) == 0, "deregister memory");
}

void register_memories(const Bench& it) {
    constexpr unsigned kLocal = IBV_ACCESS_LOCAL_WRITE;
    void* read_only = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void* nothing = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(read_only != MAP_FAILED && nothing != MAP_FAILED, "map memory to register");
    for (const std::size_t len_bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{4097},
          kMemoryBytes, std::size_t{1} << 46, std::size_t{1} << 63, SIZE_MAX}) {
        register_memory(it, "pages", it.memory, len_bytes, kLocal);
        register_memory(it, "bytes", it.memory + 3, len_bytes, kLocal);
    }
    register_memory(it, "no memory", nullptr, 0, kLocal);
    register_memory(it, "no memory", nullptr, 4096, kLocal);
    register_memory(it, "no memory", nullptr, SIZE_MAX, IBV_ACCESS_ON_DEMAND | kLocal);
    register_memory(it, "read-only memory", read_only, 4096, 0);
    register_memory(it, "read-only memory", read_only, 4096, kLocal);
    register_memory(it, "unreadable memory", nothing, 4096, 0);
    for (unsigned bit = 0; bit < 32; ++bit) {
        register_memory(it, "pages", it.memory, 4096, 1U << bit);
        register_memory(it, "pages", it.memory, 4096, 1U << bit | kLocal);
    }
    munmap(read_only, 4096);
    munmap(nothing, 4096);
}

void register_at_other_addresses(const Bench& it) {
    constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    for (const std::uint64_t iova :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4096}, ~std::uint64_t{0}}) {
        for (const unsigned extra : {0U, unsigned{IBV_ACCESS_ZERO_BASED}}) {
            errno = 0;
            ibv_mr* mr = ibv_reg_mr_iova(it.pd, it.memory, 8192, iova, static_cast<int>(kAccess | extra));
            report(text("reg_mr_iova at %#llx access %#x", static_cast<unsigned long long>(iova),
                        kAccess | extra),
                   mr != nullptr ? text("ok, address %d, length %zu", mr->addr == it.memory, mr->length)
                                 : refusal(errno));
            require(mr == nullptr || ibv_dereg_mr(mr) == 0, "deregister memory");
        }
    }
    for (const int fd : {-1, STDOUT_FILENO}) {
        errno = 0;
        const ibv_mr* mr = ibv_reg_dmabuf_mr(it.pd, 0, 4096, 0, fd, static_cast<int>(kAccess));
        report(text("reg_dmabuf_mr %s", fd < 0 ? "of nothing" : "of what is none"),
               mr != nullptr ? "ok" : refusal(errno));
        require(mr == nullptr, "register no DMA buffer");
    }
}

void register_again(const Bench& it) {
    ibv_pd* other = ibv_alloc_pd(it.context);
    for (int flags = 0; flags < 16; ++flags) {
        const int access = IBV_ACCESS_LOCAL_WRITE;
        ibv_mr* mr = ibv_reg_mr(it.pd, it.memory, 4096, access);
        require(other != nullptr && mr != nullptr, "register memory to register again");
        errno = 0;
        const int result =
            ibv_rereg_mr(mr, flags, other, it.memory + 4096, 8192, access | int{IBV_ACCESS_REMOTE_READ});
        report(text("rereg_mr flags %d", flags),
               text("%d %s, length %zu, domain %s", result, result == 0 ? "ok" : refusal(errno).c_str(),
                    mr->length, mr->pd == other ? "new" : "old"));
        require(ibv_dereg_mr(mr) == 0, "deregister memory that was registered again");
    }
    require(ibv_dealloc_pd(other) == 0, "deallocate a PD");
}

void allocate_windows(const Bench& it) {
    for (const int type : {0, 1, 2, 3, 255}) {
        errno = 0;
        ibv_mw* mw = ibv_alloc_mw(it.pd, static_cast<ibv_mw_type>(type));
        report(text("alloc_mw type %d", type),
               mw != nullptr ? text("ok, type %d", static_cast<int>(mw->type)) : refusal(errno));
        require(mw == nullptr || ibv_dealloc_mw(mw) == 0, "deallocate a memory window");
    }
}

// --- addresses ---

void create_ah(const Bench& it, const char* what, ibv_ah_attr attr) {
    errno = 0;
    ibv_ah* ah = ibv_create_ah(it.pd, &attr);
    report(text("create_ah %s", what), ah != nullptr ? "ok" : refusal(errno));
    require(ah == nullptr || ibv_destroy_ah(ah) == 0, "destroy an AH");
}

void create_ahs(const Bench& it) {
    ibv_ah_attr base{};
    base.is_global = 1;
    base.port_num = 1;
    base.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
    base.grh.hop_limit = 1;
    require(ibv_query_gid(it.context, 1, gid_index, &base.grh.dgid) == 0, "query the GID");
    create_ah(it, "to itself", base);
    for (const int port : {0, 2, 255}) {
        ibv_ah_attr attr = base;
        attr.port_num = static_cast<std::uint8_t>(port);
        create_ah(it, text("port %d", port).c_str(), attr);
    }
    for (const int index : {0, 1, 2, 100, 255}) {
        ibv_ah_attr attr = base;
        attr.grh.sgid_index = static_cast<std::uint8_t>(index);
        create_ah(it, text("GID index %d", index).c_str(), attr);
    }
    ibv_ah_attr attr = base;
    attr.is_global = 0;
    create_ah(it, "local", attr);
    attr = base;
    attr.grh.dgid = {};
    create_ah(it, "to no GID", attr);
    attr = base;
    attr.grh.dgid.raw[0] = 0xff;
    create_ah(it, "to a multicast GID", attr);
    attr = base;
    attr.grh.hop_limit = 0;
    create_ah(it, "hop limit 0", attr);
    attr = base;
    attr.sl = 255;
    attr.static_rate = 255;
    attr.grh.traffic_class = 255;
    attr.grh.flow_label = ~0U;
    create_ah(it, "all at their largest", attr);
}

// --- the rest ---

void allocate_domains(const Bench& it) {
    for (const std::uint32_t mask : {0U, 1U}) {
        ibv_td_init_attr td_attr{};
        td_attr.comp_mask = mask;
        errno = 0;
        ibv_td* td = ibv_alloc_td(it.context, &td_attr);
        report(text("alloc_td comp_mask %u", mask), td != nullptr ? "ok" : refusal(errno));
        for (const std::uint32_t parent_mask : {0U, 1U, 2U, 4U}) {
            ibv_parent_domain_init_attr attr{};
            attr.pd = it.pd;
            attr.td = td;
            attr.comp_mask = parent_mask;
            errno = 0;
            ibv_pd* parent = ibv_alloc_parent_domain(it.context, &attr);
            report(text("alloc_parent_domain thread domain's mask %u comp_mask %u", mask, parent_mask),
                   parent != nullptr ? "ok" : refusal(errno));
            require(parent == nullptr || ibv_dealloc_pd(parent) == 0, "deallocate a parent domain");
        }
        require(td == nullptr || ibv_dealloc_td(td) == 0, "deallocate a thread domain");
    }
}

void try_what_neither_device_has(const Bench& it) {
    const auto made = [](const char* asked, const void* object) {
        report(asked, object != nullptr ? "ok" : refusal(errno));
        require(object == nullptr, "make nothing that the device doesn't have");
    };
    errno = 0;
    made("alloc_null_mr", ibv_alloc_null_mr(it.pd));
    ibv_alloc_dm_attr dm{};
    dm.length = 4096;
    errno = 0;
    made("alloc_dm", ibv_alloc_dm(it.context, &dm));
    ibv_xrcd_init_attr xrcd{};
    xrcd.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    xrcd.fd = -1;
    errno = 0;
    made("open_xrcd", ibv_open_xrcd(it.context, &xrcd));
    ibv_wq_init_attr wq{};
    wq.wq_type = IBV_WQT_RQ;
    wq.max_wr = 1;
    wq.max_sge = 1;
    wq.pd = it.pd;
    wq.cq = it.cq;
    errno = 0;
    made("create_wq", ibv_create_wq(it.context, &wq));
    ibv_counters_init_attr counters{};
    errno = 0;
    made("create_counters", ibv_create_counters(it.context, &counters));
    ibv_flow_action_esp_attr esp{};
    errno = 0;
    made("create_flow_action_esp", ibv_create_flow_action_esp(it.context, &esp));
    ibv_sge sge{};
    report_code("advise_mr", ibv_advise_mr(it.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
}

void try_on_a_queue_pair(const Bench& it) {
    ibv_qp_init_attr attr = qp_request(it.cq, IBV_QPT_RC);
    ibv_qp* qp = ibv_create_qp(it.pd, &attr);
    require(qp != nullptr, "create a QP");
    ibv_flow_attr flow{};
    flow.size = sizeof flow;
    flow.port = 1;
    errno = 0;
    ibv_flow* made = ibv_create_flow(qp, &flow);
    report("create_flow", made != nullptr ? "ok" : refusal(errno));
    ibv_gid gid{};
    report_code("attach_mcast an RC queue pair", ibv_attach_mcast(qp, &gid, 0));
    ibv_modify_cq_attr moderation{};
    moderation.attr_mask = IBV_CQ_ATTR_MODERATE;
    report_code("modify_cq", ibv_modify_cq(it.cq, &moderation));
    ibv_qp_rate_limit_attr rate{};
    report_code("modify_qp_rate_limit", ibv_modify_qp_rate_limit(qp, &rate));
    require(ibv_destroy_qp(qp) == 0, "destroy a QP");
}

Bench set_up_bench(const char* device) {
    Bench it;
    it.context = open_device(device);
    require(ibv_query_device(it.context, &it.limits) == 0, "query the device");
    it.pd = ibv_alloc_pd(it.context);
    it.channel = ibv_create_comp_channel(it.context);
    it.cq = ibv_create_cq(it.context, 64, nullptr, nullptr, 0);
    ibv_srq_init_attr srq{};
    srq.attr.max_wr = 16;
    srq.attr.max_sge = 1;
    it.srq = ibv_create_srq(it.pd, &srq);
    void* memory = mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    it.memory = static_cast<char*>(memory);
    require(it.pd && it.channel && it.cq && it.srq && memory != MAP_FAILED, "make what the calls share");
    return it;
}

} // namespace

int main(int argc, char** argv) {
    require(argc == 3, "usage: provider_creations DEVICE GID_INDEX");
    gid_index = static_cast<int>(std::strtol(argv[2], nullptr, 10));
    const Bench it = set_up_bench(argv[1]);
    create_cqs(it);
    create_cqs_ex(it);
    resize_cqs(it);
    create_srqs(it);
    create_srqs_ex(it);
    modify_srqs(it);
    create_qps(it);
    create_qps_ex(it);
    register_memories(it);
    register_at_other_addresses(it);
    register_again(it);
    allocate_windows(it);
    create_ahs(it);
    allocate_domains(it);
    try_what_neither_device_has(it);
    try_on_a_queue_pair(it);
    std::printf("all is asked\n");
    return 0;
}
