// SPDX-License-Identifier: BSD-3-Clause
//
// From the C structures that programs hold to the objects behind them and back, and from a Result to a code:
// what each exported function is made of.
#pragma once

#include <memory>
#include <type_traits>

#include "core/boundary.hpp"
#include "rpma/conn.hpp"
#include "rpma/log.hpp"

namespace sluice::rpma {

template<typename Handle>
struct Behind;
template<>
struct Behind<rpma_peer_cfg> {
    using Type = PeerConfig;
};
template<>
struct Behind<rpma_peer> {
    using Type = Peer;
};
template<>
struct Behind<rpma_mr_local> {
    using Type = LocalRegion;
};
template<>
struct Behind<rpma_mr_remote> {
    using Type = RemoteRegion;
};
template<>
struct Behind<rpma_conn_cfg> {
    using Type = ConnConfig;
};
template<>
struct Behind<rpma_srq_cfg> {
    using Type = SrqConfig;
};
template<>
struct Behind<rpma_srq> {
    using Type = Srq;
};
template<>
struct Behind<rpma_cq> {
    using Type = Cq;
};
template<>
struct Behind<rpma_conn_req> {
    using Type = Request;
};
template<>
struct Behind<rpma_conn> {
    using Type = Conn;
};
template<>
struct Behind<rpma_ep> {
    using Type = Ep;
};

template<typename Handle>
auto* behind(Handle* handle) noexcept {
    return reinterpret_cast<typename Behind<Handle>::Type*>(handle);
}
template<typename Handle>
const auto* behind(const Handle* handle) noexcept {
    return reinterpret_cast<const typename Behind<Handle>::Type*>(handle);
}
template<typename Handle>
Handle* handle_of(typename Behind<Handle>::Type* object) noexcept {
    return reinterpret_cast<Handle*>(object);
}

// 0, or the code of what BODY, which gives a Result, says; the log tells why.
template<typename Body>
int answer(Body&& body, Where where = {}) noexcept {
    const auto result = at_boundary(where.function, std::forward<Body>(body));
    return result ? 0 : log_error(result.error(), where);
}

// The same for what BODY makes, a Result of a unique_ptr, which becomes the program's.
template<typename Handle, typename Body>
int give(Handle** handle, Body&& body, Where where = {}) noexcept {
    auto made = at_boundary(where.function, std::forward<Body>(body));
    if (!made) {
        return log_error(made.error(), where);
    }
    *handle = handle_of<Handle>(made->release());
    return 0;
}

// The same for what needs nothing but memory.
template<typename Handle>
int give_new(Handle** handle, Where where = {}) noexcept {
    using Type = typename Behind<Handle>::Type;
    if (handle == nullptr) {
        return RPMA_E_INVAL;
    }
    return give(
        handle, [] { return Result<std::unique_ptr<Type>>(std::make_unique<Type>()); }, where);
}

// Takes an object back from the program, and CLOSES it, which gives a Result, if it is there.
template<typename Handle, typename Close>
int take_back(Handle** handle, Close&& close, Where where = {}) noexcept {
    if (handle == nullptr) {
        return RPMA_E_INVAL;
    }
    if (*handle == nullptr) {
        return 0;
    }
    const std::unique_ptr<typename Behind<Handle>::Type> object(behind(std::exchange(*handle, nullptr)));
    return answer([&] { return close(*object); }, where);
}

// What needs no closing.
template<typename Handle>
int take_back(Handle** handle) noexcept {
    return take_back(handle, [](auto&) { return Result<void>(); });
}

// A member of a configuration.
template<typename Handle, typename T, typename Value>
int set(Handle* handle, std::atomic<T> Behind<Handle>::Type::*member, Value value) noexcept {
    if (handle == nullptr) {
        return RPMA_E_INVAL;
    }
    (behind(handle)->*member).store(value);
    return 0;
}
template<typename Handle, typename T, typename Value>
int get(const Handle* handle, std::atomic<T> Behind<Handle>::Type::*member, Value* value) noexcept {
    if (handle == nullptr || value == nullptr) {
        return RPMA_E_INVAL;
    }
    *value = (behind(handle)->*member).load();
    return 0;
}

} // namespace sluice::rpma
