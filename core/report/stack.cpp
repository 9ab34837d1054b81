// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/stack.hpp"

#include <unwind.h>

namespace sluice::report {

namespace {

using Word = const void* const*; // where a return address was

struct Walk {
    Stack stack;
    std::array<Word, Stack::kMost> words = {};
    bool is_past_us = false; // the first frame is capture() itself
};

// What holds the return address is right below where the frame of the function that was called ends.
Word word_of_return([[maybe_unused]] _Unwind_Context* context) noexcept {
#if defined(__x86_64__)
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the unwinder has numbers
    return reinterpret_cast<Word>(_Unwind_GetCFA(context)) - 1;
#else
    return nullptr;
#endif
}

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* argument) {
    auto& walk = *static_cast<Walk*>(argument);
    if (!walk.is_past_us) {
        walk.is_past_us = true;
        return _URC_NO_REASON;
    }
    const _Unwind_Ptr address = _Unwind_GetIP(context);
    if (address == 0 || walk.stack.count == Stack::kMost) {
        return _URC_END_OF_STACK;
    }
    walk.words[walk.stack.count] = word_of_return(context);
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    walk.stack.addresses[walk.stack.count++] = reinterpret_cast<const void*>(address);
    return _URC_NO_REASON;
}

// The last stack of this thread.
struct Memory {
    const void* frame = nullptr;
    Walk walk;
};
constinit thread_local Memory memory;

// Words further out are looked at only while all before hold what they did: then the thread is in the
// same calls, and the memory is its stack.
bool still_holds(const Walk& walk) noexcept {
    for (std::size_t i = 0; i < walk.stack.count; ++i) {
        if (walk.words[i] == nullptr || *walk.words[i] != walk.stack.addresses[i]) {
            return false;
        }
    }
    return walk.stack.count != 0;
}

struct FaultWalk {
    Stack stack;
    bool is_past_handler = false;
};

_Unwind_Reason_Code take_interrupted(_Unwind_Context* context, void* argument) {
    auto& walk = *static_cast<FaultWalk*>(argument);
    int is_interrupted = 0; // by a signal, and not left by a call
    _Unwind_Ptr address = _Unwind_GetIPInfo(context, &is_interrupted);
    walk.is_past_handler = walk.is_past_handler || is_interrupted != 0;
    if (!walk.is_past_handler) {
        return _URC_NO_REASON;
    }
    if (address == 0 || walk.stack.count == Stack::kMost) {
        return _URC_END_OF_STACK;
    }
    address += is_interrupted != 0 ? 1 : 0;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    walk.stack.addresses[walk.stack.count++] = reinterpret_cast<const void*>(address);
    return _URC_NO_REASON;
}

} // namespace

Stack capture_fault() noexcept {
    FaultWalk walk;
    (void)_Unwind_Backtrace(take_interrupted, &walk);
    return walk.stack;
}

// Not inlined: its own frame is the first.
[[gnu::noinline]] Stack capture() noexcept {
    const void* const frame = __builtin_frame_address(0);
    if (memory.frame == frame && still_holds(memory.walk)) {
        return memory.walk.stack;
    }
    memory = {};
    (void)_Unwind_Backtrace(take_frame, &memory.walk);
    memory.frame = frame;
    return memory.walk.stack;
}

} // namespace sluice::report
