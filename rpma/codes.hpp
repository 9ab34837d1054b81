// SPDX-License-Identifier: BSD-3-Clause
//
// librpma's codes, and what its events are called. Beside the checks of arguments in api_*.cpp, codes are
// named here and in codes.cpp alone: objects give a Result, and on the data path, where a Result would cost
// more than the post itself, an Answer.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "rpma/include/librpma.h"

namespace sluice::rpma {

enum class Answer : std::uint8_t {
    kDone,
    kInvalid,       // an argument: no flags, or a range outside of its region
    kNotSupported,  // by the peer's region
    kRefused,       // by the device; the log has the errno
    kNoRoom,        // for the completion; only where credits are counted
    kNoCompletion,  // there is none yet
    kSharedChannel, // completions are announced there, and not at this queue
    kForeign, // the device names a queue that isn't the connection's, or more completions than were asked for
};

constexpr int code_of(Answer answer) noexcept {
    switch (answer) {
    case Answer::kDone:
        return 0;
    case Answer::kInvalid:
        return RPMA_E_INVAL;
    case Answer::kNotSupported:
        return RPMA_E_NOSUPP;
    case Answer::kRefused: // a full queue says ENOMEM, and there is memory enough
        return RPMA_E_PROVIDER;
    case Answer::kNoRoom:
        return RPMA_E_AGAIN;
    case Answer::kNoCompletion:
        return RPMA_E_NO_COMPLETION;
    case Answer::kSharedChannel:
        return RPMA_E_SHARED_CHANNEL;
    case Answer::kForeign:
        break;
    }
    return RPMA_E_UNKNOWN;
}

// What the system or the device refused is RPMA_E_PROVIDER, whatever its reason was, but that there is no
// memory.
int code_of(const Error& error) noexcept;

// Never null, whatever number EVENT has.
const char* text_of(rpma_conn_event event) noexcept;

} // namespace sluice::rpma
