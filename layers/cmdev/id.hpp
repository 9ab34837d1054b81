// SPDX-License-Identifier: BSD-3-Clause
//
// A communication id as the kernel would keep it for librdmacm. Where the kernel connects, each id that a
// program makes is the kernel's, too, and whose it is shows when it gets an address (ADR 72); until then both
// know it under the kernel's number. What peers of uroce's ask for, and everything where no kernel connects,
// has a number of ours.
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <sluice/sluice.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/sync.hpp"
#include "layers/cmdev/contexts.hpp"
#include "layers/cmdev/file.hpp"

namespace sluice::layers::cmdev {

struct Id {
    struct Device {
        ibv_context* context;
        glue::Address address;
        std::uint64_t guid;
    };
    struct Listener {
        ibv_context* context;
        sluice_cm_id* cm;
    };

    // Of multicast, that it has joined.
    struct Group {
        std::uint32_t handle;
        std::uint64_t uid; // what librdmacm calls it
        std::uint32_t reported = 0;
    };

    Id(std::uint32_t its_handle, const rdma_ucm_create_id& command, bool is_kernels_too) noexcept
        : handle(its_handle), port_space(command.ps), is_datagram(command.qp_type == IBV_QPT_UD),
          is_in_kernel(is_kernels_too), uid(command.uid) {}

    const std::uint32_t handle;
    const std::uint16_t port_space;
    const bool is_datagram;
    const bool is_in_kernel;

    bool is_destroyed = false;
    bool is_kernels = false; // the kernel has bound it to a device
    std::uint64_t uid;       // what librdmacm calls it; 0 until it accepts
    std::uint32_t reported = 0;
    std::shared_ptr<File> file;

    std::optional<Device> device;    // of uroce's
    sluice_cm_id* cm = nullptr;      // as soon as it has a device
    std::vector<Listener> listeners; // one for each, at the wildcard address
    std::vector<Group> groups;
    glue::Address source;
    glue::Address destination;
    bool has_route = false;
    std::uint8_t type_of_service = 0;
    std::uint8_t ack_timeout = 0;
};

// One command at a time. Its lock is taken before a file's.
struct SharedId {
    template<typename... Arguments>
    explicit SharedId(Arguments&&... arguments)
        : id(std::forward<Arguments>(arguments)...), handle(id.handle), is_in_kernel(id.is_in_kernel) {}

    Mutex mutex;
    Id id SLUICE_TSA(guarded_by(mutex));
    const std::uint32_t handle;
    const bool is_in_kernel;
};

// Our ids of this process, by number.
namespace ids {

// A number that the kernel doesn't give, and that librdmacm doesn't take for an index.
std::uint32_t next_handle() noexcept;
void add(std::shared_ptr<SharedId> id);
std::shared_ptr<SharedId> find(std::uint32_t handle); // null: the kernel's alone
std::shared_ptr<SharedId> take(std::uint32_t handle);

// Which of them has joined a multicast group, by the group's number.
void add_group(std::uint32_t group, std::uint32_t handle);
std::optional<std::uint32_t> find_member(std::uint32_t group); // nothing: the group is the kernel's
void remove_group(std::uint32_t group);

} // namespace ids

// Of packets to peers that aren't in the same subnet.
inline constexpr std::uint8_t kHopLimit = 64;

// What to answer to a command.
enum class Answer : std::uint8_t { kDone, kByKernel };

Result<Answer> bind_address(Id& id, const glue::Address& address);
// SOURCE may be of no family.
Result<Answer> resolve_address(Id& id, const glue::Address& source, const glue::Address& destination);
Result<void> resolve_route(Id& id);
// For an id that was bound to an address without one.
Result<void> take_device(Id& id);
// At a device's address.
Result<void> listen(Id& id, int backlog);
// At the wildcard address of all devices, and at PORT, unless that is 0.
Result<void> listen_everywhere(Id& id, int backlog, std::uint16_t port);
// What a listener's peer asks with; its number.
Result<std::shared_ptr<SharedId>> make_request(Id& listener, const sluice_cm_event& event);
Result<void> migrate(Id& id, const std::shared_ptr<File>& to);
// Ends what it is used for. How many of its events librdmacm has got. Waits for threads that take its events.
std::uint32_t destroy(SharedId& shared);
// Closes FILE, and destroys its ids.
void end(File& file);

ibv_gid gid_of(const glue::Address& address) noexcept;
// Of the source, in its device's table.
std::uint8_t gid_index_of(const Id& id) noexcept;
bool is_wildcard(const glue::Address& address) noexcept;

} // namespace sluice::layers::cmdev
