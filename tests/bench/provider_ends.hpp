// SPDX-License-Identifier: BSD-3-Clause
//
// How bench_provider gets two queue pairs that are connected to each other: rxe's are led there by
// hand, and siw's, as iWARP has it, by the connection manager only.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "tests/bench/failure.hpp"

namespace sluice::bench {

class Ends {
  public:
    Ends() = default;
    virtual ~Ends() = default;
    Ends(const Ends&) = delete;
    Ends& operator=(const Ends&) = delete;

    virtual ibv_context* context() const = 0;
    // Whether its queue pairs have ibv_wr_start() and ibv_wr_send(), with the stock provider too.
    virtual bool can_build() const = 0;
    // Makes the two queue pairs, and connects them. Nothing is taken apart at the end: a process that
    // measures just ends.
    virtual std::array<ibv_qp*, 2> connect(ibv_pd* pd, const ibv_qp_init_attr& request) = 0;
};

std::unique_ptr<Ends> open_ends(const std::string& device);
// What a device's name begins with; those of other providers aren't compared.
inline constexpr std::array<std::string_view, 2> kTypes = {"rxe", "siw"};

} // namespace sluice::bench
