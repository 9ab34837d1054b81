// SPDX-License-Identifier: BSD-3-Clause
//
// Both registries in one process: each exports dat_registry_add_provider(), and libdat2 loads its providers
// so that their names are everybody's. Each provider goes to its own registry all the same.
#include "tests/unit/udapl/dapl2.hpp"
#include "tests/unit/udapl/dapl_both_first.hpp"

using namespace sluice::dapl2::test;

namespace {

std::uint32_t version_of(const Adapter& adapter) {
    DAT_PROVIDER_ATTR attr{};
    assert_int_equal(
        table_of(adapter.ia).ia_query_func(adapter.ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &attr),
        DAT_SUCCESS);
    return attr.dapl_version_major;
}

TEST(both__second_after_first__each_has_its_registry) {
    const FirstAdapter first(sluice::test::own_address(0));
    const Adapter second(1);
    assert_int_equal(first.version(), 1);
    assert_int_equal(version_of(second), 2);
}

TEST(both__first_after_second__each_has_its_registry) {
    const Adapter second(1);
    const FirstAdapter first(sluice::test::own_address(0));
    assert_int_equal(version_of(second), 2);
    assert_int_equal(first.version(), 1);
}

TEST(both__one_device__handles_are_each_librarys_own) {
    const FirstAdapter first(sluice::test::own_address(0));
    const Adapter second(0);
    assert_false(first.knows(second.ia));
    DAT_HANDLE_TYPE type{};
    assert_int_equal(table_of(second.ia).get_handle_type_func(first.handle(), &type),
                     coded(DAT_INVALID_HANDLE));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
