// SPDX-License-Identifier: BSD-3-Clause
//
// What a command writes to a file of the user's choice, or to standard output.
#pragma once

#include <fstream>
#include <string>

namespace sluice::tools {

class OutputFile {
  public:
    // COMMAND is for messages; NAME a file, or "-". It is opened at once, before anything is started that
    // takes long. Throws a Failure.
    OutputFile(std::string command, std::string name);

    std::ostream& stream();
    std::string shown() const { return name_ == "-" ? "standard output" : name_; }
    // Throws a Failure where something couldn't be written.
    void finish();

  private:
    const std::string command_;
    const std::string name_;
    std::ofstream file_;
};

} // namespace sluice::tools
