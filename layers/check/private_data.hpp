// SPDX-License-Identifier: BSD-3-Clause
//
// Private data of librdmacm's events. It lies in the event, which rdma_ack_cm_event() frees: a program that
// looks at it later sees what came in its place. So a program gets the address of a copy, in a page of its
// own, and the page is protected when the event is acknowledged.
//
// Pages are used again, of those whose events were acknowledged the one that was given first.
//
// Thread safety: all of it, from any thread.
#pragma once

#include <rdma/rdma_cma.h>

#include "layers/check/places.hpp"

namespace sluice::layers::check::private_data {

// The program gets EVENT at PLACE.
void give(rdma_cm_event& event, Place place) noexcept;
// It acknowledges it at PLACE.
void take_back(const rdma_cm_event& event, Place place) noexcept;

} // namespace sluice::layers::check::private_data
