// SPDX-License-Identifier: BSD-3-Clause
//
// The exported functions on devices, peers, memory and configurations, and those that only tell words, in the
// order of librpma.h. Each checks its arguments, makes one call, and turns the answer into a code.
#include <cstring>

#include "ibverbs-glue/reach.hpp"
#include "rpma/codes.hpp"
#include "rpma/handles.hpp"
#include "rpma/persistence.hpp"

using namespace sluice::rpma;
using sluice::Result;

namespace {

constexpr unsigned kAllUsages = 0xff;

std::span<const std::byte> bytes_at(const void* data, std::size_t size) noexcept {
    return {static_cast<const std::byte*>(data), size};
}

Result<void> find_context(const char* address, bool is_local, ibv_context** context) {
    const Result<sluice::glue::Address> found = sluice::glue::look_up(address, nullptr, is_local);
    if (!found) {
        return found.error().clone();
    }
    Result<ibv_context*> opened = is_local ? sluice::glue::context_at(*found)
                                           : sluice::glue::context_towards(*found, RPMA_DEFAULT_TIMEOUT_MS);
    if (!opened) {
        return std::move(opened).error();
    }
    *context = *opened;
    return {};
}

Result<void> ask_about_paging(ibv_context* context, int* is_capable) {
    const sluice::glue::LentContext lent(context);
    const Result<ibv_device_attr_ex> device = lent->query_device();
    if (!device) {
        return device.error().clone();
    }
    *is_capable = can_page(*device) ? 1 : 0;
    return {};
}

} // namespace

int rpma_utils_get_ibv_context(const char* addr, enum rpma_util_ibv_context_type type,
                               struct ibv_context** ibv_ctx_ptr) {
    const bool is_local = type == RPMA_UTIL_IBV_CONTEXT_LOCAL;
    if (addr == nullptr || ibv_ctx_ptr == nullptr || (!is_local && type != RPMA_UTIL_IBV_CONTEXT_REMOTE)) {
        return RPMA_E_INVAL;
    }
    return Rpma::answer([&] { return find_context(addr, is_local, ibv_ctx_ptr); });
}

int rpma_utils_ibv_context_is_odp_capable(struct ibv_context* ibv_ctx, int* is_odp_capable) {
    if (ibv_ctx == nullptr || is_odp_capable == nullptr) {
        return RPMA_E_INVAL;
    }
    return Rpma::answer([&] { return ask_about_paging(ibv_ctx, is_odp_capable); });
}

int rpma_utils_is_pmem(const void* ptr, size_t size, bool* is_pmem) {
    if (ptr == nullptr || is_pmem == nullptr || size == 0 ||
        reinterpret_cast<std::uintptr_t>(ptr) > UINTPTR_MAX - size) {
        return RPMA_E_INVAL;
    }
    return Rpma::answer([&] {
        const Result<bool> told = is_persistent(ptr, size);
        *is_pmem = told ? *told : *is_pmem;
        return told ? Result<void>() : told.error().clone();
    });
}

int rpma_peer_cfg_new(struct rpma_peer_cfg** pcfg_ptr) {
    return give_new(pcfg_ptr);
}

int rpma_peer_cfg_delete(struct rpma_peer_cfg** pcfg_ptr) {
    return take_back(pcfg_ptr);
}

int rpma_peer_cfg_set_direct_write_to_pmem(struct rpma_peer_cfg* pcfg, bool supported) {
    return set(pcfg, &PeerConfig::direct_write_to_pmem, supported);
}

int rpma_peer_cfg_get_direct_write_to_pmem(const struct rpma_peer_cfg* pcfg, bool* supported) {
    return get(pcfg, &PeerConfig::direct_write_to_pmem, supported);
}

int rpma_peer_cfg_get_descriptor(const struct rpma_peer_cfg* pcfg, void* desc) {
    if (pcfg == nullptr || desc == nullptr) {
        return RPMA_E_INVAL;
    }
    *static_cast<std::byte*>(desc) = to_byte(object_of(pcfg)->direct_write_to_pmem);
    return 0;
}

int rpma_peer_cfg_get_descriptor_size(const struct rpma_peer_cfg* pcfg, size_t* desc_size) {
    if (pcfg == nullptr || desc_size == nullptr) {
        return RPMA_E_INVAL;
    }
    *desc_size = kConfigDescriptorBytes;
    return 0;
}

int rpma_peer_cfg_from_descriptor(const void* desc, size_t desc_size, struct rpma_peer_cfg** pcfg_ptr) {
    if (desc == nullptr || pcfg_ptr == nullptr || desc_size < kConfigDescriptorBytes) {
        return RPMA_E_INVAL;
    }
    return give(pcfg_ptr, [&] {
        auto config = std::make_unique<PeerConfig>();
        config->direct_write_to_pmem = direct_write_from(*static_cast<const std::byte*>(desc));
        return Result<std::unique_ptr<PeerConfig>>(std::move(config));
    });
}

int rpma_peer_new(struct ibv_context* ibv_ctx, struct rpma_peer** peer_ptr) {
    if (ibv_ctx == nullptr || peer_ptr == nullptr) {
        return RPMA_E_INVAL;
    }
    return give(peer_ptr, [&] { return Peer::make(ibv_ctx); });
}

int rpma_peer_delete(struct rpma_peer** peer_ptr) {
    return take_back(peer_ptr, [](Peer& peer) { return peer.close(); });
}

int rpma_mr_reg(struct rpma_peer* peer, void* ptr, size_t size, int usage, struct rpma_mr_local** mr_ptr) {
    const auto bits = static_cast<unsigned>(usage);
    if (peer == nullptr || ptr == nullptr || mr_ptr == nullptr || size == 0 ||
        size - 1 > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(ptr) || bits == 0 || bits > kAllUsages) {
        return RPMA_E_INVAL;
    }
    return give(mr_ptr, [&] { return LocalRegion::make(*object_of(peer), ptr, size, bits); });
}

int rpma_mr_dereg(struct rpma_mr_local** mr_ptr) {
    return take_back(mr_ptr, [](LocalRegion& region) { return region.close(); });
}

int rpma_mr_get_descriptor(const struct rpma_mr_local* mr, void* desc) {
    if (mr == nullptr || desc == nullptr) {
        return RPMA_E_INVAL;
    }
    const auto bytes = to_bytes(object_of(mr)->descriptor());
    std::memcpy(desc, bytes.data(), bytes.size());
    return 0;
}

int rpma_mr_remote_from_descriptor(const void* desc, size_t desc_size, struct rpma_mr_remote** mr_ptr) {
    if (desc == nullptr || mr_ptr == nullptr) {
        return RPMA_E_INVAL;
    }
    const std::optional<RegionDescriptor> region = region_from(bytes_at(desc, desc_size));
    if (!region) {
        return RPMA_E_INVAL;
    }
    return give(mr_ptr, [&] {
        return Result<std::unique_ptr<RemoteRegion>>(std::make_unique<RemoteRegion>(*region));
    });
}

int rpma_mr_get_descriptor_size(const struct rpma_mr_local* mr, size_t* desc_size) {
    if (mr == nullptr || desc_size == nullptr) {
        return RPMA_E_INVAL;
    }
    *desc_size = kRegionDescriptorBytes;
    return 0;
}

int rpma_mr_get_ptr(const struct rpma_mr_local* mr, void** ptr) {
    if (mr == nullptr || ptr == nullptr) {
        return RPMA_E_INVAL;
    }
    *ptr = object_of(mr)->address();
    return 0;
}

int rpma_mr_get_size(const struct rpma_mr_local* mr, size_t* size) {
    if (mr == nullptr || size == nullptr) {
        return RPMA_E_INVAL;
    }
    *size = object_of(mr)->size();
    return 0;
}

int rpma_mr_remote_get_size(const struct rpma_mr_remote* mr, size_t* size) {
    if (mr == nullptr || size == nullptr) {
        return RPMA_E_INVAL;
    }
    *size = object_of(mr)->size();
    return 0;
}

int rpma_mr_remote_get_flush_type(const struct rpma_mr_remote* mr, int* flush_type) {
    if (mr == nullptr || flush_type == nullptr) {
        return RPMA_E_INVAL;
    }
    *flush_type = static_cast<int>(
        object_of(mr)->usage() & (RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT));
    return 0;
}

int rpma_mr_remote_delete(struct rpma_mr_remote** mr_ptr) {
    return take_back(mr_ptr);
}

int rpma_mr_advise(struct rpma_mr_local* mr, size_t offset, size_t len, int advice, uint32_t flags) {
    if (mr == nullptr || !object_of(mr)->contains(offset, len)) {
        return RPMA_E_INVAL;
    }
    return Rpma::answer([&] { return object_of(mr)->advise(offset, len, advice, flags); });
}

int rpma_conn_cfg_new(struct rpma_conn_cfg** cfg_ptr) {
    return give_new(cfg_ptr);
}

int rpma_conn_cfg_delete(struct rpma_conn_cfg** cfg_ptr) {
    return take_back(cfg_ptr);
}

int rpma_conn_cfg_set_timeout(struct rpma_conn_cfg* cfg, int timeout_ms) {
    return timeout_ms < 0 ? RPMA_E_INVAL : set(cfg, &ConnConfig::timeout_ms, timeout_ms);
}

int rpma_conn_cfg_get_timeout(const struct rpma_conn_cfg* cfg, int* timeout_ms) {
    return get(cfg, &ConnConfig::timeout_ms, timeout_ms);
}

int rpma_conn_cfg_set_cq_size(struct rpma_conn_cfg* cfg, uint32_t cq_size) {
    return set(cfg, &ConnConfig::cq_size, cq_size);
}

int rpma_conn_cfg_get_cq_size(const struct rpma_conn_cfg* cfg, uint32_t* cq_size) {
    return get(cfg, &ConnConfig::cq_size, cq_size);
}

int rpma_conn_cfg_set_rcq_size(struct rpma_conn_cfg* cfg, uint32_t rcq_size) {
    return set(cfg, &ConnConfig::rcq_size, rcq_size);
}

int rpma_conn_cfg_get_rcq_size(const struct rpma_conn_cfg* cfg, uint32_t* rcq_size) {
    return get(cfg, &ConnConfig::rcq_size, rcq_size);
}

int rpma_conn_cfg_set_sq_size(struct rpma_conn_cfg* cfg, uint32_t sq_size) {
    return set(cfg, &ConnConfig::sq_size, sq_size);
}

int rpma_conn_cfg_get_sq_size(const struct rpma_conn_cfg* cfg, uint32_t* sq_size) {
    return get(cfg, &ConnConfig::sq_size, sq_size);
}

int rpma_conn_cfg_set_rq_size(struct rpma_conn_cfg* cfg, uint32_t rq_size) {
    return set(cfg, &ConnConfig::rq_size, rq_size);
}

int rpma_conn_cfg_get_rq_size(const struct rpma_conn_cfg* cfg, uint32_t* rq_size) {
    return get(cfg, &ConnConfig::rq_size, rq_size);
}

int rpma_conn_cfg_set_compl_channel(struct rpma_conn_cfg* cfg, bool shared) {
    return set(cfg, &ConnConfig::has_shared_channel, shared);
}

int rpma_conn_cfg_get_compl_channel(const struct rpma_conn_cfg* cfg, bool* shared) {
    return get(cfg, &ConnConfig::has_shared_channel, shared);
}

int rpma_conn_cfg_set_srq(struct rpma_conn_cfg* cfg, struct rpma_srq* srq) {
    return srq == nullptr ? RPMA_E_INVAL : set(cfg, &ConnConfig::srq, object_of(srq));
}

int rpma_conn_cfg_get_srq(const struct rpma_conn_cfg* cfg, struct rpma_srq** srq_ptr) {
    if (cfg == nullptr || srq_ptr == nullptr) {
        return RPMA_E_INVAL;
    }
    *srq_ptr = handle_of<rpma_srq>(object_of(cfg)->srq.load());
    return 0;
}

const char* rpma_utils_conn_event_2str(enum rpma_conn_event conn_event) {
    return sluice::rpma::text_of(conn_event);
}

int rpma_srq_cfg_new(struct rpma_srq_cfg** cfg_ptr) {
    return give_new(cfg_ptr);
}

int rpma_srq_cfg_delete(struct rpma_srq_cfg** cfg_ptr) {
    return take_back(cfg_ptr);
}

int rpma_srq_cfg_set_rq_size(struct rpma_srq_cfg* cfg, uint32_t rq_size) {
    return set(cfg, &SrqConfig::rq_size, rq_size);
}

int rpma_srq_cfg_get_rq_size(const struct rpma_srq_cfg* cfg, uint32_t* rq_size) {
    return get(cfg, &SrqConfig::rq_size, rq_size);
}

int rpma_srq_cfg_set_rcq_size(struct rpma_srq_cfg* cfg, uint32_t rcq_size) {
    return set(cfg, &SrqConfig::rcq_size, rcq_size);
}

int rpma_srq_cfg_get_rcq_size(const struct rpma_srq_cfg* cfg, uint32_t* rcq_size) {
    return get(cfg, &SrqConfig::rcq_size, rcq_size);
}

const char* rpma_err_2str(int ret) {
    switch (ret) {
    case 0:
        return "Success";
    case RPMA_E_NOSUPP:
        return "Not supported";
    case RPMA_E_PROVIDER:
        return "Provider error occurred";
    case RPMA_E_NOMEM:
        return "Out of memory";
    case RPMA_E_INVAL:
        return "Invalid argument";
    case RPMA_E_NO_COMPLETION:
        return "No next completion available";
    case RPMA_E_NO_EVENT:
        return "No next event available";
    case RPMA_E_AGAIN:
        return "Temporary error, try again";
    case RPMA_E_SHARED_CHANNEL:
        return "Completion channel is shared";
    case RPMA_E_NOT_SHARED_CHNL:
        return "Completion channel is not shared";
    default: // RPMA_E_UNKNOWN, and any number that a program likes to ask for
        return "Unknown error";
    }
}

int rpma_log_set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level) {
    return set_log_threshold(threshold, level) ? 0 : RPMA_E_INVAL;
}

int rpma_log_get_threshold(enum rpma_log_threshold threshold, enum rpma_log_level* level) {
    if (level == nullptr || static_cast<unsigned>(threshold) >= RPMA_LOG_THRESHOLD_MAX) {
        return RPMA_E_INVAL;
    }
    *level = log_threshold(threshold);
    return 0;
}

int rpma_log_set_function(rpma_log_function* log_function) {
    set_log_function(log_function);
    return 0;
}
