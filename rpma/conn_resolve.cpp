// SPDX-License-Identifier: BSD-3-Clause
//
// Finding the way to a peer without blocking: a Request that was started, and its steps.
#include <sys/eventfd.h>

#include "ibverbs-glue/adaptors.hpp"
#include "ibverbs-glue/reach.hpp"
#include "rpma/conn.hpp"

namespace sluice::rpma {

namespace {

constexpr unsigned kSteps = 2; // the address, and the path

} // namespace

Result<std::unique_ptr<Request>> Request::start(Peer& peer, const char* address, const char* port,
                                                const ConnConfig& config) {
    Result<glue::Address> to = glue::address_from_numbers(address, port);
    if (!to) {
        return std::move(to).error();
    }
    std::unique_ptr<Request> request(new Request(peer, config));
    request->to_ = *to;
    Result<void> started = request->prepare();
    if (started) {
        started = request->start_resolving();
    }
    if (!started) {
        return std::move(started).error();
    }
    return request;
}

// A device that finds its peers without asking has no events of it. The program's loop is to see the same
// steps over any device, so they come from an eventfd then.
Result<void> Request::start_resolving() {
    Result<std::unique_ptr<glue::Connection>> connection = service_->make_connection(nullptr);
    if (!connection) {
        return std::move(connection).error();
    }
    connection_ = *std::move(connection);
    Result<bool> is_found = connection_->start_resolving(to_, config_.timeout_ms);
    if (!is_found) {
        return std::move(is_found).error();
    }
    if (*is_found) {
        Result<int> steps = glue::from_minus_one(eventfd(kSteps, EFD_SEMAPHORE | EFD_CLOEXEC | EFD_NONBLOCK),
                                                 "making an eventfd");
        if (!steps) {
            return std::move(steps).error();
        }
        steps_ = Descriptor(*steps);
    }
    Result<Waiter> waiter = Waiter::make(*is_found ? steps_.get() : service_->fd(), -1);
    if (!waiter) {
        return std::move(waiter).error();
    }
    waiter_ = *std::move(waiter);
    way_ = Way::kAddressWanted;
    return {};
}

rpma_conn_req_step Request::step_done() noexcept {
    const bool is_address = way_ == Way::kAddressWanted;
    way_ = is_address ? Way::kPathWanted : Way::kFound;
    return is_address ? RPMA_CONN_REQ_ADDRESS_FOUND : RPMA_CONN_REQ_PATH_FOUND;
}

Result<std::optional<rpma_conn_req_step>> Request::step_of(const glue::ConnectionEvent& event) {
    const glue::ConnectionEventKind wanted = way_ == Way::kAddressWanted
                                                 ? glue::ConnectionEventKind::kAddressFound
                                                 : glue::ConnectionEventKind::kPathFound;
    if (event.kind == wanted) {
        return std::optional(step_done());
    }
    const bool is_address = way_ == Way::kAddressWanted;
    way_ = Way::kNotFound;
    return Error::format(ErrorKind::kConnection, event.os_errno, "%s to %s was not found within %d ms",
                         is_address ? "the device" : "the path", to_.to_string().c_str(),
                         config_.timeout_ms.load());
}

Result<std::optional<rpma_conn_req_step>> Request::next_step() {
    if (way_ != Way::kAddressWanted && way_ != Way::kPathWanted) {
        return Error(ErrorKind::kInvalidArgument, "there is no step left to take");
    }
    eventfd_t step = 0;
    if (steps_.get() >= 0) {
        Result<int> taken = glue::from_minus_one(eventfd_read(steps_.get(), &step), "taking a step");
        return taken ? Result<std::optional<rpma_conn_req_step>>(step_done()) : std::move(taken).error();
    }
    Result<std::optional<glue::ConnectionEvent>> event = waiter_->next(*service_);
    if (!event) {
        return std::move(event).error();
    }
    return *event ? step_of(**event) : Result<std::optional<rpma_conn_req_step>>(std::nullopt);
}

} // namespace sluice::rpma
