// SPDX-License-Identifier: BSD-3-Clause
//
// Which region a key belongs to, or did, and where memory is registered.
#include "layers/check/registry.hpp"
#include "tests/cmocka.hpp"

using namespace sluice::layers::check;

namespace {

constexpr std::size_t kMostEnded = 4096;
constexpr std::uint64_t kPiece = std::uint64_t{2} << 20;

// Contexts are only compared.
const ibv_context kDevice = {};
const ibv_context kOtherDevice = {};

std::shared_ptr<Region> region(std::uint32_t local_key, std::uint32_t remote_key,
                               const ibv_context* context = &kDevice) {
    auto made = std::make_shared<Region>();
    made->context = context;
    made->local_key = local_key;
    made->remote_key = remote_key;
    return made;
}

TEST(keys__put__found_by_each_key_in_its_own_table) {
    Keys keys;
    const auto made = region(10, 20);
    keys.put(made);
    assert_ptr_equal(keys.by_local(&kDevice, 10).get(), made.get());
    assert_ptr_equal(keys.by_remote(&kDevice, 20).get(), made.get());
    assert_null(keys.by_local(&kDevice, 20).get());
    assert_null(keys.by_remote(&kDevice, 10).get());
    assert_null(keys.ended(&kDevice, 10).get());
}

TEST(keys__same_key_of_another_device__another_region) {
    Keys keys;
    const auto made = region(10, 20);
    const auto other = region(10, 20, &kOtherDevice);
    keys.put(made);
    assert_null(keys.by_local(&kOtherDevice, 10).get());
    keys.put(other);
    assert_ptr_equal(keys.by_local(&kDevice, 10).get(), made.get());
    assert_ptr_equal(keys.by_local(&kOtherDevice, 10).get(), other.get());
    keys.end(other);
    assert_null(keys.ended(&kDevice, 10).get());
    assert_ptr_equal(keys.ended(&kOtherDevice, 10).get(), other.get());
    assert_ptr_equal(keys.by_local(&kDevice, 10).get(), made.get());
}

TEST(keys__ended__found_among_the_ended_by_both_keys) {
    Keys keys;
    const auto made = region(10, 20);
    keys.put(made);
    keys.end(made);
    assert_null(keys.by_local(&kDevice, 10).get());
    assert_null(keys.by_remote(&kDevice, 20).get());
    assert_ptr_equal(keys.ended(&kDevice, 10).get(), made.get());
    assert_ptr_equal(keys.ended(&kDevice, 20).get(), made.get());
    assert_null(keys.ended(&kDevice, 30).get());
}

TEST(keys__given_to_a_new_region_before_the_old_is_ended__the_new_one_stays) {
    Keys keys;
    const auto old = region(10, 20);
    const auto successor = region(10, 20);
    keys.put(old);
    keys.put(successor);
    keys.end(old);
    assert_ptr_equal(keys.by_local(&kDevice, 10).get(), successor.get());
    assert_ptr_equal(keys.by_remote(&kDevice, 20).get(), successor.get());
    assert_ptr_equal(keys.ended(&kDevice, 10).get(), old.get());
}

TEST(keys__ended_twice__the_last_one) {
    Keys keys;
    const auto old = region(10, 20);
    const auto successor = region(10, 20);
    keys.put(old);
    keys.end(old);
    keys.put(successor);
    keys.end(successor);
    assert_ptr_equal(keys.ended(&kDevice, 10).get(), successor.get());
}

TEST(keys__more_ended_than_are_remembered__the_oldest_is_forgotten) {
    Keys keys;
    for (std::uint32_t key = 0; key < kMostEnded; ++key) {
        keys.end(region(key, key));
    }
    assert_non_null(keys.ended(&kDevice, 0).get());
    keys.end(region(kMostEnded, kMostEnded));
    assert_null(keys.ended(&kDevice, 0).get());
    assert_non_null(keys.ended(&kDevice, 1).get());
    assert_non_null(keys.ended(&kDevice, kMostEnded).get());
}

TEST(touched__nothing_registered__certainly_not) {
    const auto touched = std::make_unique<Touched>();
    assert_false(touched->may_overlap(0, 1));
    assert_false(touched->may_overlap(0, 100 * kPiece));
}

TEST(touched__a_range__its_pieces_and_not_their_neighbours) {
    const auto touched = std::make_unique<Touched>();
    touched->add(10 * kPiece + 5, 2 * kPiece);
    assert_false(touched->may_overlap(9 * kPiece, kPiece));
    assert_true(touched->may_overlap(9 * kPiece, kPiece + 1));
    assert_true(touched->may_overlap(10 * kPiece + 5, 1));
    assert_true(touched->may_overlap(11 * kPiece, 0));
    assert_true(touched->may_overlap(13 * kPiece - 1, 1));
    assert_false(touched->may_overlap(13 * kPiece, kPiece));
    assert_true(touched->may_overlap(0, 100 * kPiece));
}

TEST(touched__ends_with_a_piece__not_the_next_one) {
    const auto touched = std::make_unique<Touched>();
    touched->add(10 * kPiece, kPiece);
    assert_true(touched->may_overlap(11 * kPiece - 1, 1));
    assert_false(touched->may_overlap(11 * kPiece, 1));
}

TEST(touched__each_word_and_bit__alone) {
    for (const std::uint64_t piece : {0, 1, 63, 64, 65, 4095, 65'535}) {
        const auto touched = std::make_unique<Touched>();
        touched->add(piece * kPiece, 1);
        for (const std::uint64_t other : {0, 1, 63, 64, 65, 4095, 65'535}) {
            assert_int_equal(touched->may_overlap(other * kPiece, 1), other == piece);
        }
    }
}

TEST(touched__asked_for_all_memory__answered_at_once) {
    const auto touched = std::make_unique<Touched>();
    assert_true(touched->may_overlap(0, ~std::uint64_t{0}));
    assert_true(touched->may_overlap(5 * kPiece, ~std::uint64_t{0} - 6 * kPiece));
}

TEST(touched__as_much_as_there_are_bits__everything) {
    const auto touched = std::make_unique<Touched>();
    touched->add(0, 65'536 * kPiece + 1);
    assert_true(touched->may_overlap(std::uint64_t{1} << 60, 1));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
