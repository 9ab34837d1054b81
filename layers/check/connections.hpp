// SPDX-License-Identifier: BSD-3-Clause
//
// Events of librdmacm: which were taken and not given back, and which say that there is no connection.
#pragma once

#include <rdma/rdma_cma.h>

#include "layers/check/places.hpp"

namespace sluice::layers::check {

// The program has an event. It is about to give it back.
void take_connection_event(const rdma_cm_event& event, Place place) noexcept;
void forget_connection_event(const rdma_cm_event& event) noexcept;
// Before an id is destroyed, which waits for its events.
void check_end(const rdma_cm_id* id, Place place) noexcept;

} // namespace sluice::layers::check
