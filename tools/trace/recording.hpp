// SPDX-License-Identifier: BSD-3-Clause
//
// A file that a traced process left (layers/trace/file/layout.hpp), read as what a stranger wrote: the
// program can write there, too, and may still run. Numbers stay within bounds that the reader sets, names are
// printable, and what isn't understood is counted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "layers/trace/file/layout.hpp"

namespace sluice::tools::trace {

namespace file = layers::trace::file;

struct TracedThread {
    std::int32_t tid = 0;
    std::string name;
    std::uint64_t lost = 0; // events that weren't recorded
};

struct TracedEvent {
    file::Event event; // its kind is one that we know, and no head
    std::uint32_t thread = 0;
};

struct Recording {
    std::int32_t pid = 0;
    std::int32_t parent = 0;
    std::string program;
    std::vector<TracedThread> threads;
    std::vector<TracedEvent> events;  // in the order of their times, of each thread as it wrote them
    std::uint64_t lost_of_others = 0; // events of threads beyond those that are listed
    std::uint64_t unreadable = 0;     // places with something that is no event
};

// Up to BYTES bytes from OFFSET to TO; gives how many there were.
using ReadAt = std::function<std::size_t(std::uint64_t offset, char* to, std::size_t bytes)>;

// Of no more than MOST_BLOCKS blocks. Nothing: it is no recording, or one that was never begun.
std::optional<Recording> read_recording(const ReadAt& read, std::uint32_t most_blocks);

// The name that an event of a device carries.
std::string device_name_in(const file::Event& event);

} // namespace sluice::tools::trace
