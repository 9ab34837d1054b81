// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/operation_rules.hpp"

#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/registry.hpp"

namespace sluice::layers::check {

namespace {

constexpr std::string_view kWhenPosted = "the request was posted";

std::string request_of(const QueuePair& pair, const Request& request) {
    return name_of(request) + " of " + name_of(pair);
}

bool is_answered(const Request& request) noexcept {
    return request.kind == Kind::kRead || request.kind == Kind::kAtomic;
}

// What OPENED lets peers do, or null where REGION allows it.
const char* missing_right(const Region& region, unsigned opened) noexcept {
    const auto access = static_cast<unsigned>(region.access);
    constexpr unsigned kChanging = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if ((access & IBV_ACCESS_MW_BIND) == 0) {
        return "IBV_ACCESS_MW_BIND";
    }
    const bool lacks_write = (opened & kChanging) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0;
    return lacks_write ? "IBV_ACCESS_LOCAL_WRITE" : nullptr;
}

// Returns whether it was told.
template<typename Object>
bool tell_bind(const ibv_mw_bind_info& how, Place place, Object&& object) noexcept {
    const std::shared_ptr<Region> region = Registry::instance().regions.find(how.mr);
    const char* const missing =
        region != nullptr && how.length != 0 ? missing_right(*region, how.mw_access_flags) : nullptr;
    if (missing == nullptr) {
        return false;
    }
    tell("window-not-allowed", {{kWhenPosted, place}, {"the region was registered", region->made}}, [&] {
        return Told{object(),
                    "it binds a window to " + name_of(*region) + ", which was registered without " + missing,
                    "register memory that windows open with IBV_ACCESS_MW_BIND, and with "
                    "IBV_ACCESS_LOCAL_WRITE where peers shall change it"};
    });
    return true;
}

} // namespace

void check_result(const QueuePair& pair, Request& request, std::size_t bytes) noexcept {
    if (request.kind != Kind::kAtomic || bytes >= sizeof(std::uint64_t) || request.is_told_of) {
        return;
    }
    request.is_told_of = true;
    tell("result-too-short", {{kWhenPosted, request.posted}}, [&] {
        return Told{request_of(pair, request),
                    "it has " + std::to_string(bytes) + " bytes of memory for its result, which has 8",
                    "give each atomic operation 8 bytes for what was there before"};
    });
}

// It brings data, and sends none.
void check_inline_kind(const QueuePair& pair, Request& request) noexcept {
    if (!request.is_inline || !is_answered(request) || request.is_told_of) {
        return;
    }
    request.is_told_of = true;
    tell("inline-not-sent", {{kWhenPosted, request.posted}}, [&] {
        return Told{
            request_of(pair, request),
            "it is posted with IBV_SEND_INLINE, and sends no data: devices refuse it, or bring nothing",
            "set IBV_SEND_INLINE for Sends and Writes alone"};
    });
}

void check_refusal(const QueuePair& pair, Request& request, std::size_t bytes) noexcept {
    if (bytes == 0 || pair.refusal_seen_by.load(std::memory_order_relaxed) != this_thread() ||
        request.is_told_of) {
        return;
    }
    request.is_told_of = true;
    tell("posted-after-refusal",
         {{kWhenPosted, request.posted}, {"the event was taken", pair.refused.load()}}, [&] {
             return Told{
                 request_of(pair, request),
                 "this thread has taken an event of librdmacm's which says that the queue pair isn't "
                 "connected (rejected, unreachable or an error): nothing that is posted is carried out",
                 "look at event->event behind rdma_connect(): only RDMA_CM_EVENT_ESTABLISHED is a "
                 "connection"};
         });
}

void check_reads(const QueuePair& pair, Request& request) noexcept {
    if (!is_answered(request) || pair.reads_at_a_time.load(std::memory_order_relaxed) != 0 ||
        request.is_told_of) {
        return;
    }
    request.is_told_of = true;
    tell("no-reads-agreed",
         {{kWhenPosted, request.posted}, {"the queue pair was connected", pair.reads_agreed.load()}}, [&] {
             return Told{request_of(pair, request),
                         "its queue pair was connected with max_rd_atomic 0: no Read and no atomic operation "
                         "may be on its way",
                         "agree on one at least: initiator_depth and responder_resources of "
                         "rdma_conn_param, or max_rd_atomic and max_dest_rd_atomic of ibv_qp_attr"};
         });
}

void check_bind(const QueuePair& pair, Request& request, const ibv_mw_bind_info& how) noexcept {
    request.is_told_of =
        request.is_told_of || tell_bind(how, request.posted, [&] { return request_of(pair, request); });
}

void check_bind(const QueuePair& pair, const ibv_mw_bind_info& how, Place place) noexcept {
    (void)tell_bind(how, place, [&] { return "a bind of " + name_of(pair); });
}

} // namespace sluice::layers::check
