// SPDX-License-Identifier: BSD-3-Clause
//
// The attributes of a queue pair: which of them a change of state needs and allows (IBTA vol 1,
// 11.2.5.2), which values make sense, and what the engine is told of them. Pure functions.
#pragma once

#include <optional>

#include "provider/uroce/roce.hpp"
#include "provider/uroce/verbs/objects.hpp"

namespace sluice::uroce::verbs {

// The engine's type for NUMBER, of enum ibv_qp_type; none when the engine has no such transport.
std::optional<engine::QpType> type_of(std::uint32_t number) noexcept;
ibv_qp_state to_ibv(engine::QpState state) noexcept;
std::optional<engine::QpState> to_engine(ibv_qp_state state) noexcept;

// Whether what MASK names of the enumerations is one of their values: nothing else may be read as one.
bool are_values(const ibv_qp_attr& attr, int mask) noexcept;
// MASK without what is of no use to the type. The kernel ignores so much, and programs rely on it: perftest
// gives both of XRC's ends all attributes of RC.
int used_mask(engine::QpType type, int mask) noexcept;
// 0, or EINVAL when there is no such change of state, an attribute is missing, or one too many.
int check_mask(engine::QpType type, ibv_qp_state from, ibv_qp_state to, const ibv_qp_attr& attr,
               int mask) noexcept;
// 0, or EINVAL when an attribute that MASK names has an impossible value.
int check_values(const ibv_qp_attr& attr, int mask, const device::Device& device) noexcept;
// What MASK names, from CHANGES into ATTR.
void merge(ibv_qp_attr& attr, const ibv_qp_attr& changes, int mask) noexcept;
engine::QpAttributes to_engine(const ibv_qp_attr& attr, engine::QpType type,
                               const device::LocalAddress& where, const engine::Address& local) noexcept;

} // namespace sluice::uroce::verbs
