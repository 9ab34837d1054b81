// SPDX-License-Identifier: BSD-3-Clause
//
// A page of HTML in one file, which shows data that strangers wrote.
//
// Data lie in a block that browsers don't execute, scripts take them as text, and the page's policy lets
// nothing be loaded from anywhere.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>

namespace sluice::tools::page {

using Json = nlohmann::ordered_json;

// TEXT, to stand between tags or in an attribute.
std::string escaped(std::string_view text);

// VALUE, to stand in a <script>: nothing in it ends that. Bytes that are no UTF-8 are replaced.
std::string script_json(const Json& value);

struct Page {
    std::string_view title;  // any text
    std::string_view style;  // CSS of our own, behind the style that all pages have
    std::string_view body;   // HTML of our own
    std::string_view script; // of our own; it finds the data in the element "data"
};

void write(std::ostream& out, const Page& page, const Json& data);

} // namespace sluice::tools::page
