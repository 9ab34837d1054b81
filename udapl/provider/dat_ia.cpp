// SPDX-License-Identifier: BSD-3-Clause
//
// Interface adapters, what they can do, and what every handle knows.
#include <sluice/sluice.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include "udapl/provider/dat_calls.hpp"
#include "udapl/provider/dat_lifetime.hpp"
#include "udapl/provider/dat_version.hpp"
#include "udapl/provider/ep.hpp"
#include "udapl/provider/evd.hpp"
#include "udapl/provider/rmr.hpp"
#include "udapl/provider/service_points.hpp"

namespace sluice::dapl {

namespace {

// The limits of devices are unsigned or larger than DAT's.
template<typename T>
DAT_COUNT count_of(T value) noexcept {
    return value > static_cast<T>(INT_MAX) ? INT_MAX : static_cast<DAT_COUNT>(value);
}

// A limit of a device, in a member that may be narrower.
template<typename T>
T at_most(std::uint64_t value) noexcept {
    return static_cast<T>(std::min<std::uint64_t>(value, std::numeric_limits<T>::max()));
}

void copy_name(char (&to)[DAT_NAME_MAX_LENGTH], const char* from) noexcept {
    const std::size_t length = std::min(std::strlen(from), sizeof to - 1);
    std::memcpy(to, from, length);
}

// The first two numbers of a version such as 20.31.1014; 0 where there is none.
void read_version(std::string_view text, DAT_UINT32& major, DAT_UINT32& minor) noexcept {
    const char* const end = text.data() + text.size();
    major = minor = 0;
    const char* const rest = std::from_chars(text.data(), end, major).ptr;
    if (rest != end && *rest == '.') {
        (void)std::from_chars(rest + 1, end, minor);
    }
}

void fill(const Ia& ia, DAT_IA_ATTR& attr) noexcept {
    const Device& device = ia.device();
    const ibv_device_attr& limits = device.limits();
    attr = {};
    copy_name(attr.adapter_name, ia.name().c_str());
    std::snprintf(attr.vendor_name, sizeof attr.vendor_name, "0x%08x:0x%08x", limits.vendor_id,
                  limits.vendor_part_id);
    attr.hardware_version_major = limits.hw_ver;
    read_version({limits.fw_ver, strnlen(limits.fw_ver, sizeof limits.fw_ver)}, attr.firmware_version_major,
                 attr.firmware_version_minor);
    // A program reads the address through a pointer that would let it write.
    attr.ia_address_ptr = const_cast<DAT_IA_ADDRESS_PTR>(device.address().get()); // NOLINT
    attr.max_eps = count_of(limits.max_qp);
    attr.max_dto_per_ep = count_of(limits.max_qp_wr) - kOwnRequests;
    attr.max_rdma_read_per_ep_in = count_of(limits.max_qp_rd_atom);
    attr.max_rdma_read_per_ep_out = count_of(limits.max_qp_init_rd_atom);
    attr.max_evds = count_of(limits.max_cq);
    attr.max_evd_qlen = std::min(count_of(limits.max_cqe), kMaxEvdLength);
    attr.max_iov_segments_per_dto = std::min(count_of(limits.max_sge), count_of(kMaxSegments));
    attr.max_lmrs = std::min(count_of(limits.max_mr), count_of(coherence::RegionTable::kMaxRegions));
    attr.max_lmr_block_size = at_most<decltype(attr.max_lmr_block_size)>(limits.max_mr_size);
    attr.max_lmr_virtual_address = UINT64_MAX;
    attr.max_pzs = count_of(limits.max_pd);
    attr.max_message_size = attr.max_rdma_size = kMaxMessage;
    attr.max_rmrs = count_of(limits.max_mw);
    attr.max_rmr_target_address = UINT64_MAX;
    attr.max_srqs = count_of(limits.max_srq);
    attr.max_ep_per_srq = count_of(limits.max_qp);
    attr.max_recv_per_srq = count_of(limits.max_srq_wr);
    attr.max_iov_segments_per_rdma_read = count_of(limits.max_sge_rd);
    attr.max_iov_segments_per_rdma_write = count_of(limits.max_sge);
    attr.max_rdma_read_in = attr.max_rdma_read_out = count_of(limits.max_res_rd_atom);
    attr.max_rdma_read_per_ep_in_guaranteed = attr.max_rdma_read_per_ep_out_guaranteed = DAT_TRUE;
    add_own(device, attr);
}

// Bits that dat_ia_query(3)'s page has, and no header.
constexpr DAT_COUNT kLowMark = 0x001;
constexpr DAT_COUNT kSoftHighMark = 0x010;
constexpr DAT_COUNT kHardHighMark = 0x100;
constexpr DAT_COUNT kAvailableCount = 0x01;
constexpr DAT_COUNT kOutstandingCount = 0x10;
constexpr DAT_COUNT kReceives = 0x01;
constexpr DAT_COUNT kSpan = 0x10;

void fill(const Ia& ia, DAT_PROVIDER_ATTR& attr) noexcept {
    constexpr int kStreams = 6;
    constexpr int kAsync = 5;
    const coherence::Engine& memory = ia.device().memory();
    attr = {};
    copy_name(attr.provider_name, "sluice");
    read_version(sluice_version(), attr.provider_version_major, attr.provider_version_minor);
    attr.dapl_version_major = DAT_VERSION_MAJOR;
    attr.dapl_version_minor = DAT_VERSION_MINOR;
    // The page calls it a union of an enumeration that counts from 0: VIRTUAL, LMR and SHARED_VIRTUAL.
    attr.lmr_mem_types_supported = static_cast<DAT_MEM_TYPE>(DAT_MEM_TYPE_LMR | DAT_MEM_TYPE_SHARED_VIRTUAL);
    attr.iov_ownership_on_return = DAT_IOV_CONSUMER;
    attr.dat_qos_supported = DAT_QOS_BEST_EFFORT;
    attr.completion_flags_supported = static_cast<DAT_COMPLETION_FLAGS>(
        DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG | DAT_COMPLETION_UNSIGNALLED_FLAG |
        DAT_COMPLETION_BARRIER_FENCE_FLAG | DAT_COMPLETION_EVD_THRESHOLD_FLAG);
    const glue::PrivateDataLimits limits = ia.connections().limits();
    attr.max_private_data_size = count_of(std::min(limits.connect, limits.accept));
    attr.ep_creator = DAT_PSP_CREATES_EP_NEVER;
    attr.pz_support = DAT_PZ_UNIQUE;
    attr.optimal_buffer_alignment =
        std::max<DAT_UINT32>(DAT_OPTIMAL_ALIGNMENT, static_cast<DAT_UINT32>(memory.granule()));
    for (int row = 0; row < kStreams; ++row) {
        for (int column = 0; column < kStreams; ++column) {
            const bool is_mergeable = row == column || (row != kAsync && column != kAsync);
            attr.evd_stream_merging_supported[row][column] = is_mergeable ? DAT_TRUE : DAT_FALSE;
        }
    }
    attr.srq_supported = ia.device().limits().max_srq != 0 ? DAT_TRUE : DAT_FALSE;
    attr.srq_watermarks_supported = kLowMark | kSoftHighMark | kHardHighMark;
    attr.srq_info_supported = kAvailableCount | kOutstandingCount;
    attr.ep_recv_info_supported = kReceives | kSpan;
    attr.lmr_sync_req = memory.sync_required() ? DAT_TRUE : DAT_FALSE;
    attr.dto_async_return_guaranteed = DAT_TRUE;
    add_own(ia, attr);
}

// The dispatcher that a program wants asynchronous errors in; a code where it can't be had.
DAT_RETURN open_async_evd(Ia& ia, DAT_COUNT length, DAT_EVD_HANDLE& evd_handle) {
    if (evd_handle == DAT_EVD_ASYNC_EXISTS) {
        evd_handle = DAT_EVD_OUT_OF_SCOPE;
        return kSuccess;
    }
    const bool is_own = evd_handle == DAT_HANDLE_NULL;
    DAT_EVD_HANDLE wanted = evd_handle;
    if (is_own) {
        if (length <= 0 || length > kMaxEvdLength) {
            return length <= 0 ? wrong_argument(2) : failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD);
        }
        if (const DAT_RETURN made = adopt(ia, Evd::make(ia, length, kAsyncStream), &wanted);
            made != kSuccess) {
            return made;
        }
    }
    const Result<Pin<Evd>> evd = handles().get<Evd>(wanted);
    if (!evd || ((*evd)->streams() & kAsyncStream) == 0) {
        return wrong_handle(DAT_INVALID_HANDLE_EVD_ASYNC);
    }
    Ref<Object> held(evd->get());
    if (!held) {
        return wrong_handle(DAT_INVALID_HANDLE_EVD_ASYNC);
    }
    ia.use_for_errors(std::move(held), **evd, is_own);
    evd_handle = wanted;
    return kSuccess;
}

// Not by to_dat(): the page has fewer codes.
DAT_RETURN cannot_open(const char* name, const Error& error) noexcept {
    if (is_absence(error)) {
        SLUICE_LOG(kInfo, "dat", "%s can't be opened: %s", name, error.text());
        return failure(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    }
    // A program may try every name, also of devices that are others' to open.
    if (error.kind() == ErrorKind::kPermission) {
        SLUICE_LOG(kInfo, "dat", "%s can't be opened: %s (%d)", name, error.text(), error.os_errno());
    } else {
        SLUICE_LOG(kWarning, "dat", "%s can't be opened: %s (%d)", name, error.text(), error.os_errno());
    }
    return error.kind() == ErrorKind::kInsufficientResources
               ? failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY)
               : failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
}

DAT_RETURN ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE* async_evd, DAT_IA_ATTR_MASK ia_mask,
                    DAT_IA_ATTR* ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
                    DAT_PROVIDER_ATTR* provider_attr) {
    const Result<Pin<Ia>> ia = handles().get<Ia>(ia_handle);
    if (!ia) {
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    }
    if (!is_mask(ia_mask, DAT_IA_FIELD_ALL)) {
        return wrong_argument(3);
    }
    if (ia_mask != 0 && ia_attr == nullptr) {
        return wrong_argument(4);
    }
    if (!is_mask(provider_mask, DAT_PROVIDER_FIELD_ALL)) {
        return wrong_argument(5);
    }
    if (provider_mask != 0 && provider_attr == nullptr) {
        return wrong_argument(6);
    }
    if (async_evd != nullptr) {
        void* const evd = (*ia)->async_evd();
        *async_evd = evd != nullptr ? evd : DAT_EVD_OUT_OF_SCOPE;
    }
    if (ia_mask != 0) {
        fill(**ia, *ia_attr);
    }
    if (provider_mask != 0) {
        fill(**ia, *provider_attr);
    }
    return kSuccess;
}

DAT_RETURN ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS flags) {
    if (flags != DAT_CLOSE_ABRUPT_FLAG && flags != DAT_CLOSE_GRACEFUL_FLAG) {
        return wrong_argument(2);
    }
    Result<Pin<Ia>> ia = handles().get<Ia>(ia_handle);
    if (!ia) {
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    }
    if (flags == DAT_CLOSE_GRACEFUL_FLAG && !(*ia)->is_idle()) {
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE);
    }
    if (!(*ia)->Object::close()) { // it has lent a dispatcher
        return (*ia)->is_held() ? failure(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE)
                                : wrong_handle(DAT_INVALID_HANDLE_IA);
    }
    return Ia::close(*std::move(ia)) ? kSuccess : wrong_handle(DAT_INVALID_HANDLE_IA);
}

// Calls FUNCTION with the object of kind T that HANDLE names, and T's type in DAT; false: it's none.
template<typename T, typename Function>
bool visit_as(DAT_HANDLE handle, DAT_HANDLE_TYPE type, Function& function) noexcept {
    const Result<Pin<T>> object = handles().get<T>(handle);
    if (object) {
        function(static_cast<Object&>(**object), type);
    }
    return object.ok();
}

template<typename Function>
DAT_RETURN visit(DAT_HANDLE handle, Function&& function) noexcept {
    const bool is_found = visit_as<Ia>(handle, DAT_HANDLE_TYPE_IA, function) ||
                          visit_as<Ep>(handle, DAT_HANDLE_TYPE_EP, function) ||
                          visit_as<Cr>(handle, DAT_HANDLE_TYPE_CR, function) ||
                          visit_as<Psp>(handle, DAT_HANDLE_TYPE_PSP, function) ||
                          visit_as<Evd>(handle, DAT_HANDLE_TYPE_EVD, function) ||
                          visit_as<Cno>(handle, DAT_HANDLE_TYPE_CNO, function) ||
                          visit_as<Lmr>(handle, DAT_HANDLE_TYPE_LMR, function) ||
                          visit_as<Pz>(handle, DAT_HANDLE_TYPE_PZ, function) ||
                          visit_as<Rsp>(handle, DAT_HANDLE_TYPE_RSP, function) ||
                          visit_as<Rmr>(handle, DAT_HANDLE_TYPE_RMR, function) ||
                          visit_as<Srq>(handle, DAT_HANDLE_TYPE_SRQ, function);
    return is_found ? kSuccess : wrong_handle(DAT_NO_SUBTYPE);
}

DAT_RETURN set_consumer_context(DAT_HANDLE handle, DAT_CONTEXT context) {
    return visit(handle, [&](Object& object, DAT_HANDLE_TYPE) {
        object.consumer_context.store(context.as_64, std::memory_order_relaxed);
    });
}

DAT_RETURN get_consumer_context(DAT_HANDLE handle, DAT_CONTEXT* context) {
    if (context == nullptr) {
        return wrong_argument(2);
    }
    return visit(handle, [&](const Object& object, DAT_HANDLE_TYPE) {
        context->as_64 = object.consumer_context.load(std::memory_order_relaxed);
    });
}

DAT_RETURN get_handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE* type) {
    if (type == nullptr) {
        return wrong_argument(2);
    }
    return visit(handle, [&](const Object&, DAT_HANDLE_TYPE its) { *type = its; });
}

// What an adapter has got goes before it, however its opening ends. One that is open is its handle's.
class EmptiedUnlessOpen {
  public:
    explicit EmptiedUnlessOpen(const std::unique_ptr<Ia>& ia) noexcept : ia_(ia) {}
    ~EmptiedUnlessOpen() {
        if (ia_ != nullptr) {
            ia_->empty();
        }
    }
    EmptiedUnlessOpen(const EmptiedUnlessOpen&) = delete;
    EmptiedUnlessOpen& operator=(const EmptiedUnlessOpen&) = delete;

  private:
    const std::unique_ptr<Ia>& ia_;
};

} // namespace

DAT_RETURN open_ia(const IaWanted& wanted, DAT_COUNT async_length, DAT_EVD_HANDLE* async_evd,
                   DAT_IA_HANDLE* ia_handle) {
    Result<std::shared_ptr<Device>> device = Device::open(wanted.device);
    if (!device) {
        return cannot_open(wanted.name, device.error());
    }
    auto ia = std::make_unique<Ia>(*std::move(device), wanted.name, wanted.options);
    const EmptiedUnlessOpen emptied(ia);
    DAT_EVD_HANDLE evd = *async_evd;
    DAT_RETURN status = open_async_evd(*ia, async_length, evd);
    if (status == kSuccess) {
        const Result<void> started = ia->start_connections();
        status = started ? kSuccess : cannot_open(wanted.name, started.error());
    }
    if (status == kSuccess) {
        const Result<void*> handle = Ia::open(ia, &wanted.front);
        status = handle ? kSuccess : to_dat(handle.error());
        if (handle) {
            *ia_handle = *handle;
            *async_evd = evd;
        }
    }
    return status;
}

DAT_RETURN to_dat(const Error& error) noexcept {
    SLUICE_LOG(kWarning, "dat", "%s (%d)", error.text(), error.os_errno());
    switch (error.kind()) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kOutOfRange:
        return failure(DAT_INVALID_PARAMETER);
    case ErrorKind::kInvalidHandle:
        return failure(DAT_INVALID_HANDLE);
    case ErrorKind::kInvalidState:
    case ErrorKind::kBusy:
        return failure(DAT_INVALID_STATE);
    case ErrorKind::kExists:
        return failure(DAT_CONN_QUAL_IN_USE);
    case ErrorKind::kPermission:
        return failure(DAT_PRIVILEGES_VIOLATION);
    case ErrorKind::kProtection:
        return failure(DAT_PROTECTION_VIOLATION);
    case ErrorKind::kInsufficientResources:
        return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    case ErrorKind::kNotSupported:
        return failure(DAT_MODEL_NOT_SUPPORTED);
    case ErrorKind::kTimedOut:
        return failure(DAT_TIMEOUT_EXPIRED);
    case ErrorKind::kInterrupted:
        return failure(DAT_INTERRUPTED_CALL, DAT_SUB_INTERRUPTED);
    case ErrorKind::kNotFound:
    case ErrorKind::kConnection:
    case ErrorKind::kDeviceGone:
    case ErrorKind::kProtocol:
    case ErrorKind::kInternal:
        break;
    }
    return failure(DAT_INTERNAL_ERROR);
}

void add_ia_functions(DAT_PROVIDER& table) noexcept {
    table.ia_query_func = ia_query;
    table.ia_close_func = ia_close;
    table.set_consumer_context_func = set_consumer_context;
    table.get_consumer_context_func = get_consumer_context;
    table.get_handle_type_func = get_handle_type;
}

} // namespace sluice::dapl
