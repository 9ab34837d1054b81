// SPDX-License-Identifier: BSD-3-Clause
//
// The drivers that /etc/sluice/sluice.conf names for us, in a line "provider = rxe siw".
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "provider/claim.hpp"

namespace sluice::provider {

namespace {

constexpr const char* kFile = "/etc/sluice/sluice.conf";
constexpr std::string_view kBlanks = " \t\r";

std::string_view trim(std::string_view text) noexcept {
    const auto first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) {
        return {};
    }
    return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool has_word(std::string_view text, std::string_view word) noexcept {
    while (!(text = trim(text)).empty()) {
        const auto end = text.find_first_of(" \t,");
        if (text.substr(0, end) == word) {
            return true;
        }
        text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    }
    return false;
}

} // namespace

bool text_names_driver(std::string_view text, Driver driver) noexcept {
    while (!text.empty()) {
        const auto end = text.find('\n');
        const std::string_view whole = text.substr(0, end);
        const std::string_view line = whole.substr(0, whole.find('#'));
        const auto equals = line.find('=');
        if (equals != std::string_view::npos && trim(line.substr(0, equals)) == "provider" &&
            has_word(line.substr(equals + 1), driver_name(driver))) {
            return true;
        }
        text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    }
    return false;
}

bool configuration_names_driver(Driver driver) noexcept {
    const int fd = open(kFile, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    char text[8192];
    const ssize_t length = read(fd, text, sizeof text);
    close(fd);
    return length > 0 && text_names_driver({text, static_cast<std::size_t>(length)}, driver);
}

} // namespace sluice::provider
