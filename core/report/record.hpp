// SPDX-License-Identifier: BSD-3-Clause
//
// How what `sluice check` is told is written: lines of a word and a text (file/words.hpp), appended to a
// file.
//
// Thread safety: everything may be called from any thread.
#pragma once

#include <string>

namespace sluice::report {

// RECORD, of whole lines, in one piece, as other processes append, too; behind the end of a line, since what
// stands there may have been cut off. FILE is opened each time: programs close descriptors that they don't
// know.
void append(const char* file, const std::string& record);

} // namespace sluice::report
