// SPDX-License-Identifier: BSD-3-Clause
#include "rpma/refusals.hpp"

#include <dlfcn.h>

#include <array>
#include <string>

#include "core/boundary.hpp"
#include "core/report/finding.hpp"

namespace sluice::rpma::refusals {

namespace {

// Without the frames of this library.
report::Stack stack_of_program() noexcept {
    const report::Stack all = report::capture();
    Dl_info own{};
    if (dladdr(reinterpret_cast<const void*>(&tell_misaligned), &own) == 0) {
        return all;
    }
    report::Stack rest;
    for (const void* each : all.frames()) {
        Dl_info info{};
        const bool is_own = dladdr(each, &info) != 0 && info.dli_fbase == own.dli_fbase;
        if (rest.count != 0 || !is_own) {
            rest.addresses[rest.count++] = each;
        }
    }
    return rest.count != 0 ? rest : all;
}

template<typename Words>
void tell(std::string_view rule, std::string_view object, std::string_view remedy, Words&& words) noexcept {
    if (report::depth() == report::Depth::kNothing) {
        return;
    }
    (void)at_boundary("refusals", [&]() -> Result<void> {
        const report::Stack stack = stack_of_program();
        const std::array sides{report::Side{.title = "the request was refused", .stack = &stack}};
        report::write({.rule = rule,
                       .object = std::string(object),
                       .what = words(),
                       .remedy = std::string(remedy),
                       .sides = sides});
        return {};
    });
}

} // namespace

void tell_too_many_pieces(std::size_t count, std::size_t most) noexcept {
    tell("too-many-pieces", "rpma_write_pieces()",
         "call rpma_conn_cfg_set_max_pieces() with as many before the connection is made", [&] {
             return "it has " + std::to_string(count) +
                    " pieces, and the connection was made for requests of " + std::to_string(most);
         });
}

void tell_misaligned(std::uint64_t address) noexcept {
    tell("misaligned-atomic", "rpma_atomic_write()",
         "write to an offset whose address at the peer is a multiple of 8", [&] {
             return "the address at the peer lies " + std::to_string(address % 8) +
                    " bytes behind a multiple of 8";
         });
}

} // namespace sluice::rpma::refusals
