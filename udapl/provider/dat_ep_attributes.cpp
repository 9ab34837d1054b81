// SPDX-License-Identifier: BSD-3-Clause
//
// The attributes of endpoints, in DAT's words and in ours.
#include <algorithm>
#include <climits>

#include "udapl/provider/dat_ep_common.hpp"
#include "udapl/provider/ia.hpp"

namespace sluice::dapl {

namespace {

constexpr std::uint32_t kNoWatermark = Watermarks::kInfinite;

constexpr char kWhose[] = "an endpoint";

bool is_within(const char* name, DAT_COUNT value, DAT_COUNT least, DAT_COUNT most) noexcept {
    return is_attribute_within(kWhose, name, value, least, most);
}

// The most that a request may have: the size that is asked for, or all of it where any will do.
bool find_size(const char* name, DAT_VLEN value, std::uint64_t& size) noexcept {
    size = value != 0 && kSizesAreLimits ? value : kMaxMessage;
    if (value <= kMaxMessage) {
        return true;
    }
    SLUICE_LOG(kWarning, "dat", "attributes of %s: %s %llu, at most %llu", kWhose, name,
               static_cast<unsigned long long>(value), static_cast<unsigned long long>(kMaxMessage));
    return false;
}

bool find_sizes(const DAT_EP_ATTR& attr, EpOptions& options) noexcept {
    return find_size("max_message_size", attr.max_message_size, options.max_message) &&
           find_size("max_rdma_size", attr.max_rdma_size, options.max_rdma);
}

// How completions of a direction notify. False: FLAGS, which may be one of ALL, say nothing of that.
bool find_model(const char* name, unsigned flags, unsigned all, NotifyModel& model) noexcept {
    switch (flags) {
    case DAT_COMPLETION_UNSIGNALLED_FLAG:
        model = NotifyModel::kUnlessQuiet;
        break;
    case DAT_COMPLETION_SOLICITED_WAIT_FLAG:
        model = NotifyModel::kSolicited;
        break;
    default:
        model = NotifyModel::kEach;
        break;
    }
    const bool is_one = (flags & (flags - 1)) == 0; // or none
    if (is_one && is_mask(flags, all)) {
        return true;
    }
    SLUICE_LOG(kWarning, "dat", "attributes of %s: %s 0x%x, 0 or one of 0x%x", kWhose, name, flags, all);
    return false;
}

// Programs write DAT_COMPLETION_SUPPRESS_FLAG there, though each post says by itself whether it is
// suppressed: it is DAT_COMPLETION_DEFAULT_FLAG.
bool find_models(const DAT_EP_ATTR& attr, EpOptions& options) noexcept {
    constexpr unsigned kRequest = DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_EVD_THRESHOLD_FLAG;
    constexpr unsigned kReceive = kRequest | DAT_COMPLETION_SOLICITED_WAIT_FLAG;
    options.receive_flags = attr.recv_completion_flags;
    options.request_flags =
        static_cast<unsigned>(attr.request_completion_flags) & ~unsigned{DAT_COMPLETION_SUPPRESS_FLAG};
    return find_model("recv_completion_flags", options.receive_flags, kReceive, options.receive_model) &&
           find_model("request_completion_flags", options.request_flags, kRequest, options.request_model);
}

DAT_COUNT most_segments(const ibv_device_attr& limits) noexcept {
    return std::min(limits.max_sge, static_cast<int>(kMaxSegments));
}

// Over iWARP a Read has one. Some devices don't say.
DAT_COUNT most_read_segments(const ibv_device_attr& limits) noexcept {
    return limits.max_sge_rd > 0 ? std::min(limits.max_sge_rd, most_segments(limits)) : most_segments(limits);
}

// With a shared queue, the first number is the hard watermark, and the queue's segments count. Without a
// dispatcher a direction may have no room at all, as Solaris wants it.
bool has_receives(const DAT_EP_ATTR& attr, DAT_COUNT transfers, DAT_COUNT segments,
                  const EpParts& parts) noexcept {
    if (parts.has_srq) {
        return attr.max_recv_dtos == DAT_HW_DEFAULT ||
               is_within("max_recv_dtos", attr.max_recv_dtos, 1, INT_MAX);
    }
    const DAT_COUNT least = parts.has_receives ? 1 : 0;
    return is_within("max_recv_dtos", attr.max_recv_dtos, least, transfers) &&
           is_within("max_recv_iov", attr.max_recv_iov, least, segments);
}

bool has_requests(const DAT_EP_ATTR& attr, DAT_COUNT transfers, DAT_COUNT segments,
                  const EpParts& parts) noexcept {
    const DAT_COUNT least = parts.has_requests ? 1 : 0;
    return is_within("max_request_dtos", attr.max_request_dtos, least, transfers) &&
           is_within("max_request_iov", attr.max_request_iov, least, segments);
}

bool are_counts_within(const DAT_EP_ATTR& attr, const ibv_device_attr& limits,
                       const EpParts& parts) noexcept {
    const DAT_COUNT transfers = limits.max_qp_wr - kOwnRequests; // max_dto_per_ep
    const DAT_COUNT segments = most_segments(limits);
    return has_receives(attr, transfers, segments, parts) && has_requests(attr, transfers, segments, parts) &&
           is_within("max_rdma_read_iov", attr.max_rdma_read_iov, 0, most_read_segments(limits)) &&
           is_within("max_rdma_write_iov", attr.max_rdma_write_iov, 0, segments) &&
           is_within("max_rdma_read_in", attr.max_rdma_read_in, 0, limits.max_qp_rd_atom) &&
           is_within("max_rdma_read_out", attr.max_rdma_read_out, 0, limits.max_qp_init_rd_atom) &&
           is_within("srq_soft_hw", attr.srq_soft_hw, DAT_HW_DEFAULT, INT_MAX) &&
           is_within("ep_transport_specific_count", attr.ep_transport_specific_count, 0, 0) &&
           is_within("ep_provider_specific_count", attr.ep_provider_specific_count, 0, 0);
}

void copy_counts(const DAT_EP_ATTR& attr, const ibv_device_attr& limits, bool is_shared,
                 EpOptions& options) noexcept {
    const auto count = [](DAT_COUNT value) { return static_cast<std::uint32_t>(value); };
    options.max_receives = count(attr.max_recv_dtos);
    options.max_requests = count(attr.max_request_dtos);
    options.max_receive_segments = is_shared ? 0 : count(attr.max_recv_iov);
    options.max_request_segments = count(attr.max_request_iov);
    options.max_read_segments =
        count(attr.max_rdma_read_iov != 0 ? attr.max_rdma_read_iov
                                          : std::min(attr.max_request_iov, most_read_segments(limits)));
    options.max_write_segments =
        count(attr.max_rdma_write_iov != 0 ? attr.max_rdma_write_iov : attr.max_request_iov);
    options.max_reads_in = static_cast<std::uint8_t>(attr.max_rdma_read_in);
    options.max_reads_out = static_cast<std::uint8_t>(attr.max_rdma_read_out);
    // Programs without a shared queue often leave 0 there, which the first message would pass.
    options.soft_watermark = attr.srq_soft_hw > 0 ? count(attr.srq_soft_hw) : kNoWatermark;
}

bool is_service_known(const DAT_EP_ATTR& attr) noexcept {
    if (attr.service_type == DAT_SERVICE_TYPE_RC && attr.qos == DAT_QOS_BEST_EFFORT) {
        return true;
    }
    SLUICE_LOG(kWarning, "dat", "attributes of %s: service_type %d, qos %d, only %d and %d", kWhose,
               static_cast<int>(attr.service_type), static_cast<int>(attr.qos), DAT_SERVICE_TYPE_RC,
               DAT_QOS_BEST_EFFORT);
    return false;
}

} // namespace

DAT_RETURN describe(const DAT_EP_ATTR& attr, const IaContext& ia, const EpParts& parts, int argument,
                    EpOptions& options) noexcept {
    if (!is_service_known(attr)) {
        return failure(DAT_MODEL_NOT_SUPPORTED);
    }
    if (!find_models(attr, options) || !find_sizes(attr, options) ||
        !are_counts_within(attr, ia.device().limits(), parts)) {
        return wrong_argument(argument);
    }
    copy_counts(attr, ia.device().limits(), parts.has_srq, options);
    return kSuccess;
}

EpOptions usual_options(const IaContext& ia) noexcept {
    const ibv_device_attr& limits = ia.device().limits();
    const auto at_most = [](auto usual, int limit) {
        return static_cast<decltype(usual)>(std::min<int>(usual, std::max(limit, 0)));
    };
    EpOptions options;
    options.max_read_segments = at_most(options.max_read_segments, most_read_segments(limits));
    // A device without RDMA reads is connected without them.
    options.max_reads_in = at_most(options.max_reads_in, limits.max_qp_rd_atom);
    options.max_reads_out = at_most(options.max_reads_out, limits.max_qp_init_rd_atom);
    return options;
}

DAT_EP_ATTR attributes_of(const EpOptions& options) noexcept {
    const auto count = [](std::uint32_t value) { return static_cast<DAT_COUNT>(value); };
    DAT_EP_ATTR attr{};
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.max_message_size = static_cast<decltype(attr.max_message_size)>(options.max_message);
    attr.max_rdma_size = static_cast<decltype(attr.max_rdma_size)>(options.max_rdma);
    attr.qos = DAT_QOS_BEST_EFFORT;
    attr.recv_completion_flags = static_cast<DAT_COMPLETION_FLAGS>(options.receive_flags);
    attr.request_completion_flags = static_cast<DAT_COMPLETION_FLAGS>(options.request_flags);
    attr.max_recv_dtos = count(options.max_receives);
    attr.max_request_dtos = count(options.max_requests);
    attr.max_recv_iov = count(options.max_receive_segments);
    attr.max_request_iov = count(options.max_request_segments);
    attr.max_rdma_read_in = options.max_reads_in;
    attr.max_rdma_read_out = options.max_reads_out;
    attr.srq_soft_hw =
        options.soft_watermark == kNoWatermark ? DAT_HW_DEFAULT : count(options.soft_watermark);
    attr.max_rdma_read_iov = count(options.max_read_segments);
    attr.max_rdma_write_iov = count(options.max_write_segments);
    return attr;
}

} // namespace sluice::dapl
