// SPDX-License-Identifier: BSD-3-Clause
//
// A value with its source and confidence, as <sluice/sluice.h> gives them out.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/sluice.h"

namespace sluice::attributes {

struct Finding {
    std::uint64_t value = 0;
    sluice_source source = SLUICE_SOURCE_NONE;
    sluice_confidence confidence = SLUICE_CONFIDENCE_NONE;
    std::string evidence{}; // in words, where there is more to say than the source
};

struct TextFinding {
    std::string value{};
    sluice_source source = SLUICE_SOURCE_NONE;
    sluice_confidence confidence = SLUICE_CONFIDENCE_NONE;
};

inline Finding yes_or_no(bool yes, sluice_source source, sluice_confidence confidence) {
    return {static_cast<std::uint64_t>(yes ? SLUICE_ANSWER_YES : SLUICE_ANSWER_NO), source, confidence};
}

} // namespace sluice::attributes
