// SPDX-License-Identifier: BSD-3-Clause
//
// The test's own imports, replaced under its feet.
#include "layers/cmdev/imports.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <array>

#include "tests/cmocka.hpp"

using namespace sluice::layers::cmdev;

namespace {

constexpr pid_t kNobody = 42;

pid_t nobody() {
    return kNobody;
}

template<typename Function>
void* address_of(Function* function) {
    return reinterpret_cast<void*>(function);
}

// The first of all libraries is the program.
const link_map& own_map() {
    return *static_cast<const link_map*>(dlopen(nullptr, RTLD_LAZY));
}

void* real_getppid() {
    return dlsym(RTLD_NEXT, "getppid");
}

TEST(replace__function_that_is_called__is_the_other_until_it_is_put_back) {
    const pid_t before = getppid();
    const std::array ours = {Import{.name = "getppid", .replacement = address_of(nobody)}};
    assert_int_equal(replace_imports(own_map(), ours, 1), 1);
    assert_int_equal(getppid(), kNobody);
    assert_int_equal(replace_imports(own_map(), ours, 1), 1);
    assert_int_equal(getppid(), kNobody);
    const std::array theirs = {Import{.name = "getppid", .replacement = real_getppid()}};
    assert_int_equal(replace_imports(own_map(), theirs, 1), 1);
    assert_int_equal(getppid(), before);
}

TEST(replace__fewer_than_needed__none_is) {
    const pid_t before = getppid();
    const std::array ours = {Import{.name = "getppid", .replacement = address_of(nobody)},
                             Import{.name = "nobody_imports_this", .replacement = address_of(nobody)}};
    assert_int_equal(replace_imports(own_map(), ours, 2), 1);
    assert_int_equal(getppid(), before);
}

TEST(replace__in_another_library__leaves_ours_alone) {
    const pid_t before = getppid();
    void* const librdmacm = dlopen("librdmacm.so.1", RTLD_LAZY);
    assert_non_null(librdmacm);
    const std::array ours = {Import{.name = "getppid", .replacement = address_of(nobody)}};
    assert_int_equal(replace_imports(*static_cast<const link_map*>(librdmacm), ours, 0), 0);
    assert_int_equal(getppid(), before);
    assert_int_equal(dlclose(librdmacm), 0);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("layers.imports");
}
