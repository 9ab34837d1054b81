// SPDX-License-Identifier: BSD-3-Clause
//
// Gives each file of the directories on the command line to the fuzzer's entry point, once; so
// every build, sanitized or not, sees what a fuzzer has found before.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>

#include "tests/unit/roce/pcap.hpp"

// The name is libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

int replay(int argc, char** argv) {
    int files = 0;
    for (int i = 1; i < argc; ++i) {
        for (const std::string& path : sluice::roce::test::files_of(argv[i], "")) {
            const auto bytes = sluice::roce::test::read_file(path);
            // A block of exactly this size: a sanitizer sees one byte too many.
            const auto exact = std::make_unique<std::uint8_t[]>(bytes.size());
            std::copy(bytes.begin(), bytes.end(), exact.get());
            LLVMFuzzerTestOneInput(exact.get(), bytes.size());
            ++files;
        }
    }
    std::printf("%d files replayed\n", files);
    return files > 0 ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
    try {
        return replay(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
