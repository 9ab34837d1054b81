// SPDX-License-Identifier: BSD-3-Clause
#include "core/coherence/copy.hpp"

#include <cstdint>
#include <cstring>

namespace sluice::coherence {

namespace {

void copy_through_caches(const Ops& ops, void* to, const void* from, std::size_t length) noexcept {
    if (length != 0) { // memcpy() takes no null, even for nothing
        std::memcpy(to, from, length);
    }
    issue(ops.clean, ops, reinterpret_cast<std::uintptr_t>(to), length);
}

} // namespace

void copy_and_clean(const Ops& ops, void* to, const void* from, std::size_t length) noexcept {
    auto* target = static_cast<char*>(to);
    const auto* source = static_cast<const char*>(from);
    issue(ops.before_clean, ops);
    if (ops.copy.issue != nullptr && length >= ops.copy.worth_bytes && length >= 2 * ops.line_bytes) {
        // Up to the first line, whole lines, and what is behind the last.
        const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) & (ops.line_bytes - 1);
        const std::size_t lines = (length - head) / ops.line_bytes;
        const std::size_t tail = head + lines * ops.line_bytes;
        copy_through_caches(ops, target, source, head);
        ops.copy.issue(target + head, source + head, lines);
        copy_through_caches(ops, target + tail, source + tail, length - tail);
    } else {
        copy_through_caches(ops, to, from, length);
    }
    issue(ops.after_clean, ops);
}

} // namespace sluice::coherence
