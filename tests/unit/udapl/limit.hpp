// SPDX-License-Identifier: BSD-3-Clause
//
// Less of a resource than the process may have, for a part of a test. Nothing is asserted while it holds: a
// test that fails leaves by longjmp(), past the destructor.
#pragma once

#include <sys/resource.h>

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace sluice::dapl::test {

class Limit {
  public:
    Limit(__rlimit_resource resource, rlim_t most) : resource_(resource) {
        assert_int_equal(getrlimit(resource_, &before_), 0);
        const rlimit lower{most, before_.rlim_max};
        assert_int_equal(setrlimit(resource_, &lower), 0);
    }
    ~Limit() { (void)setrlimit(resource_, &before_); }
    Limit(const Limit&) = delete;
    Limit& operator=(const Limit&) = delete;

  private:
    const __rlimit_resource resource_;
    rlimit before_{};
};

} // namespace sluice::dapl::test
