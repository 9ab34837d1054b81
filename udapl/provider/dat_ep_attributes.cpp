// SPDX-License-Identifier: BSD-3-Clause
//
// The attributes of endpoints, in DAT's words and in ours.
#include <algorithm>

#include "udapl/provider/dat_ep_common.hpp"
#include "udapl/provider/ia.hpp"

namespace sluice::dapl {

namespace {

constexpr std::uint32_t kNoWatermark = Watermarks::kInfinite;

// How completions of a direction notify. False: FLAGS, which may be one of ALL, say nothing of that.
bool find_model(unsigned flags, unsigned all, NotifyModel& model) noexcept {
    switch (flags & all) {
    case DAT_COMPLETION_UNSIGNALLED_FLAG:
        model = NotifyModel::kUnlessQuiet;
        break;
    case DAT_COMPLETION_SOLICITED_WAIT_FLAG:
        model = NotifyModel::kSolicited;
        break;
    case DAT_COMPLETION_DEFAULT_FLAG:
    case DAT_COMPLETION_EVD_THRESHOLD_FLAG:
        model = NotifyModel::kEach;
        break;
    default:
        return false;
    }
    return is_mask(flags, all);
}

bool find_models(const DAT_EP_ATTR& attr, EpOptions& options) noexcept {
    constexpr unsigned kRequest = DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_EVD_THRESHOLD_FLAG;
    constexpr unsigned kReceive = kRequest | DAT_COMPLETION_SOLICITED_WAIT_FLAG;
    options.receive_flags = attr.recv_completion_flags;
    options.request_flags = attr.request_completion_flags;
    return find_model(options.receive_flags, kReceive, options.receive_model) &&
           find_model(options.request_flags, kRequest, options.request_model);
}

// 0 where any size will do.
bool find_sizes(const DAT_EP_ATTR& attr, EpOptions& options) noexcept {
    options.max_message = attr.max_message_size != 0 ? attr.max_message_size : kMaxMessage;
    options.max_rdma = attr.max_rdma_size != 0 ? attr.max_rdma_size : kMaxMessage;
    return options.max_message <= kMaxMessage && options.max_rdma <= kMaxMessage;
}

// With a shared queue, the first number is the hard watermark, and the queue's segments count.
bool find_counts(const DAT_EP_ATTR& attr, const ibv_device_attr& limits, bool is_shared,
                 EpOptions& options) noexcept {
    const auto fits = [](DAT_COUNT value, int limit) { return value > 0 && value <= limit; };
    const int segments = std::min(limits.max_sge, static_cast<int>(kMaxSegments));
    const bool has_receives =
        is_shared ? attr.max_recv_dtos > 0 || attr.max_recv_dtos == DAT_HW_DEFAULT
                  : fits(attr.max_recv_dtos, limits.max_qp_wr) && fits(attr.max_recv_iov, segments);
    if (!has_receives || !fits(attr.max_request_dtos, limits.max_qp_wr - kOwnRequests) ||
        !fits(attr.max_request_iov, segments) || attr.max_rdma_read_iov < 0 ||
        attr.max_rdma_read_iov > segments || attr.max_rdma_write_iov < 0 ||
        attr.max_rdma_write_iov > segments || attr.max_rdma_read_in < 0 ||
        attr.max_rdma_read_in > limits.max_qp_rd_atom || attr.max_rdma_read_out < 0 ||
        attr.max_rdma_read_out > limits.max_qp_init_rd_atom) {
        return false;
    }
    const auto count = [](DAT_COUNT value) { return static_cast<std::uint32_t>(value); };
    options.max_receives = count(attr.max_recv_dtos);
    options.max_requests = count(attr.max_request_dtos);
    options.max_receive_segments = is_shared ? 0 : count(attr.max_recv_iov);
    options.max_request_segments = count(attr.max_request_iov);
    options.max_read_segments =
        count(attr.max_rdma_read_iov != 0 ? attr.max_rdma_read_iov : attr.max_request_iov);
    options.max_write_segments =
        count(attr.max_rdma_write_iov != 0 ? attr.max_rdma_write_iov : attr.max_request_iov);
    options.max_reads_in = static_cast<std::uint8_t>(attr.max_rdma_read_in);
    options.max_reads_out = static_cast<std::uint8_t>(attr.max_rdma_read_out);
    return true;
}

} // namespace

DAT_RETURN describe(const DAT_EP_ATTR& attr, const IaContext& ia, bool is_shared, int argument,
                    EpOptions& options) noexcept {
    if (attr.service_type != DAT_SERVICE_TYPE_RC || attr.qos != DAT_QOS_BEST_EFFORT) {
        return failure(DAT_MODEL_NOT_SUPPORTED);
    }
    const bool is_known = find_models(attr, options) && find_sizes(attr, options) &&
                          find_counts(attr, ia.device().limits(), is_shared, options) &&
                          attr.srq_soft_hw >= DAT_HW_DEFAULT && attr.ep_transport_specific_count == 0 &&
                          attr.ep_provider_specific_count == 0;
    // Programs without a shared queue often leave 0 there, which the first message would pass.
    options.soft_watermark =
        attr.srq_soft_hw > 0 ? static_cast<std::uint32_t>(attr.srq_soft_hw) : kNoWatermark;
    return is_known ? kSuccess : wrong_argument(argument);
}

DAT_EP_ATTR attributes_of(const EpOptions& options) noexcept {
    const auto count = [](std::uint32_t value) { return static_cast<DAT_COUNT>(value); };
    DAT_EP_ATTR attr{};
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.max_message_size = options.max_message;
    attr.max_rdma_size = options.max_rdma;
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
