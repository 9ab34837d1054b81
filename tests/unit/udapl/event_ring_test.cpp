// SPDX-License-Identifier: BSD-3-Clause
//
// The ring of a dispatcher's events.
#include "udapl/provider/event_ring.hpp"

#include <cstdint>

#include "tests/cmocka.hpp"

using namespace sluice::dapl;

namespace {

Event numbered(std::uint64_t number, bool is_quiet = false) {
    Event event;
    event.cookie = number;
    event.is_quiet = is_quiet;
    return event;
}

TEST(event_ring__pushed__popped_in_order) {
    EventRing ring(3);
    for (std::uint64_t number = 0; number < 100; ++number) {
        ring.push(numbered(number));
        ring.push(numbered(number + 1000));
        assert_int_equal(ring.pop().cookie, number);
        assert_int_equal(ring.pop().cookie, number + 1000);
    }
    assert_int_equal(ring.count(), 0);
}

TEST(event_ring__at_its_length__room_is_left_for_completions_only) {
    EventRing ring(1);
    ring.resize(1, 2);
    ring.push(numbered(0));
    assert_true(ring.is_full());
    assert_true(ring.has_room_for_completion());
    ring.push(numbered(1));
    ring.push(numbered(2));
    assert_false(ring.has_room_for_completion());
    assert_int_equal(ring.count(), 3);
}

TEST(event_ring__quiet_events__not_counted_as_notifying) {
    EventRing ring(4);
    ring.push(numbered(0, true));
    ring.push(numbered(1));
    assert_int_equal(ring.notifying(), 1);
    (void)ring.pop();
    assert_int_equal(ring.notifying(), 1);
    (void)ring.pop();
    assert_int_equal(ring.notifying(), 0);
}

TEST(event_ring__newest_made_to_notify__counted_once) {
    EventRing ring(4);
    assert_false(ring.make_newest_notify());
    ring.push(numbered(0, true));
    ring.push(numbered(1, true));
    assert_true(ring.make_newest_notify());
    assert_false(ring.make_newest_notify());
    assert_int_equal(ring.notifying(), 1);
    assert_true(ring.pop().is_quiet);
    assert_false(ring.pop().is_quiet);
    assert_int_equal(ring.notifying(), 0);
}

TEST(event_ring__resized_while_it_wraps__the_order_stays) {
    EventRing ring(3);
    ring.push(numbered(0));
    ring.push(numbered(1));
    (void)ring.pop();
    ring.push(numbered(2));
    ring.push(numbered(3));
    ring.resize(7, 0);
    assert_int_equal(ring.length(), 7);
    for (std::uint64_t number = 1; number <= 3; ++number) {
        assert_int_equal(ring.pop().cookie, number);
    }
}

TEST(event_ring__endpoint_forgotten__only_its_receives_lose_their_ring) {
    EventRing ring(2);
    int one = 0;
    int other = 0;
    auto* const counted = reinterpret_cast<DtoRing*>(&ring); // only compared
    for (int* const endpoint : {&one, &other}) {
        Event event = numbered(0);
        event.object = endpoint;
        event.ring = counted;
        ring.push(event);
    }
    ring.forget(&one);
    assert_null(ring.pop().ring);
    assert_ptr_equal(ring.pop().ring, counted);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
