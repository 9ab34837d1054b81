// SPDX-License-Identifier: BSD-3-Clause
//
// A communication id of librdmacm's, as far as uroce has to do with it.
//
// Which device an id is for is known when it gets an address, and that is too late to choose its maker. So
// where the kernel connects, librdmacm makes it, and goes on with it if the address isn't uroce's;
// otherwise what librdmacm has made lies still until the id is destroyed, and we fill in what the program
// reads. Where the kernel connects nobody, its memory is ours. A wildcard address means both.
//
// One thread at a time per id, besides those that take events, as with librdmacm.
#pragma once

#include <rdma/rdma_cma.h>
#include <sluice/sluice.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "layers/preload/channel.hpp"
#include "layers/preload/contexts.hpp"

namespace sluice::layers::preload {

struct Id {
    rdma_cm_id* visible = nullptr;
    std::unique_ptr<rdma_cm_id> own;               // the visible, where librdmacm has none
    rdma_event_channel* kernels_channel = nullptr; // what librdmacm has put there
    Channel* channel = nullptr;
    bool is_sync = false; // its channel is its own, and calls wait for their event

    struct Listener {
        ibv_context* context;
        sluice_cm_id* cm;
    };
    bool is_on_uroce = false;          // bound to a device of uroce's
    sluice_cm_id* cm = nullptr;        // null until it is
    std::vector<Listener> listeners{}; // one for each device, if it listens at the wildcard address

    std::uint8_t type_of_service = 0;
    std::uint8_t ack_timeout = 0;
    std::uint8_t most_reads_in = RDMA_MAX_RESP_RES; // what rdma_accept() grants
    std::uint8_t most_reads_out = RDMA_MAX_INIT_DEPTH;
    ibv_sa_path_rec path{};
    std::optional<ibv_qp_init_attr> queues_of_requests{}; // rdma_create_ep()
    std::vector<std::uint8_t> connect_data{};             // the same

    // Whether calls on it are ours to answer.
    bool is_ours() const noexcept { return is_on_uroce || own != nullptr; }
};

using Ids = hooks::Table<rdma_cm_id, Id>;

// CHANNEL null: a sync id.
Result<rdma_cm_id*> make_id(Channel* channel, void* context, rdma_port_space port_space);
// What a listener's peer asks with.
Result<Id*> make_request(Id& listener, const sluice_cm_event& event);
// Waits until all its events are acknowledged.
Result<void> destroy_id(Id& id);
Result<void> migrate_id(Id& id, Channel* channel);

// What to answer to a call that says which device is meant.
enum class Answer : std::uint8_t { kDone, kByKernel };

Result<Answer> bind_address(Id& id, sockaddr* address);
Result<Answer> resolve_address(Id& id, const sockaddr* source, const sockaddr* destination);
Result<void> resolve_route(Id& id);
// At a device's address, or, if it has none, at the wildcard address of all devices and of the kernel.
Result<void> listen(Id& id, int backlog);

inline bool is_datagram(const Id& id) noexcept {
    return id.visible->qp_type == IBV_QPT_UD;
}

// The error for a call that needs a device.
inline Error not_bound() noexcept {
    return Error(ErrorKind::kInvalidState, "this id has no device yet", EINVAL);
}

} // namespace sluice::layers::preload
