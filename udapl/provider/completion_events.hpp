// SPDX-License-Identifier: BSD-3-Clause
//
// Turns completions into events. It ends the record of a completion, shows the CPU what the device wrote,
// notifies a window that it was bound, and collects what completions mean for their endpoint in the report of
// its ring, which the endpoint takes in the loop's thread. It has no lock of its own: the dispatcher's guards
// it.
#pragma once

#include "udapl/provider/completion_source.hpp"
#include "udapl/provider/ia_context.hpp"

namespace sluice::dapl {

class CompletionEvents {
  public:
    CompletionEvents(const IaContext& ia, const CompletionSource& source) noexcept
        : ia_(ia), source_(source) {}

    // Whether COMPLETION makes an EVENT. Its record comes free.
    bool read(const ibv_wc& completion, Event& event) noexcept;

    // How many transfers have ended that were to make no event.
    std::uint32_t silent() const noexcept { return silent_; }

    // Reports if RING waits until nothing of it is on its way, and nothing is.
    void check_idle(DtoRing& ring) noexcept;
    // Reports if RING holds more than its watermarks; more than the soft one, once.
    void check_held(DtoRing& ring) noexcept;
    // The device has lost completions of RING.
    void report_overrun(DtoRing& ring) noexcept;

    // The program has EVENT, or never will: a shared buffer isn't outstanding any more.
    static void release(const Event& event) noexcept;

  private:
    bool read_shared(Dto& record, const ibv_wc& completion, Event& event) noexcept;
    bool describe(const Dto& dto, DtoStatus status, bool is_receive, Event& event) noexcept;
    void note(const Dto& dto, DtoStatus status) noexcept;
    void request_report(DtoRing& ring, std::uint32_t connection) noexcept;

    const IaContext& ia_;
    const CompletionSource& source_;
    std::uint32_t silent_ = 0;
};

} // namespace sluice::dapl
