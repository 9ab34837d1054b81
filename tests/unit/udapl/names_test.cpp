// SPDX-License-Identifier: BSD-3-Clause
#include <dat/udat.h>

#include <initializer_list>

#include "tests/cmocka.hpp"

namespace {

struct Code {
    DAT_RETURN value;
    const char* name;
};

const Code kTypes[] = {
#define TYPE(name, value) {value, #name},
#define SUBTYPE(name, value)
#include "tests/unit/udapl/return_codes.h"
#undef TYPE
#undef SUBTYPE
};

const Code kSubtypes[] = {
#define TYPE(name, value)
#define SUBTYPE(name, value) {value, #name},
#include "tests/unit/udapl/return_codes.h"
#undef TYPE
#undef SUBTYPE
};

void assert_texts(DAT_RETURN value, const char* type, const char* subtype) {
    const char* major = nullptr;
    const char* minor = nullptr;
    assert_int_equal(dat_strerror(value, &major, &minor), DAT_SUCCESS);
    assert_string_equal(major, type);
    assert_string_equal(minor, subtype);
}

TEST(strerror__every_type_with_every_subtype__identifiers) {
    for (const Code& type : kTypes) {
        for (const Code& subtype : kSubtypes) {
            const char* const text = subtype.value == DAT_NO_SUBTYPE ? "" : subtype.name;
            assert_texts(type.value | subtype.value, type.name, text);
            assert_texts(DAT_CLASS_ERROR | type.value | subtype.value, type.name, text);
            assert_texts(DAT_CLASS_WARNING | type.value | subtype.value, type.name, text);
        }
    }
}

TEST(strerror__status_of_a_data_transfer__is_no_error) {
    for (int status = DAT_DTO_SUCCESS; status <= DAT_RMR_OPERATION_FAILED; ++status) {
        const char* major = nullptr;
        const char* minor = nullptr;
        assert_int_equal(dat_strerror(static_cast<DAT_RETURN>(status), &major, &minor), DAT_SUCCESS);
        assert_string_equal(major, "DAT_SUCCESS");
    }
}

TEST(strerror__number_that_means_nothing__invalid_parameter_and_nothing_written) {
    for (DAT_RETURN value :
         {0x00150000U, 0x0ffe0000U, 0x3fff0000U, 103U, 0xffffU, 0x00050067U, 0xffffffffU}) {
        const char* major = "kept";
        const char* minor = "kept";
        assert_int_equal(dat_strerror(value, &major, &minor),
                         DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG1);
        assert_string_equal(major, "kept");
        assert_string_equal(minor, "kept");
    }
}

TEST(strerror__null__invalid_parameter) {
    const char* text = nullptr;
    assert_int_equal(dat_strerror(DAT_SUCCESS, nullptr, &text),
                     DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG2);
    assert_int_equal(dat_strerror(DAT_SUCCESS, &text, nullptr),
                     DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG3);
    assert_null(text);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
