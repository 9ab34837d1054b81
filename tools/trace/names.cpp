// SPDX-License-Identifier: BSD-3-Clause
//
// Tables in the order of libibverbs' and librdmacm's enumerations, which never change: programs have them
// compiled in.
#include "tools/trace/names.hpp"

#include <array>

namespace sluice::tools::trace {

namespace {

template<std::size_t kSize>
std::string name_at(const std::array<const char*, kSize>& names, std::size_t index) {
    return index < kSize ? names[index] : "?";
}

constexpr std::array kOpcodes = {"Write",
                                 "Write with immediate",
                                 "Send",
                                 "Send with immediate",
                                 "Read",
                                 "Compare and swap",
                                 "Fetch and add",
                                 "Local invalidate",
                                 "Bind",
                                 "Send with invalidate",
                                 "TSO",
                                 "Driver's own",
                                 "?",
                                 "?",
                                 "Flush",
                                 "Atomic write"};

constexpr std::array kStatuses = {"IBV_WC_SUCCESS",
                                  "IBV_WC_LOC_LEN_ERR",
                                  "IBV_WC_LOC_QP_OP_ERR",
                                  "IBV_WC_LOC_EEC_OP_ERR",
                                  "IBV_WC_LOC_PROT_ERR",
                                  "IBV_WC_WR_FLUSH_ERR",
                                  "IBV_WC_MW_BIND_ERR",
                                  "IBV_WC_BAD_RESP_ERR",
                                  "IBV_WC_LOC_ACCESS_ERR",
                                  "IBV_WC_REM_INV_REQ_ERR",
                                  "IBV_WC_REM_ACCESS_ERR",
                                  "IBV_WC_REM_OP_ERR",
                                  "IBV_WC_RETRY_EXC_ERR",
                                  "IBV_WC_RNR_RETRY_EXC_ERR",
                                  "IBV_WC_LOC_RDD_VIOL_ERR",
                                  "IBV_WC_REM_INV_RD_REQ_ERR",
                                  "IBV_WC_REM_ABORT_ERR",
                                  "IBV_WC_INV_EECN_ERR",
                                  "IBV_WC_INV_EEC_STATE_ERR",
                                  "IBV_WC_FATAL_ERR",
                                  "IBV_WC_RESP_TIMEOUT_ERR",
                                  "IBV_WC_GENERAL_ERR",
                                  "IBV_WC_TM_ERR",
                                  "IBV_WC_TM_RNDV_INCOMPLETE"};

constexpr std::array kSyncs = {
    "sluice_sync_clean", "sluice_sync_invalidate", "sluice_sync_clean_invalidate", "sluice_sync_persist",
    "sluice_sync_copy",  "dat_lmr_sync_rdma_read", "dat_lmr_sync_rdma_write"};
static_assert(kSyncs.size() == static_cast<std::size_t>(layers::trace::file::Sync::kLast) + 1);

constexpr std::array kConnectionEvents = {
    "RDMA_CM_EVENT_ADDR_RESOLVED",  "RDMA_CM_EVENT_ADDR_ERROR",      "RDMA_CM_EVENT_ROUTE_RESOLVED",
    "RDMA_CM_EVENT_ROUTE_ERROR",    "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
    "RDMA_CM_EVENT_CONNECT_ERROR",  "RDMA_CM_EVENT_UNREACHABLE",     "RDMA_CM_EVENT_REJECTED",
    "RDMA_CM_EVENT_ESTABLISHED",    "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
    "RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR", "RDMA_CM_EVENT_ADDR_CHANGE",
    "RDMA_CM_EVENT_TIMEWAIT_EXIT"};

constexpr std::array kPairTypes = {"?", "?", "RC",         "UC",       "UD",      "?",
                                   "?", "?", "RAW_PACKET", "XRC_SEND", "XRC_RECV"};

} // namespace

std::string name_of_post(const layers::trace::file::Event& event) {
    return event.kind == layers::trace::file::Kind::kPost ? name_at(kOpcodes, event.code) : "Receive";
}

std::string name_of_status(std::uint8_t status) {
    return name_at(kStatuses, status);
}

std::string name_of_sync(std::uint8_t code) {
    return name_at(kSyncs, code);
}

std::string name_of_connection_event(std::uint8_t type) {
    return name_at(kConnectionEvents, type);
}

std::string name_of_pair_type(std::uint8_t type) {
    return type == 0xff ? "DRIVER" : name_at(kPairTypes, type);
}

} // namespace sluice::tools::trace
