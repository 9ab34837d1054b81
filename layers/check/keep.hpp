// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "core/boundary.hpp"

namespace sluice::layers::check {

// The table forgets an object before its call: another thread may get the same address behind it.
template<typename Table, typename Key, typename Record>
int keep_unless(int error, Table& table, const Key& key, const std::shared_ptr<Record>& record) noexcept {
    if (error != 0 && record != nullptr) {
        (void)at_boundary("check", [&]() -> Result<void> {
            table.put(key, record);
            return {};
        });
    }
    return error;
}

} // namespace sluice::layers::check
