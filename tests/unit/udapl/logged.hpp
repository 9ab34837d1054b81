// SPDX-License-Identifier: BSD-3-Clause
//
// What a call writes to the log, which is standard error unless a program changes it.
#pragma once

#include <dat/udat.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace sluice::dapl::test {

struct Logged {
    DAT_RETURN status;
    std::string text;
};

// CALL gives a DAT_RETURN, and asserts nothing: a test that fails leaves by longjmp(), with standard error
// still redirected.
template<typename Call>
Logged logged_by(Call&& call) {
    const int log = memfd_create("log", MFD_CLOEXEC);
    const int original = dup(STDERR_FILENO);
    assert_true(log >= 0 && original >= 0);
    assert_int_equal(dup2(log, STDERR_FILENO), STDERR_FILENO);
    Logged logged{call(), ""};
    assert_int_equal(dup2(original, STDERR_FILENO), STDERR_FILENO);
    close(original);
    logged.text.resize(static_cast<std::size_t>(lseek(log, 0, SEEK_END)));
    assert_int_equal(pread(log, logged.text.data(), logged.text.size(), 0), logged.text.size());
    close(log);
    return logged;
}

} // namespace sluice::dapl::test
