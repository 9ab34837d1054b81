// SPDX-License-Identifier: BSD-3-Clause
#include "core/coherence/copy.hpp"

#include <cstdint>
#include <cstring>

namespace sluice::coherence {

namespace {

void store(void* to, const void* from, std::size_t length) noexcept {
    if (length != 0) { // memcpy() takes no null, even for nothing
        std::memcpy(to, from, length);
    }
}

} // namespace

void copy_and_clean(const Ops& ops, void* to, const void* from, std::size_t length) noexcept {
    auto* target = static_cast<char*>(to);
    const auto* source = static_cast<const char*>(from);
    const auto address = reinterpret_cast<std::uintptr_t>(to);
    // The fence before a clean stands behind all stores: where there is one, a line operation isn't ordered
    // after older stores to its line without it.
    if (ops.copy.issue != nullptr && length >= ops.copy.worth_bytes && length >= 2 * ops.line_bytes) {
        // Up to the first line, whole lines, and what is behind the last.
        const std::size_t head = -address & (ops.line_bytes - 1);
        const std::size_t lines = (length - head) / ops.line_bytes;
        const std::size_t tail = head + lines * ops.line_bytes;
        store(target, source, head);
        ops.copy.issue(target + head, source + head, lines);
        store(target + tail, source + tail, length - tail);
        issue(ops.before_clean, ops);
        issue(ops.clean, ops, address, head);
        issue(ops.clean, ops, address + tail, length - tail);
    } else {
        store(to, from, length);
        issue(ops.before_clean, ops);
        issue(ops.clean, ops, address, length);
    }
    issue(ops.after_clean, ops);
}

} // namespace sluice::coherence
