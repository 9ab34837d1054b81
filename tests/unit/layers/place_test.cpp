// SPDX-License-Identifier: BSD-3-Clause
//
// What a process is told about its simulated host, by whoever writes its environment.
#include "layers/hosts/place.hpp"

#include <cstring>

#include "tests/cmocka.hpp"

using sluice::Result;
using sluice::layers::hosts::parse_place;
using sluice::layers::hosts::Place;

namespace {

TEST(parse_place__as_the_command_writes_it__all_of_it) {
    const Result<Place> place = parse_place("1:2:18446744073709551615:1000:/dev/shm/a:b");
    assert_true(place.ok());
    assert_int_equal(place->host, 1);
    assert_int_equal(place->hosts, 2);
    assert_true(place->seed == UINT64_MAX);
    assert_int_equal(place->evictions, 1000);
    assert_string_equal(place->directory.c_str(), "/dev/shm/a:b");
}

TEST(parse_place__anything_else__is_refused) {
    for (const char* text : {"", ":", "0:2:1:0", "0:2:1:0:", "0:2:1:0:relative", "2:2:1:0:/d", "0:0:1:0:/d",
                             "0:9:1:0:/d", "-1:2:1:0:/d", "0:2:18446744073709551616:0:/d", "0:2:1:1001:/d",
                             "0: 2:1:0:/d", "0:2:1:0x1:/d", "4294967296:2:1:0:/d"}) {
        const Result<Place> place = parse_place(text);
        if (place.ok()) {
            fail_msg("'%s' is taken", text);
        }
        assert_non_null(strstr(place.error().text(), "SLUICE_SYNC_HOST="));
    }
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
