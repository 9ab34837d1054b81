// SPDX-License-Identifier: BSD-3-Clause
//
// A file that claims to be a recording: read to its end, and each packet described field by field. Both
// must end, within the file and within the bounds that are promised.
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "roce/wire/description.hpp"
#include "tools/capture_file.hpp"
#include "tools/output.hpp"

namespace {

void must(bool holds) {
    if (!holds) {
        std::abort();
    }
}

void describe_all(std::span<const std::uint8_t> datagram) {
    using sluice::roce::wire::Described;
    sluice::roce::wire::Field field;
    Described what = Described::kField;
    for (unsigned i = 0; what == Described::kField; ++i) {
        must(i < 64);
        what = sluice::roce::wire::describe(datagram, i, field);
        must(what != Described::kField ||
             (field.name != nullptr && std::memchr(field.value.data(), 0, field.value.size()) != nullptr));
    }
}

} // namespace

// The name is libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
    try {
        sluice::tools::CaptureFile file(in, "input");
        std::size_t bytes = 0;
        for (sluice::tools::Captured packet; file.next(packet);) {
            must(packet.nanoseconds < 1000000000);
            must((bytes += packet.bytes.size()) <= size);
            describe_all(ip_datagram(packet));
        }
    } catch (const sluice::tools::Failure&) {
        // What can't be understood ends here.
    }
    return 0;
}
