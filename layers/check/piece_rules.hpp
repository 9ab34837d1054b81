// SPDX-License-Identifier: BSD-3-Clause
//
// The memory that a request names: whether its key, its region and their rights fit.
#pragma once

#include <string>

#include "layers/check/objects.hpp"

namespace sluice::layers::check {

// What a rule about pieces has to know of their request.
struct Owner {
    const ibv_context* context = nullptr;
    const ibv_pd* pd = nullptr;
    std::string (*name)(const void* object) = nullptr;
    const void* object = nullptr;

    std::string text() const { return name(object); }
};

Owner owner_of(const QueuePair& pair) noexcept;
Owner owner_of(const SharedQueue& queue) noexcept;

// Keeps them in REQUEST, as far as they are memory of the program's.
void take_pieces(const Owner& owner, Request& request, std::span<const ibv_sge> pieces,
                 bool is_written_to) noexcept;

// What it writes to or reads from.
void check_target(const QueuePair& pair, Request& request) noexcept;

} // namespace sluice::layers::check
