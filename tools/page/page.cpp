// SPDX-License-Identifier: BSD-3-Clause
#include "tools/page/page.hpp"

#include "tools/page/page.css.hpp"

namespace sluice::tools::page {

namespace {

constexpr std::string_view kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'";

std::string_view entity(char character) {
    switch (character) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return {};
    }
}

} // namespace

std::string escaped(std::string_view text) {
    std::string result;
    for (const char character : text) {
        const std::string_view name = entity(character);
        name.empty() ? result.push_back(character) : void(result.append(name));
    }
    return result;
}

// In JSON a '<' stands in texts only.
std::string script_json(const Json& value) {
    std::string result;
    for (const char character : value.dump(-1, ' ', false, Json::error_handler_t::replace)) {
        character == '<' ? void(result.append("\\u003c")) : result.push_back(character);
    }
    return result;
}

void write(std::ostream& out, const Page& page, const Json& data) {
    out << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        << "<meta http-equiv=\"Content-Security-Policy\" content=\"" << kPolicy << "\">\n"
        << "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        << "<meta name=\"color-scheme\" content=\"light dark\">\n"
        << "<title>" << escaped(page.title) << "</title>\n"
        << "<style>\n"
        << kPageCss << page.style << "</style>\n</head>\n<body>\n"
        << page.body << "<script type=\"application/json\" id=\"data\">" << script_json(data)
        << "</script>\n<script>\n"
        << page.script << "</script>\n</body>\n</html>\n";
}

} // namespace sluice::tools::page
