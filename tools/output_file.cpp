// SPDX-License-Identifier: BSD-3-Clause
#include "tools/output_file.hpp"

#include <cerrno>
#include <cstring>
#include <iostream>
#include <utility>

#include "tools/output.hpp"

namespace sluice::tools {

OutputFile::OutputFile(std::string command, std::string name)
    : command_(std::move(command)), name_(std::move(name)) {
    if (name_ != "-") {
        file_.open(name_, std::ios::binary | std::ios::trunc);
        if (!file_) {
            throw Failure(kExitFailure, command_ + ": " + name_ + ": " + std::strerror(errno));
        }
    }
}

std::ostream& OutputFile::stream() {
    return file_.is_open() ? file_ : std::cout;
}

void OutputFile::finish() {
    flush_or_fail(stream(), command_ + ": " + shown());
}

} // namespace sluice::tools
