// SPDX-License-Identifier: BSD-3-Clause
//
// From the C structures that programs hold to the objects behind them and back, and from a Result to a code:
// what each exported function is made of.
#pragma once

#include <cerrno>
#include <memory>
#include <type_traits>

#include "core/boundary.hpp"
#include "rpma/conn.hpp"
#include "rpma/log.hpp"
#include "rpma/responder.hpp"
#include "rpma/waiter.hpp"

namespace sluice::rpma {

template<typename Handle>
struct ObjectOf;
template<>
struct ObjectOf<rpma_peer_cfg> {
    using Type = PeerConfig;
};
template<>
struct ObjectOf<rpma_peer> {
    using Type = Peer;
};
template<>
struct ObjectOf<rpma_mr_local> {
    using Type = LocalRegion;
};
template<>
struct ObjectOf<rpma_mr_remote> {
    using Type = RemoteRegion;
};
template<>
struct ObjectOf<rpma_conn_cfg> {
    using Type = ConnConfig;
};
template<>
struct ObjectOf<rpma_srq_cfg> {
    using Type = SrqConfig;
};
template<>
struct ObjectOf<rpma_srq> {
    using Type = Srq;
};
template<>
struct ObjectOf<rpma_cq> {
    using Type = Cq;
};
template<>
struct ObjectOf<rpma_conn_req> {
    using Type = Request;
};
template<>
struct ObjectOf<rpma_conn> {
    using Type = Conn;
};
template<>
struct ObjectOf<rpma_responder> {
    using Type = Responder;
};
template<>
struct ObjectOf<rpma_ep> {
    using Type = Ep;
};

template<typename Handle>
auto* object_of(Handle* handle) noexcept {
    return reinterpret_cast<typename ObjectOf<Handle>::Type*>(handle);
}
template<typename Handle>
const auto* object_of(const Handle* handle) noexcept {
    return reinterpret_cast<const typename ObjectOf<Handle>::Type*>(handle);
}
template<typename Handle>
Handle* handle_of(typename ObjectOf<Handle>::Type* object) noexcept {
    return reinterpret_cast<Handle*>(object);
}

// The default one for callers that give none.
inline const ConnConfig& config_of(const rpma_conn_cfg* config) noexcept {
    static const ConnConfig standard;
    return config == nullptr ? standard : *object_of(config);
}

// The arguments of what takes completions; who asks for one may not want to be told how many there were.
inline bool can_take(const rpma_cq* cq, int max, const ibv_wc* completions, const int* taken) noexcept {
    return cq != nullptr && completions != nullptr && max >= 1 && (max == 1 || taken != nullptr);
}

// The log tells why a call fails.
struct Rpma : Facade<Rpma> {
    using Code = int;
    static constexpr Code kDone = 0;
    static Code fail(const Error& error, const Where& where) noexcept {
        log_error(error, where);
        return code_of(error);
    }
};

// What BODY makes, a Result of a unique_ptr, becomes the program's.
template<typename Handle, typename Body>
int give(Handle** handle, Body&& body, const Where& where = {}) noexcept {
    return Rpma::answer(
        [&]() -> Result<void> {
            auto made = body();
            if (!made) {
                return std::move(made).error();
            }
            *handle = handle_of<Handle>(made->release());
            return {};
        },
        where);
}

[[gnu::noinline]] inline int refuse_wait(int os_errno, const Where& where) noexcept {
    return Rpma::fail(Error::from_errno(os_errno, "waiting for an event"), where);
}

// Calls LOOK, which gives a code, until it has FOUND something, and sleeps on FD in between, where the thread
// may be cancelled. LOOK is no part of this frame, in which nothing is to be destroyed while it sleeps.
template<typename Found, typename Asked>
int find_or_sleep(int fd, Found& found, int (*look)(Found& found, const Asked& asked) noexcept,
                  const Asked& asked, const Where& where = {}) {
    for (;;) {
        if (const int code = look(found, asked); code != 0 || found) {
            return code;
        }
        if (const int slept = sleep_on(fd); slept != 0) {
            return slept == EAGAIN || slept == EINTR ? RPMA_E_NO_EVENT : refuse_wait(slept, where);
        }
    }
}

// The same for what needs nothing but memory.
template<typename Handle>
int give_new(Handle** handle, const Where& where = {}) noexcept {
    using Type = typename ObjectOf<Handle>::Type;
    if (handle == nullptr) {
        return RPMA_E_INVAL;
    }
    return give(
        handle, [] { return Result<std::unique_ptr<Type>>(std::make_unique<Type>()); }, where);
}

// Takes an object back from the program, and CLOSES it, which gives a Result, if it is there.
template<typename Handle, typename Close>
int take_back(Handle** handle, Close&& close, const Where& where = {}) noexcept {
    if (handle == nullptr) {
        return RPMA_E_INVAL;
    }
    if (*handle == nullptr) {
        return 0;
    }
    const std::unique_ptr<typename ObjectOf<Handle>::Type> object(object_of(std::exchange(*handle, nullptr)));
    return Rpma::answer([&] { return close(*object); }, where);
}

// What needs no closing.
template<typename Handle>
int take_back(Handle** handle) noexcept {
    return take_back(handle, [](auto&) { return Result<void>(); });
}

// A member of a configuration.
template<typename Handle, typename T, typename Value>
int set(Handle* handle, Setting<T> ObjectOf<Handle>::Type::*member, Value value) noexcept {
    if (handle == nullptr) {
        return RPMA_E_INVAL;
    }
    (object_of(handle)->*member).store(value);
    return 0;
}
template<typename Handle, typename T, typename Value>
int get(const Handle* handle, Setting<T> ObjectOf<Handle>::Type::*member, Value* value) noexcept {
    if (handle == nullptr || value == nullptr) {
        return RPMA_E_INVAL;
    }
    *value = (object_of(handle)->*member).load();
    return 0;
}

} // namespace sluice::rpma
