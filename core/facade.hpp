// SPDX-License-Identifier: BSD-3-Clause
//
// What an exported function of any of our libraries consists of: it checks its arguments, makes one call
// behind the boundary, and turns the result into a code of its ABI:
//
//     int rpma_thing(struct rpma_peer* peer) {
//         return peer == nullptr ? RPMA_E_INVAL : Rpma::answer([&] { return thing(*object_of(peer)); });
//     }
//
// An ABI derives from Facade of itself and has
//
//     using Code = int;                 // what its functions return
//     static constexpr Code kDone = 0;  // where a body gives no code
//     // Reports ERROR where the ABI's users look for it; the code that the function returns.
//     static Code fail(const Error& error, const Where& where) noexcept;
#pragma once

#include <type_traits>
#include <utility>

#include "core/boundary.hpp"

namespace sluice {

// The place of a call. A default argument of this type is the place of the caller, so that no exported
// function has to repeat its name.
struct Where {
    // NOLINTNEXTLINE(google-explicit-constructor): `Where where = {}` is the point
    Where(const char* its_file = __builtin_FILE(), int its_line = __builtin_LINE(),
          const char* its_function = __builtin_FUNCTION()) noexcept
        : file(its_file), line(its_line), function(its_function) {}

    const char* file;
    int line;
    const char* function;
};

template<typename T>
inline constexpr bool kIsResult = false;
template<typename T>
inline constexpr bool kIsResult<Result<T>> = true;

template<typename Abi>
struct Facade {
    // BODY gives a code, or a Result: of a code, or of nothing.
    template<typename Body>
    static auto answer(Body&& body, const Where& where = {}) noexcept {
        if constexpr (kIsResult<std::invoke_result_t<Body>>) {
            return to_code(at_boundary(where.function, std::forward<Body>(body)), where);
        } else {
            return answer([&]() -> Result<std::invoke_result_t<Body>> { return body(); }, where);
        }
    }

    // What BODY gives, a Result, goes to OUT, which keeps what it had where there is none.
    template<typename Out, typename Body>
    static auto give(Out* out, Body&& body, const Where& where = {}) noexcept {
        return answer(
            [&]() -> Result<void> {
                auto made = body();
                if (!made) {
                    return std::move(made).error();
                }
                *out = *std::move(made);
                return {};
            },
            where);
    }

  private:
    static auto to_code(const Result<void>& done, const Where& where) noexcept {
        return done ? Abi::kDone : Abi::fail(done.error(), where);
    }
    template<typename Code>
    static auto to_code(const Result<Code>& code, const Where& where) noexcept {
        return code ? *code : Abi::fail(code.error(), where);
    }
};

// 0 or an errno, in the style of libibverbs; nothing is reported.
struct Errno : Facade<Errno> {
    using Code = int;
    static constexpr Code kDone = 0;
    static Code fail(const Error& error, const Where& /*where*/) noexcept { return error.to_errno(); }
};

} // namespace sluice
