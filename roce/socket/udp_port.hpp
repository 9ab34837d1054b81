// SPDX-License-Identifier: BSD-3-Clause
//
// A device's way to the network: one UDP socket bound to one address and port 4791, and a Sender and
// a Receiver on it. It is never bound to "any" address: a host that can send to port 4791 can try keys
// and numbers, so a device listens only where it was told to.
//
// The IPv4 socket isn't connected and sets "don't fragment": only then does Linux send
// identification 0, which the ICRC needs to know.
//
// Threads: the sender's calls in one thread at a time (under the device's lock, as they take the
// engine's packets), the receiver's in one thread at a time; the two don't touch each other.
// descriptor() is for poll(): readable when there is something to fetch, writable when a flush()
// that returned false may go on.
#pragma once

#include <memory>

#include "core/descriptor.hpp"
#include "roce/socket/receiver.hpp"
#include "roce/socket/sender.hpp"

namespace sluice::roce::socket {

struct PortConfig {
    engine::Address local{};
    bool use_gso = true; // several packets per message, where the kernel can
    bool use_gro = true;
    std::uint32_t buffer_bytes = 4U << 20; // asked for; what the system grants may be less
    PcapRecorder* recorder = nullptr;      // outlives the port
    PortCounters* counters = nullptr;      // they outlive the port. Null: it counts in itself
};

// Whether other processes may have sockets on the same address, too.
enum class Sharing : bool { kNone, kGroup };

// The steps of UdpPort::open(), for who has sockets of its own. The first says which interface carries the
// address, if packets fit it.
Result<NetworkDevice> usable_device(const PortConfig& config);
Result<Descriptor> make_socket(const PortConfig& config, Sharing sharing);
// kExists: the port is taken, and the error says by whom.
Result<void> bind_socket(int socket_fd, const engine::Address& local, const NetworkDevice& device);

class UdpPort {
  public:
    // MEMORY is where the pieces of outgoing packets lie; it outlives the port. May read /proc, to
    // name the holder of the port if it is taken.
    static Result<std::unique_ptr<UdpPort>> open(const PortConfig& config, engine::Memory& memory);
    // On a socket that is bound already.
    static std::unique_ptr<UdpPort> on(Descriptor socket_fd, const PortConfig& config,
                                       const NetworkDevice& device, engine::Memory& memory);

    Sender& sender() noexcept { return sender_; }
    Receiver& receiver() noexcept { return receiver_; }
    int descriptor() const noexcept { return socket_.get(); }
    // Closes the socket of a port that nobody uses any more, as in the child of a fork.
    void abandon() noexcept { socket_.reset(); }

    const engine::Address& local() const noexcept { return local_; }
    const NetworkDevice& network_device() const noexcept { return device_; }
    std::uint32_t active_mtu() const noexcept { return socket::active_mtu(device_.mtu); }
    // What the kernel holds for us at most until we fetch it, its own overhead included.
    std::uint32_t receive_buffer_bytes() const noexcept { return receive_buffer_bytes_; }

  private:
    UdpPort(Descriptor socket, const PortConfig& config, const NetworkDevice& device,
            std::uint32_t receive_buffer_bytes, engine::Memory& memory)
        : socket_(std::move(socket)), local_(config.local), device_(device),
          receive_buffer_bytes_(receive_buffer_bytes),
          sender_(socket_.get(), config.local, device.index, memory, config.use_gso, config.recorder,
                  config.counters != nullptr ? &config.counters->sent : nullptr),
          receiver_(socket_.get(), config.local, config.recorder,
                    config.counters != nullptr ? &config.counters->received : nullptr) {}

    Descriptor socket_;
    engine::Address local_;
    NetworkDevice device_;
    std::uint32_t receive_buffer_bytes_;
    Sender sender_;
    Receiver receiver_;
};

} // namespace sluice::roce::socket
