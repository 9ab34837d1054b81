// SPDX-License-Identifier: BSD-3-Clause
//
// The parsers of /etc/sluice/sluice.conf and SLUICE_COHERENCE against any bytes. libFuzzer and AFL
// call the same entry.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "provider/config/parser.hpp"

// What must hold besides not crashing: an accepted text means something that can be named, a
// refused one has an error that fits on a terminal, and both ways to read it agree on which it is.
// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto file = sluice::config::parse_file(text, "fuzz");
    if (file) {
        for (const auto& device : file->devices) {
            if (file->find(device.name) != &device || device.line == 0) {
                std::abort();
            }
        }
    } else {
        for (const char* at = file.error().text(); *at != '\0'; ++at) {
            if (static_cast<unsigned char>(*at) < ' ') {
                std::abort();
            }
        }
    }
    const auto understood = sluice::config::understand_file(text);
    if (understood.problems.empty() != file.ok() ||
        understood.problems.size() > sluice::config::kMaxProblems) {
        std::abort();
    }
    const auto value = sluice::config::parse_environment(text, "rxe0");
    return value && std::strlen(sluice::config::to_string(*value)) == 0 ? 1 : 0;
}
