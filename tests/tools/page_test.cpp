// SPDX-License-Identifier: BSD-3-Clause
//
// Pages: what strangers wrote stays text in them.
#include "tools/page/page.hpp"

#include <sstream>

// Last: see there.
#include "tests/tools/run_command.hpp"

using namespace sluice::test;
namespace page = sluice::tools::page;

namespace {

TEST(page__text_of_strangers__stays_text) {
    assert_string_equal(page::escaped("<a href=\"x\" id='y'>&").c_str(),
                        "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;");
    const std::string json = page::script_json({{"x", "</script><!-- \xff \\u003c"}});
    assert_true(json.find('<') == std::string::npos);
    assert_string_equal(Json::parse(json)["x"].get<std::string>().c_str(),
                        "</script><!-- \xef\xbf\xbd \\u003c");
    std::ostringstream out;
    page::write(out, {.title = "</title><b>", .style = {}, .body = {}, .script = {}}, Json::array());
    assert_lacks(out.str(), "<b>");
    assert_contains(out.str(), "default-src 'none'");
}

} // namespace

int main() {
    return sluice::test::run_all_tests("tools.page");
}
