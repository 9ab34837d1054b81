// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/requests.hpp"

#include <algorithm>

namespace sluice::layers::check {

void Requests::resize(std::uint32_t granted) {
    constexpr std::uint32_t kSpare = 64;
    std::vector<Request> larger(std::size_t{granted} + kSpare);
    drop_oldest(count_ - std::min(count_, larger.size()));
    for (std::size_t i = 0; i < count_; ++i) {
        larger[i] = std::move((*this)[i]);
    }
    ring_ = std::move(larger);
    first_ = 0;
    granted_ = granted;
}

void Requests::empty_out(Request& request) noexcept {
    owed_ -= request.has_completion ? 1U : 0U;
    for (Piece& piece : std::span(request.pieces).first(request.pieces_count)) {
        piece.region.reset();
    }
}

Request& Requests::add() noexcept {
    if (count_ == ring_.size()) {
        drop_oldest(1);
    }
    Request& added = (*this)[count_++];
    added = {};
    added.number = ++posted_;
    added.has_completion = false;
    return added;
}

void Requests::drop_youngest(std::size_t count) noexcept {
    for (; count != 0 && count_ != 0; --count) {
        empty_out((*this)[--count_]);
        --posted_;
    }
}

void Requests::drop_oldest(std::size_t count) noexcept {
    for (; count != 0 && count_ != 0; --count) {
        empty_out((*this)[0]);
        first_ = (first_ + 1) % ring_.size();
        --count_;
    }
}

void Requests::settle(Request& request) noexcept {
    empty_out(request);
    request.pieces_count = 0;
    request.has_completion = false;
}

void Requests::clear() noexcept {
    drop_oldest(count_);
}

} // namespace sluice::layers::check
