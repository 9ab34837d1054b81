// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/verbs/qp_attributes.hpp"

#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

namespace {

struct Transition {
    ibv_qp_state from;
    ibv_qp_state to;
    int needed;
    int allowed;
};

constexpr int kInitConnected = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRcOnTheWay = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;
constexpr Transition kReliable[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kInitConnected, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kInitConnected},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     kRcOnTheWay},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kRcOnTheWay},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kRcOnTheWay},
    // The path itself stays: packets that are on their way come back on it.
    {IBV_QPS_SQD, IBV_QPS_SQD, 0,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ACCESS_FLAGS |
         IBV_QP_MIN_RNR_TIMER | IBV_QP_PKEY_INDEX},
};

// As the kernel has them: of an RC queue pair's attributes each end has those that it needs.
constexpr int kXrcOnTheWay = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS;
constexpr Transition kXrcSender[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kInitConnected, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kInitConnected},
    {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     kXrcOnTheWay},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kXrcOnTheWay},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kXrcOnTheWay},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ACCESS_FLAGS |
         IBV_QP_PKEY_INDEX},
};
constexpr Transition kXrcReceiver[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kInitConnected, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kInitConnected},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN, kRcOnTheWay},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kRcOnTheWay},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kRcOnTheWay},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0,
     IBV_QP_TIMEOUT | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PKEY_INDEX},
};

constexpr int kUcOnTheWay = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS;
constexpr Transition kUnreliable[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kInitConnected, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kInitConnected},
    {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, kUcOnTheWay},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kUcOnTheWay},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kUcOnTheWay},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_SQE, IBV_QPS_RTS, 0, kUcOnTheWay},
};

constexpr int kInitUd = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr int kUdOnTheWay = IBV_QP_CUR_STATE | IBV_QP_QKEY;
constexpr Transition kDatagram[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kInitUd, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, kInitUd},
    {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, kUdOnTheWay},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, kUdOnTheWay},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, kUdOnTheWay},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_SQE, IBV_QPS_RTS, 0, kUdOnTheWay},
};

std::span<const Transition> transitions_of(engine::QpType type) noexcept {
    switch (type) {
    case engine::QpType::kRc:
        return kReliable;
    case engine::QpType::kUc:
        return kUnreliable;
    case engine::QpType::kUd:
        return kDatagram;
    case engine::QpType::kXrcSend:
        return kXrcSender;
    case engine::QpType::kXrcReceive:
        return kXrcReceiver;
    }
    return {};
}

bool fits(int needed, int allowed, int mask) noexcept {
    return (mask & needed) == needed && (mask & ~(needed | allowed | IBV_QP_STATE)) == 0;
}

// Programs give queue pairs what they give regions. How a region's pages come, and in which order bytes are
// written, means nothing here.
constexpr unsigned kMeaninglessForQp =
    IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_ZERO_BASED | kOptionalAccess;
constexpr unsigned kQpAccess =
    kRemoteAccessMask | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | kMeaninglessForQp;

// 0 for what is no MTU. A program that doesn't set it has any number there.
std::uint32_t mtu_bytes(ibv_mtu mtu) noexcept {
    const auto number = static_cast<unsigned>(mtu);
    return number >= IBV_MTU_256 && number <= IBV_MTU_4096 ? 128U << number : 0;
}

} // namespace

std::optional<engine::QpType> type_of(std::uint32_t number) noexcept {
    switch (number) {
    case IBV_QPT_RC:
        return engine::QpType::kRc;
    case IBV_QPT_UC:
        return engine::QpType::kUc;
    case IBV_QPT_UD:
        return engine::QpType::kUd;
    case IBV_QPT_XRC_SEND:
        return engine::QpType::kXrcSend;
    case IBV_QPT_XRC_RECV:
        return engine::QpType::kXrcReceive;
    default:
        return std::nullopt;
    }
}

ibv_qp_state to_ibv(engine::QpState state) noexcept {
    switch (state) {
    case engine::QpState::kReset:
        return IBV_QPS_RESET;
    case engine::QpState::kInit:
        return IBV_QPS_INIT;
    case engine::QpState::kReadyToReceive:
        return IBV_QPS_RTR;
    case engine::QpState::kReadyToSend:
        return IBV_QPS_RTS;
    case engine::QpState::kSendDrained:
        return IBV_QPS_SQD;
    case engine::QpState::kSendError:
        return IBV_QPS_SQE;
    case engine::QpState::kError:
        return IBV_QPS_ERR;
    }
    return IBV_QPS_UNKNOWN;
}

std::optional<engine::QpState> to_engine(ibv_qp_state state) noexcept {
    switch (state) {
    case IBV_QPS_RESET:
        return engine::QpState::kReset;
    case IBV_QPS_INIT:
        return engine::QpState::kInit;
    case IBV_QPS_RTR:
        return engine::QpState::kReadyToReceive;
    case IBV_QPS_RTS:
        return engine::QpState::kReadyToSend;
    case IBV_QPS_SQD:
        return engine::QpState::kSendDrained;
    case IBV_QPS_SQE:
        return engine::QpState::kSendError;
    case IBV_QPS_ERR:
        return engine::QpState::kError;
    default:
        return std::nullopt;
    }
}

bool are_values(const ibv_qp_attr& attr, int mask) noexcept {
    const auto named = [mask](int attribute) { return (mask & attribute) != 0; };
    const std::uint32_t mtu = number_of(attr.path_mtu);
    return !(named(IBV_QP_STATE) && number_of(attr.qp_state) > IBV_QPS_ERR) &&
           !(named(IBV_QP_CUR_STATE) && number_of(attr.cur_qp_state) > IBV_QPS_ERR) &&
           !(named(IBV_QP_PATH_MTU) && (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096));
}

int used_mask(engine::QpType type, int mask) noexcept {
    switch (type) {
    case engine::QpType::kXrcSend:
        return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    case engine::QpType::kXrcReceive:
        return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
    case engine::QpType::kRc:
    case engine::QpType::kUc:
    case engine::QpType::kUd:
        return mask;
    }
    return mask;
}

int check_mask(engine::QpType type, ibv_qp_state from, ibv_qp_state to, const ibv_qp_attr& attr,
               int mask) noexcept {
    if ((mask & IBV_QP_CUR_STATE) != 0 && attr.cur_qp_state != from) {
        return EINVAL;
    }
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
        return (mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE)) == 0 && (mask & IBV_QP_STATE) != 0 ? 0 : EINVAL;
    }
    for (const Transition& one : transitions_of(type)) {
        if (one.from == from && one.to == to) {
            return fits(one.needed, one.allowed, mask) ? 0 : EINVAL;
        }
    }
    return EINVAL;
}

// What the mask doesn't name may be bytes that nobody has written, and isn't looked at.
int check_values(const ibv_qp_attr& attr, int mask, const device::Device& device) noexcept {
    constexpr std::uint8_t kMaxTimeout = 31;
    const auto named = [mask](int attribute) { return (mask & attribute) != 0; };
    const auto is_wrong_mtu = [&] {
        const std::uint32_t wanted = mtu_bytes(attr.path_mtu);
        return wanted == 0 || wanted > device.where().path_mtu();
    };
    const bool wrong = (named(IBV_QP_PORT) && attr.port_num != kPort) ||
                       (named(IBV_QP_PKEY_INDEX) && attr.pkey_index != 0) ||
                       (named(IBV_QP_ACCESS_FLAGS) && (attr.qp_access_flags & ~kQpAccess) != 0) ||
                       (named(IBV_QP_PATH_MTU) && is_wrong_mtu()) ||
                       (named(IBV_QP_DEST_QPN) && attr.dest_qp_num > 0xffffff) ||
                       (named(IBV_QP_MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > kMaxRdAtomic) ||
                       (named(IBV_QP_MAX_DEST_RD_ATOMIC) && attr.max_dest_rd_atomic > kMaxRdAtomic) ||
                       (named(IBV_QP_MIN_RNR_TIMER) && attr.min_rnr_timer > kMaxTimeout) ||
                       (named(IBV_QP_TIMEOUT) && attr.timeout > kMaxTimeout) ||
                       (named(IBV_QP_AV) && check_path(attr.ah_attr, device.gids()) != 0);
    return wrong ? EINVAL : 0;
}

void merge(ibv_qp_attr& attr, const ibv_qp_attr& changes, int mask) noexcept {
    const auto take = [&](int attribute, auto ibv_qp_attr::*member) {
        if ((mask & attribute) != 0) {
            attr.*member = changes.*member;
        }
    };
    take(IBV_QP_EN_SQD_ASYNC_NOTIFY, &ibv_qp_attr::en_sqd_async_notify);
    take(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
    take(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
    take(IBV_QP_PORT, &ibv_qp_attr::port_num);
    take(IBV_QP_QKEY, &ibv_qp_attr::qkey);
    take(IBV_QP_AV, &ibv_qp_attr::ah_attr);
    take(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
    take(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
    take(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
    take(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
    take(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
    take(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
    take(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
    take(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
    take(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
    take(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
}

namespace {

// A datagram's MTU is the port's: no path was agreed on.
std::uint32_t path_mtu_of(const ibv_qp_attr& attr, engine::QpType type,
                          const device::LocalAddress& where) noexcept {
    switch (type) {
    case engine::QpType::kRc:
    case engine::QpType::kUc:
    case engine::QpType::kXrcSend:
    case engine::QpType::kXrcReceive:
        return mtu_bytes(attr.path_mtu);
    case engine::QpType::kUd:
        return where.path_mtu();
    }
    return where.path_mtu();
}

} // namespace

engine::QpAttributes to_engine(const ibv_qp_attr& attr, engine::QpType type,
                               const device::LocalAddress& where, const engine::Address& local) noexcept {
    return {.access = attr.qp_access_flags & ~kMeaninglessForQp,
            .path_mtu = path_mtu_of(attr, type, where),
            .dest_qpn = attr.dest_qp_num,
            .recv_psn = attr.rq_psn,
            .send_psn = attr.sq_psn,
            .max_rd_atomic = attr.max_rd_atomic,
            .max_dest_rd_atomic = attr.max_dest_rd_atomic,
            .min_rnr_timer = attr.min_rnr_timer,
            .timeout = attr.timeout,
            .retry_count = attr.retry_cnt,
            .rnr_retry = attr.rnr_retry,
            .qkey = attr.qkey,
            .tell_drained = attr.en_sqd_async_notify != 0,
            .local = local,
            .remote = destination_of(attr.ah_attr)};
}

} // namespace sluice::uroce::verbs
