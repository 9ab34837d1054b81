// SPDX-License-Identifier: BSD-3-Clause
//
// Queue pair 1 of a device, and the thread that serves it: the way between the connection service and
// the network. Started by the first program that connects or listens, so that others pay nothing.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "core/sync.hpp"
#include "provider/uroce/connect/service.hpp"
#include "provider/uroce/device/device.hpp"
#include "provider/uroce/roce.hpp"

namespace sluice::uroce::connect {

class Gsi final : public device::Companion, ManagementPort {
  public:
    // DEVICE outlives it, and has made progress possible.
    static Result<std::unique_ptr<device::Companion>> start(device::Device& device);
    ~Gsi() override;

    Service& service() noexcept { return service_; }

  private:
    static constexpr std::uint32_t kReceives = 1024; // a burst; more is lost, and said again
    static constexpr std::uint32_t kSends = 64;
    static constexpr std::size_t kGrhBytes = sizeof(wire::Grh);

    // What the link's thread has heard of peers' processes.
    struct Ended {
        enum class What : std::uint8_t { kEnded, kDenies } what;
        engine::Address address{};
        engine::Share its{};
        engine::Ends ends{}; // of kDenies, instead of the two
    };
    // Knows its way back.
    struct Arrivals : engine::CompletionQueue {
        explicit Arrivals(Gsi& its_owner);
        Gsi& owner;
    };
    struct Buffer {
        wire::Grh grh;
        cm::Mad mad;
    };

    Gsi(device::Device& device, const RandomKey& secret);

    engine::Nanoseconds now() noexcept override;
    void send(const cm::OutMad& mad) noexcept override;
    void wake_at(engine::Nanoseconds when) noexcept override;
    bool is_anybody_at(const engine::Address& peer) noexcept override;
    bool is_seat_empty(const engine::Address& address, std::uint32_t seat) noexcept override;
    void peer_is_gone(const engine::Ends& ends) noexcept override;
    void prepare(const engine::Address& peer, std::uint64_t service) override;
    cm::Sight look_for(const engine::Ends& ends) noexcept override;
    int modify_qp(ibv_qp& qp, ibv_qp_attr& attr, int mask) noexcept override;
    void process_ended(const engine::Address& address, const engine::Share& its) noexcept override;
    void peer_denies(const engine::Ends& ends) noexcept override;
    bool gone() const noexcept override { return device_.poisoned(); }
    Result<void> use(const engine::Address& local) override;
    void use_all(const engine::Address& any) override;
    engine::Address other_family() const noexcept override;
    std::uint8_t gid_index(const engine::Address& local) const noexcept override;

    Result<void> make_queue_pair();
    Result<void> start_thread();
    static void on_arrival(engine::CompletionQueue& queue) noexcept;
    static void* run(void* self) noexcept;
    void loop() noexcept;
    void take_arrivals() noexcept;
    void tell_thread(const Ended& ended) noexcept;
    void take(const Ended& ended) noexcept;
    std::vector<Ended> take_ended() noexcept;
    void take(const engine::Completion& completion, const Buffer& buffer) noexcept;
    void post_receive(std::uint64_t buffer) noexcept;
    void wait() noexcept;

    device::Device& device_;
    std::unique_ptr<Buffer[]> buffers_;
    engine::CompletionQueue sent_; // stays empty: nothing is signalled
    Arrivals arrived_;
    engine::QueuePair* qp_ = nullptr;
    std::uint32_t key_ = 0; // of buffers_
    bool has_key_ = false;
    int wake_fd_ = -1; // an eventfd
    std::atomic<engine::Nanoseconds> wake_at_{engine::kNever};
    Mutex ending_;
    std::vector<Ended> ended_ SLUICE_TSA(guarded_by(ending_)); // processes, until the thread has seen them
    std::atomic<bool> stopping_{false};
    bool running_ = false;
    pthread_t thread_{};
    Service service_;
};

// The connection service of CONTEXT's device, started by the first call for that device.
Result<Service*> connections_of(ibv_context* context);

// ADDRESS is an entry of the GID table of CONTEXT's device from now on, and the device listens there.
Result<void> use_address(ibv_context* context, const sockaddr& address);

} // namespace sluice::uroce::connect
