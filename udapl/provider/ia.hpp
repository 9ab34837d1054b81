// SPDX-License-Identifier: BSD-3-Clause
//
// An opened interface adapter. It knows every kind of object: it gives the events of connections to endpoints
// and service points, in the loop's thread, and destroys everything in it when it is closed.
//
// Thread safety: everything may be called from any thread, but for empty() and start_connections().
#pragma once

#include <memory>
#include <string>

#include "udapl/provider/ia_context.hpp"

namespace sluice::dapl {

class Ia final : public IaContext, private DescriptorHandler, private AsyncEventTarget {
  public:
    static constexpr HandleKind kHandleKind = kIa;
    static constexpr bool kIsHot = true;

    // NAME: what the program opened it by.
    Ia(std::shared_ptr<Device> device, std::string name, const IaOptions& options) noexcept
        : IaContext(std::move(device), options), name_(std::move(name)) {}

    const std::string& name() const noexcept { return name_; }

    // Gives IA, filled or not, its handle; then it owns itself until it is closed. FRONT: as for adopt().
    static Result<void*> open(std::unique_ptr<Ia>& ia, const void* front);
    // Destroys it and everything in it. False: another thread does so.
    static bool close(Pin<Ia> ia) noexcept;

    // Once, before another thread knows the IA: from then on it takes the events of its connections.
    Result<void> start_connections();
    // Gives a request to another service point, as if it had come there; refuses it where there is none.
    void hand_on(glue::ConnectionEvent& request, std::uint64_t qualifier);
    // Destroys everything in it and ends every wait. No call uses the IA itself any more.
    void empty() noexcept;

  private:
    void on_readable() noexcept override;
    void on_async_event(ibv_event_type type) noexcept override;
    void take_events();
    void give_request(glue::ConnectionEvent& event, void* point);
    void* find_point(std::uint64_t qualifier) noexcept;
    void abandon_cnos() noexcept;
    template<typename T>
    void destroy_all() noexcept;

    const std::string name_;
};

} // namespace sluice::dapl
