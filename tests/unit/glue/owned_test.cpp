// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/owned.hpp"

#include "tests/cmocka.hpp"

namespace {

struct Thing {
    int destroyed = 0;
    int answer = 0;
};

int destroy_thing(Thing* thing) {
    ++thing->destroyed;
    return thing->answer;
}

class OwnedThing : public sluice::glue::Owned<Thing, destroy_thing> {
  public:
    explicit OwnedThing(Thing* thing) : Owned(thing) {}
};

int log_lines = 0;

void count_line(void*, int, const char*, const char*) {
    ++log_lines;
}

TEST(owner__goes__destroys_once) {
    Thing thing;
    {
        OwnedThing first(&thing);
        const OwnedThing second = std::move(first);
        assert_ptr_equal(second.get(), &thing);
        assert_null(first.get()); // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
        assert_int_equal(thing.destroyed, 0);
    }
    assert_int_equal(thing.destroyed, 1);
}

TEST(owner__is_assigned_another__destroys_its_own) {
    Thing one;
    Thing two;
    {
        OwnedThing first(&one);
        first = OwnedThing(&two);
        assert_int_equal(one.destroyed, 1);
        assert_int_equal(two.destroyed, 0);
    }
    assert_int_equal(two.destroyed, 1);
}

TEST(destroy__refused__keeps_the_object) {
    Thing thing;
    thing.answer = EBUSY;
    OwnedThing owner(&thing);
    const sluice::Result<void> refused = owner.destroy();
    assert_false(refused.ok());
    assert_int_equal(refused.error().kind(), sluice::ErrorKind::kBusy);
    assert_ptr_equal(owner.get(), &thing);
    thing.answer = 0;
    assert_true(owner.destroy().ok());
    assert_null(owner.get());
    assert_true(owner.destroy().ok());
    assert_int_equal(thing.destroyed, 2);
}

TEST(owner__goes_and_is_refused__is_logged) {
    Thing thing;
    thing.answer = EBUSY;
    log_lines = 0;
    sluice::set_log_sink(count_line, nullptr);
    { const OwnedThing owner(&thing); }
    sluice::set_log_sink(nullptr, nullptr);
    assert_int_equal(log_lines, 1);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
