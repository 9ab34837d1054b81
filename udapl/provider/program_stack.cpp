// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/program_stack.hpp"

#include <dlfcn.h>

#include <string_view>

namespace sluice::dapl {

namespace {

// Whether the program's author isn't interested in what is at ADDRESS: this library, the registry before it,
// and libc, which accesses memory for the program. A finding is known by where the program is.
bool is_between(const void* address) noexcept {
    Dl_info own{};
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(&is_between), &own) == 0 || dladdr(address, &info) == 0) {
        return false;
    }
    std::string_view name = info.dli_fname;
    name = name.substr(name.rfind('/') + 1);
    return info.dli_fbase == own.dli_fbase || name.starts_with("libdat") || name.starts_with("libc.so");
}

} // namespace

report::Stack of_program(const report::Stack& stack) noexcept {
    report::Stack rest;
    for (const void* each : stack.frames()) {
        if (rest.count != 0 || !is_between(each)) {
            rest.addresses[rest.count++] = each;
        }
    }
    return rest.count != 0 ? rest : stack;
}

} // namespace sluice::dapl
