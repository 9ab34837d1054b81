// SPDX-License-Identifier: BSD-3-Clause
//
// How long uroce's connection manager and queue pairs wait for a peer that doesn't answer: minutes and half a
// minute, unless told otherwise. One source of a program includes it.
#pragma once

#include <dlfcn.h>
#include <sluice/sluice.h>

#include <cstddef>
#include <cstdint>

namespace sluice::dapl::test {

inline std::uint32_t connect_timeout_ms = 0; // 0: what it is
inline std::uint8_t ack_timeout = 0;         // a code; the same

} // namespace sluice::dapl::test

// Of libsluice, which our provider calls.
extern "C"
    [[gnu::visibility("default")]] void // NOLINTNEXTLINE(misc-definitions-in-headers): one source has it
    sluice_cm_default_params(sluice_cm_params* params, std::size_t size) {
    using Function = void (*)(sluice_cm_params*, std::size_t);
    static const auto original =
        reinterpret_cast<Function>(dlsym(dlopen("libsluice.so.1", RTLD_NOW), "sluice_cm_default_params"));
    original(params, size);
    params->timeout_ms = sluice::dapl::test::connect_timeout_ms;
    params->qp_timeout = sluice::dapl::test::ack_timeout;
}
