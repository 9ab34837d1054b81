// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that several processes have, and register under one cookie.
//
// The kernel shares pages by itself, so that a registration of each process' own costs no second copy. What
// is left to do is to keep the promise: what is registered so must be shared, and one cookie is one memory.
// The cookies of other processes aren't known here.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace sluice::dapl {

constexpr std::size_t kCookieBytes = 40;
using Cookie = std::array<char, kCookieBytes>;

// A place in a file, or in what the kernel has in place of one.
struct SharedPlace {
    std::string device; // as the kernel spells it
    std::uint64_t inode = 0;
    std::uint64_t offset = 0;

    bool operator==(const SharedPlace&) const = default;
};

// Where the bytes lie, by MAPS, which is /proc/self/maps. kInvalidState when not all of them are mapped to be
// shared; kInvalidArgument when not all of them are mapped.
Result<SharedPlace> find_shared(std::string_view maps, std::uint64_t address, std::uint64_t length);

// A registration under a cookie, as long as it lives.
class SharedUse {
  public:
    // Errors of find_shared(); kInvalidArgument, too, when this process uses COOKIE for other memory.
    static Result<SharedUse> make(const Cookie& cookie, std::uint64_t address, std::uint64_t length);

    SharedUse(SharedUse&& other) noexcept;
    SharedUse& operator=(SharedUse&&) = delete;
    ~SharedUse();

  private:
    explicit SharedUse(const Cookie& cookie) noexcept : cookie_(cookie) {}

    Cookie cookie_;
    bool is_moved_ = false;
};

} // namespace sluice::dapl
