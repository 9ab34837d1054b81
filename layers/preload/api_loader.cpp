// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before dlopen(): a program that names libibverbs or librdmacm by its path gets the drop-in for
// it.
//
// The loader looks at its caller's search path and namespace. So every other call is passed on by a jump, and
// the caller stays the caller. Compilers make that jump when they optimize, as CMakeLists.txt has
// them do for this file; preload.loader_of_others fails without it.
#include <dlfcn.h>

#include "layers/hooks/next.hpp"
#include "layers/preload/drop_ins.hpp"

using sluice::layers::hooks::Next;
using sluice::layers::preload::may_have_drop_in;
using sluice::layers::preload::open_drop_in;

#if defined(__clang__)
#define SLUICE_JUMP [[clang::musttail]] return
#else
#define SLUICE_JUMP return
#endif

namespace {

using Open = void*(const char*, int) noexcept;

Open* opener_of(const char* file) noexcept {
    static constinit Next<Open> next("dlopen");
    return may_have_drop_in(file) ? open_drop_in : next.get();
}

} // namespace

extern "C" __attribute__((visibility("default"))) void* dlopen(const char* file, int mode) noexcept {
    SLUICE_JUMP opener_of(file)(file, mode);
}
