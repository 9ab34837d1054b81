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

void push(EventRing& ring, const Event& event) {
    ring.next() = event;
    ring.push();
}

Event pop(EventRing& ring) {
    const Event event = ring.first();
    ring.drop_first();
    return event;
}

TEST(event_ring__pushed__popped_in_order) {
    EventRing ring(3);
    for (std::uint64_t number = 0; number < 100; ++number) {
        push(ring, numbered(number));
        push(ring, numbered(number + 1000));
        assert_int_equal(pop(ring).cookie, number);
        assert_int_equal(pop(ring).cookie, number + 1000);
    }
    assert_int_equal(ring.count(), 0);
}

TEST(event_ring__at_its_length__room_is_left_for_completions_only) {
    EventRing ring(1);
    ring.resize(1, 2);
    push(ring, numbered(0));
    assert_true(ring.is_full());
    assert_int_equal(ring.room(), 2);
    push(ring, numbered(1));
    push(ring, numbered(2));
    assert_int_equal(ring.room(), 0);
    assert_int_equal(ring.count(), 3);
}

TEST(event_ring__quiet_events__not_counted_as_notifying) {
    EventRing ring(4);
    push(ring, numbered(0, true));
    push(ring, numbered(1));
    assert_int_equal(ring.notifying(), 1);
    (void)pop(ring);
    assert_int_equal(ring.notifying(), 1);
    (void)pop(ring);
    assert_int_equal(ring.notifying(), 0);
}

TEST(event_ring__newest_made_to_notify__counted_once) {
    EventRing ring(4);
    assert_false(ring.make_newest_notify());
    push(ring, numbered(0, true));
    push(ring, numbered(1, true));
    assert_true(ring.make_newest_notify());
    assert_false(ring.make_newest_notify());
    assert_int_equal(ring.notifying(), 1);
    assert_true(pop(ring).is_quiet);
    assert_false(pop(ring).is_quiet);
    assert_int_equal(ring.notifying(), 0);
}

TEST(event_ring__resized_while_it_wraps__the_order_stays) {
    EventRing ring(3);
    push(ring, numbered(0));
    push(ring, numbered(1));
    (void)pop(ring);
    push(ring, numbered(2));
    push(ring, numbered(3));
    ring.resize(7, 0);
    assert_int_equal(ring.length(), 7);
    for (std::uint64_t number = 1; number <= 3; ++number) {
        assert_int_equal(pop(ring).cookie, number);
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
        push(ring, event);
    }
    ring.forget(&one);
    assert_null(pop(ring).ring);
    assert_ptr_equal(pop(ring).ring, counted);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
