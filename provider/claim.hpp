// SPDX-License-Identifier: BSD-3-Clause
//
// Whether our provider drives a device, or leaves it to the stock one.
//
// libibverbs takes the first provider that claims a device, in an order that depends on how a
// directory happens to be hashed. So we claim nothing unless somebody asked for it:
//
//   environment    RDMAV_DRIVERS (or, when that is unset, IBV_DRIVERS) names sluice; ignored for
//                  programs with raised privileges, as libibverbs does
//   configuration  /etc/sluice/sluice.conf says "claim = rxe siw", or says nothing of it and
//                  `sluice provider enable` was called
//   linked         the program, or a library of it, links libsluice
//   replaces       the file of the stock provider is a link to ours (the package sluice-default)
#pragma once

#include <cstdint>
#include <string_view>

#include "provider/abi/driver.hpp"

namespace sluice::provider {

const char* driver_name(abi::Driver driver) noexcept;

enum class Claim : std::uint8_t {
    kNone, // nobody asked
    kEnvironment,
    kConfiguration,
    kLinked,
    kReplaces,
};

const char* to_string(Claim claim) noexcept;

// Why this process's DRIVER devices are ours, or kNone. Reads the environment and files; call it
// on the control path. Thread-safe as getenv() is.
Claim claim_of(abi::Driver driver) noexcept;

// The parts of the decision, for claim_of() and for tools that explain it.

// Whether a list as in RDMAV_DRIVERS names our provider, as "sluice" or as a path to it.
bool list_names_sluice(std::string_view list) noexcept;

// Whether a library that was loaded as PATH was loaded by libibverbs as a provider.
bool is_provider_path(std::string_view path) noexcept;

} // namespace sluice::provider
