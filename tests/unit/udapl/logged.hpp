// SPDX-License-Identifier: BSD-3-Clause
//
// What a call writes to the log, which is standard error unless a program changes it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace sluice::dapl::test {

template<typename Call>
std::string logged_by(Call&& call) {
    const int log = memfd_create("log", MFD_CLOEXEC);
    const int original = dup(STDERR_FILENO);
    assert_int_equal(dup2(log, STDERR_FILENO), STDERR_FILENO);
    call();
    assert_int_equal(dup2(original, STDERR_FILENO), STDERR_FILENO);
    close(original);
    std::string text(static_cast<std::size_t>(lseek(log, 0, SEEK_END)), '\0');
    assert_int_equal(pread(log, text.data(), text.size(), 0), text.size());
    close(log);
    return text;
}

} // namespace sluice::dapl::test
