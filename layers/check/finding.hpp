// SPDX-License-Identifier: BSD-3-Clause
//
// Findings about verbs, in a form that fits on a few lines where a rule is broken.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "core/boundary.hpp"
#include "core/report/finding.hpp"
#include "layers/check/places.hpp"

namespace sluice::layers::check {

struct Told {
    std::string object;
    std::string what;
    std::string remedy;
};

// WORDS() gives what is told. Nothing in here throws.
template<typename Words>
void tell(std::string_view rule, std::initializer_list<report::Side> sides, Words&& words) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        Told told = words();
        report::write({.rule = rule,
                       .object = std::move(told.object),
                       .what = std::move(told.what),
                       .remedy = std::move(told.remedy),
                       .sides = {sides.begin(), sides.size()}});
        return {};
    });
}

} // namespace sluice::layers::check
