// SPDX-License-Identifier: BSD-3-Clause
//
// The table holds for C++ programs, from C++11 on: a wrong line doesn't compile.
#include <dat/dat_registry.h>

#include <cstddef>
#include <type_traits>

#define SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type);
#define MEMBER(type, member, offset) static_assert(offsetof(type, member) == (offset), #type "::" #member);
#define VALUE(name, value) static_assert((name) == (value), #name);
#include "tests/unit/udapl/layout_table.h"

// What C++ can't do with the structures of C, it can with ours.
static_assert(std::is_trivially_default_constructible<DAT_PROVIDER_ATTR>::value, "");
static_assert(std::is_copy_assignable<DAT_PROVIDER_ATTR>::value, "");
// The standard writes these with const before the pointer's name, which is no part of the type.
// NOLINTNEXTLINE(misc-misplaced-const)
using Written = DAT_RETURN(DAT_CR_HANDLE, DAT_EP_HANDLE, DAT_COUNT, const DAT_PVOID);
static_assert(std::is_same<decltype(dat_cr_accept), Written>::value, "");
static_assert(std::is_same<std::underlying_type<DAT_MEM_PRIV_FLAGS>::type, int>::value, "");

DAT_OS_WAIT_PROXY_AGENT no_agent();

DAT_OS_WAIT_PROXY_AGENT no_agent() {
    return DAT_OS_WAIT_PROXY_AGENT_NULL;
}
