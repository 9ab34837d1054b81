// SPDX-License-Identifier: BSD-3-Clause
//
// Objects that rxe and siw share, and the way from the public structure to ours. Each of ours
// begins with the public one, so the way down is a cast, and the pointer that a program holds is
// the pointer that the kernel gives back in events.
#pragma once

#include <pthread.h>

#include <atomic>

#include "provider/abi/layout.hpp"
#include "provider/common/context.hpp"

namespace sluice::provider {

// A promise of the program to use what belongs to it from one thread at a time.
struct ThreadDomain : ibv_td {
    std::atomic<int> users{0};
};

// A protection domain of the kernel, or a parent domain: a user-space wrapper around one, that
// may carry a thread domain.
struct ProtectionDomain : ibv_pd {
    ProtectionDomain* parent = nullptr; // of a parent domain: the real one
    ThreadDomain* thread_domain = nullptr;
    std::atomic<int> users{0}; // parent domains that wrap this one, and objects made on a wrapper
    bool imported = false;
};

struct MemoryRegion : abi::VerbsMr {};
struct MemoryWindow : ibv_mw {};

inline ProtectionDomain& domain_of(ibv_pd* pd) noexcept {
    return *static_cast<ProtectionDomain*>(pd);
}

// The domain that the kernel knows.
inline ProtectionDomain& kernel_domain_of(ibv_pd* pd) noexcept {
    ProtectionDomain& domain = domain_of(pd);
    return domain.parent != nullptr ? *domain.parent : domain;
}

inline bool is_single_threaded(ibv_pd* pd) noexcept {
    return pd != nullptr && domain_of(pd).thread_domain != nullptr;
}

// Gives ERROR the way that functions returning a pointer do.
template<typename T>
T* fail_with(int error) noexcept {
    errno = error;
    return nullptr;
}

// Waits until the program has acknowledged all EVENTS that the kernel reported for an object.
inline void await_events(pthread_mutex_t& mutex, pthread_cond_t& condition, const std::uint32_t& completed,
                         std::uint32_t events) noexcept {
    pthread_mutex_lock(&mutex);
    while (completed != events) {
        pthread_cond_wait(&condition, &mutex);
    }
    pthread_mutex_unlock(&mutex);
}

} // namespace sluice::provider
