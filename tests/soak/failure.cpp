// SPDX-License-Identifier: BSD-3-Clause
#include "tests/soak/failure.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace sluice::test::soak {

Place& place() {
    static Place the_place;
    return the_place;
}

void fail(const char* format, ...) {
    std::array<char, 512> text{};
    std::va_list arguments;
    va_start(arguments, format);
    (void)std::vsnprintf(text.data(), text.size(), format, arguments);
    va_end(arguments);
    std::fprintf(stderr, "soak: step %llu, %s (process %d), round %u, %s: %s\n",
                 static_cast<unsigned long long>(place().step), place().role, getpid(), place().round,
                 place().doing, text.data());
    if (place().let_go != nullptr) {
        place().let_go();
    }
    _exit(1);
}

void must_be_zero(int error, const char* what) {
    if (error != 0) {
        fail("%s: %s", what, std::strerror(error > 0 ? error : errno));
    }
}

void fail_with_errno(const char* what) {
    fail("%s: %s", what, std::strerror(errno));
}

void Patience::look() {
    constexpr auto kOneLook = std::chrono::milliseconds(20);
    const Clock::time_point now = Clock::now();
    if (now - last_ > kOneLook) {
        without_processor_ += now - last_;
    }
    last_ = now;
    if (now - began_ - without_processor_ > limit_) {
        fail("%s within %lld ms", what_, static_cast<long long>(limit_.count()));
    }
}

std::chrono::microseconds Patience::counted() const {
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began_ - without_processor_);
}

} // namespace sluice::test::soak
