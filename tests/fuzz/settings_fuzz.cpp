// SPDX-License-Identifier: BSD-3-Clause
//
// Texts of uroce's settings: the first byte chooses the parser. What is accepted is used, and what is
// refused must say so in a line that may go to a terminal.
#include <net/if.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "roce/socket/address_list.hpp"
#include "roce/socket/faults.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::socket;

namespace {

void must(bool holds) {
    if (!holds) {
        std::abort();
    }
}

void check_error(const sluice::Error& error) {
    must(error.kind() == sluice::ErrorKind::kInvalidArgument);
    must(std::all_of(error.text(), error.text() + std::strlen(error.text()),
                     [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != '\x7f'; }));
}

void check_faults(const std::string& text) {
    auto first = FaultSchedule::parse(text.c_str());
    if (!first) {
        check_error(first.error());
        return;
    }
    auto second = FaultSchedule::parse(text.c_str());
    for (unsigned i = 0; i < 64; ++i) {
        std::array<std::uint8_t, 16> header{};
        header[0] = static_cast<std::uint8_t>(i);
        header[12] = static_cast<std::uint8_t>(i << 5);
        const SendVerdict a = first->on_send(header);
        const SendVerdict b = second->on_send(header);
        must(a.drop == b.drop && a.delay == b.delay && a.delay <= 60000000000);
        must(first->on_completion().stall == second->on_completion().stall);
    }
}

void check_addresses(const std::string& text) {
    const auto list = parse_device_list(text.c_str());
    if (!list) {
        check_error(list.error());
        return;
    }
    must(list->addresses.size() <= kMostDevices);
    for (const DeviceAddress& one : list->addresses) {
        must(one.number < kMostDevices && std::ranges::count(list->addresses, one) == 1);
    }
    for (const std::string& one : list->interfaces) {
        must(one.size() < IF_NAMESIZE && std::ranges::count(list->interfaces, one) == 1);
    }
}

} // namespace

// The name is libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
    data[0] % 2 == 0 ? check_faults(text) : check_addresses(text);
    return 0;
}
