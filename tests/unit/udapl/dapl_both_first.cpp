// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/udapl/dapl_both_first.hpp"

#include <dat/udat.h>

namespace sluice::dapl2::test {

FirstAdapter::FirstAdapter(std::string name) {
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    if (dat_ia_open(name.data(), 8, &async_evd, &ia_) != DAT_SUCCESS) {
        ia_ = nullptr;
    }
}

FirstAdapter::~FirstAdapter() {
    dat_ia_close(ia_, DAT_CLOSE_ABRUPT_FLAG);
}

std::uint32_t FirstAdapter::version() const {
    DAT_PROVIDER_ATTR attr{};
    const DAT_RETURN status = dat_ia_query(ia_, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &attr);
    return status == DAT_SUCCESS ? attr.dapl_version_major : 0;
}

bool FirstAdapter::knows(void* handle) const {
    DAT_HANDLE_TYPE type{};
    return dat_get_handle_type(handle, &type) == DAT_SUCCESS;
}

} // namespace sluice::dapl2::test
