// SPDX-License-Identifier: BSD-3-Clause
//
// CMocka as a C++ test sees it. Its header has no extern "C" and leaves four standard headers
// to the includer; both are settled here, once.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {
#include <cmocka.h>
}
