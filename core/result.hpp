// SPDX-License-Identifier: BSD-3-Clause
//
// Result<T>: a value, or the Error that explains why there is none.
//
// Every fallible function inside the libraries returns one; nothing throws on purpose. Asking
// the wrong side is a bug and ends the program at once, in release builds too, because going
// on with a value that isn't there is worse.
//
//     Result<Ring> map_ring(int fd);
//     ...
//     Result<Ring> ring = map_ring(fd);
//     if (!ring) return std::move(ring).error();
//     use(*ring);
#pragma once

#include <cstdlib>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/error.hpp"

namespace sluice {

template<typename T>
class [[nodiscard]] Result {
    static_assert(!std::is_reference_v<T>, "return a pointer or std::reference_wrapper");
    static_assert(!std::is_same_v<std::remove_cv_t<T>, Error>, "an Error is not a value");

  public:
    using value_type = T;

    template<typename U = T>
    requires(std::is_constructible_v<T, U> && !std::is_same_v<std::remove_cvref_t<U>, Result> &&
             !std::is_same_v<std::remove_cvref_t<U>, Error>)
        // NOLINTNEXTLINE(google-explicit-constructor): `return value;` is the point
        Result(U&& value)
        : state_(std::in_place_index<0>, std::forward<U>(value)) {}

    // NOLINTNEXTLINE(google-explicit-constructor): `return error;` is the point
    Result(Error error) noexcept : state_(std::in_place_index<1>, std::move(error)) {}

    bool ok() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return ok(); }

    T& value() & noexcept { return *checked<0>(state_); }
    const T& value() const& noexcept { return *checked<0>(state_); }
    T&& value() && noexcept { return std::move(*checked<0>(state_)); }

    T& operator*() & noexcept { return value(); }
    const T& operator*() const& noexcept { return value(); }
    T&& operator*() && noexcept { return std::move(*this).value(); }
    T* operator->() noexcept { return checked<0>(state_); }
    const T* operator->() const noexcept { return checked<0>(state_); }

    const Error& error() const& noexcept { return *checked<1>(state_); }
    Error&& error() && noexcept { return std::move(*checked<1>(state_)); }

    template<typename U>
    T value_or(U&& fallback) && {
        return ok() ? std::move(*this).value() : static_cast<T>(std::forward<U>(fallback));
    }

    // Goes on with the value, or passes the error through. NEXT returns a Result.
    template<typename F>
    auto and_then(F&& next) && -> std::invoke_result_t<F, T&&> {
        if (!ok()) {
            return std::move(*this).error();
        }
        return std::invoke(std::forward<F>(next), std::move(*this).value());
    }

  private:
    template<std::size_t kSide, typename State>
    static auto* checked(State& state) noexcept {
        auto* side = std::get_if<kSide>(&state);
        if (side == nullptr) {
            std::abort();
        }
        return side;
    }

    std::variant<T, Error> state_;
};

template<>
class [[nodiscard]] Result<void> {
  public:
    using value_type = void;

    Result() noexcept = default;
    // NOLINTNEXTLINE(google-explicit-constructor): `return error;` is the point
    Result(Error error) noexcept : error_(std::move(error)) {}

    bool ok() const noexcept { return !error_.has_value(); }
    explicit operator bool() const noexcept { return ok(); }

    const Error& error() const& noexcept {
        if (ok()) {
            std::abort();
        }
        return *error_;
    }
    Error&& error() && noexcept {
        if (ok()) {
            std::abort();
        }
        return std::move(*error_);
    }

    template<typename F>
    auto and_then(F&& next) && -> std::invoke_result_t<F> {
        if (!ok()) {
            return std::move(*this).error();
        }
        return std::invoke(std::forward<F>(next));
    }

  private:
    std::optional<Error> error_;
};

} // namespace sluice
