// SPDX-License-Identifier: BSD-3-Clause
//
// The table of operations that a provider hands to libibverbs, by name.
//
// The table is a plain array of function pointers in alphabetical order, and new operations are
// inserted in the middle: the same operation has another index in each layout. A layout is known
// by its number of slots, which the probe counts. An operation that a layout lacks has no index.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice::abi {

// NAME, and the smallest number of slots of a table that has it (73 is rdma-core v34).
#define SLUICE_ABI_SLOTS(SLOT)                                                                               \
    SLOT(advise_mr, 73)                                                                                      \
    SLOT(alloc_buf, 83)                                                                                      \
    SLOT(alloc_dm, 73)                                                                                       \
    SLOT(alloc_dmah, 79)                                                                                     \
    SLOT(alloc_mw, 73)                                                                                       \
    SLOT(alloc_null_mr, 73)                                                                                  \
    SLOT(alloc_parent_domain, 73)                                                                            \
    SLOT(alloc_pd, 73)                                                                                       \
    SLOT(alloc_td, 73)                                                                                       \
    SLOT(async_event, 73)                                                                                    \
    SLOT(attach_counters_point_flow, 73)                                                                     \
    SLOT(attach_mcast, 73)                                                                                   \
    SLOT(bind_mw, 73)                                                                                        \
    SLOT(close_xrcd, 73)                                                                                     \
    SLOT(cq_event, 73)                                                                                       \
    SLOT(create_ah, 73)                                                                                      \
    SLOT(create_comp_cntr, 93)                                                                               \
    SLOT(create_counters, 73)                                                                                \
    SLOT(create_cq, 73)                                                                                      \
    SLOT(create_cq_ex, 73)                                                                                   \
    SLOT(create_flow, 73)                                                                                    \
    SLOT(create_flow_action_esp, 73)                                                                         \
    SLOT(create_qp, 73)                                                                                      \
    SLOT(create_qp_ex, 73)                                                                                   \
    SLOT(create_rwq_ind_table, 73)                                                                           \
    SLOT(create_srq, 73)                                                                                     \
    SLOT(create_srq_ex, 73)                                                                                  \
    SLOT(create_wq, 73)                                                                                      \
    SLOT(dealloc_dmah, 79)                                                                                   \
    SLOT(dealloc_mw, 73)                                                                                     \
    SLOT(dealloc_pd, 73)                                                                                     \
    SLOT(dealloc_td, 73)                                                                                     \
    SLOT(dereg_mr, 73)                                                                                       \
    SLOT(destroy_ah, 73)                                                                                     \
    SLOT(destroy_comp_cntr, 93)                                                                              \
    SLOT(destroy_counters, 73)                                                                               \
    SLOT(destroy_cq, 73)                                                                                     \
    SLOT(destroy_flow, 73)                                                                                   \
    SLOT(destroy_flow_action, 73)                                                                            \
    SLOT(destroy_qp, 73)                                                                                     \
    SLOT(destroy_rwq_ind_table, 73)                                                                          \
    SLOT(destroy_srq, 73)                                                                                    \
    SLOT(destroy_wq, 73)                                                                                     \
    SLOT(detach_mcast, 73)                                                                                   \
    SLOT(dm_export_dmabuf_fd, 81)                                                                            \
    SLOT(free_buf, 83)                                                                                       \
    SLOT(free_context, 73)                                                                                   \
    SLOT(free_dm, 73)                                                                                        \
    SLOT(get_srq_num, 73)                                                                                    \
    SLOT(import_dm, 75)                                                                                      \
    SLOT(import_mr, 73)                                                                                      \
    SLOT(import_pd, 73)                                                                                      \
    SLOT(inc_comp_cntr, 93)                                                                                  \
    SLOT(inc_err_comp_cntr, 93)                                                                              \
    SLOT(modify_cq, 73)                                                                                      \
    SLOT(modify_flow_action_esp, 73)                                                                         \
    SLOT(modify_qp, 73)                                                                                      \
    SLOT(modify_qp_rate_limit, 73)                                                                           \
    SLOT(modify_srq, 73)                                                                                     \
    SLOT(modify_wq, 73)                                                                                      \
    SLOT(open_qp, 73)                                                                                        \
    SLOT(open_xrcd, 73)                                                                                      \
    SLOT(poll_cq, 73)                                                                                        \
    SLOT(post_recv, 73)                                                                                      \
    SLOT(post_send, 73)                                                                                      \
    SLOT(post_srq_ops, 73)                                                                                   \
    SLOT(post_srq_recv, 73)                                                                                  \
    SLOT(qp_attach_comp_cntr, 93)                                                                            \
    SLOT(query_comp_cntr_caps, 93)                                                                           \
    SLOT(query_device_ex, 73)                                                                                \
    SLOT(query_ece, 73)                                                                                      \
    SLOT(query_port, 73)                                                                                     \
    SLOT(query_port_speed, 81)                                                                               \
    SLOT(query_qp, 73)                                                                                       \
    SLOT(query_qp_data_in_order, 76)                                                                         \
    SLOT(query_rt_values, 73)                                                                                \
    SLOT(query_srq, 73)                                                                                      \
    SLOT(read_comp_cntr, 93)                                                                                 \
    SLOT(read_counters, 73)                                                                                  \
    SLOT(read_err_comp_cntr, 93)                                                                             \
    SLOT(reg_dm_mr, 73)                                                                                      \
    SLOT(reg_dmabuf_mr, 73)                                                                                  \
    SLOT(reg_mr, 73)                                                                                         \
    SLOT(reg_mr_ex, 79)                                                                                      \
    SLOT(req_notify_cq, 73)                                                                                  \
    SLOT(rereg_mr, 73)                                                                                       \
    SLOT(resize_cq, 73)                                                                                      \
    SLOT(set_comp_cntr, 93)                                                                                  \
    SLOT(set_ece, 73)                                                                                        \
    SLOT(set_err_comp_cntr, 93)                                                                              \
    SLOT(unimport_dm, 75)                                                                                    \
    SLOT(unimport_mr, 73)                                                                                    \
    SLOT(unimport_pd, 73)

// NOLINTBEGIN(readability-identifier-naming): the names are those of the operations
enum class Slot : std::uint8_t {
#define SLUICE_ABI_SLOT(name, since) name,
    SLUICE_ABI_SLOTS(SLUICE_ABI_SLOT)
#undef SLUICE_ABI_SLOT
};
// NOLINTEND(readability-identifier-naming)

#define SLUICE_ABI_SLOT(name, since) since,
inline constexpr std::array<std::uint8_t, 93> kSlotSince{SLUICE_ABI_SLOTS(SLUICE_ABI_SLOT)};
#undef SLUICE_ABI_SLOT

#define SLUICE_ABI_SLOT(name, since) #name,
inline constexpr std::array<const char*, kSlotSince.size()> kSlotNames{SLUICE_ABI_SLOTS(SLUICE_ABI_SLOT)};
#undef SLUICE_ABI_SLOT

constexpr const char* name_of(Slot slot) {
    return kSlotNames[static_cast<std::size_t>(slot)];
}

// Every number of slots that a released libibverbs has had.
inline constexpr std::array<std::size_t, 7> kKnownSlotCounts{73, 75, 76, 79, 81, 83, 93};

constexpr std::size_t slots_with(std::size_t slot_count, std::size_t before) {
    std::size_t index = 0;
    for (std::size_t i = 0; i < before; ++i) {
        index += kSlotSince[i] <= slot_count ? 1 : 0;
    }
    return index;
}

constexpr bool tables_are_complete() {
    for (const std::size_t count : kKnownSlotCounts) {
        if (slots_with(count, kSlotSince.size()) != count) {
            return false;
        }
    }
    return true;
}
static_assert(tables_are_complete());

// Where SLOT is in a table of SLOT_COUNT slots, if that is a known table and has it.
constexpr std::optional<std::size_t> slot_index(Slot slot, std::size_t slot_count) {
    bool known = false;
    for (const std::size_t count : kKnownSlotCounts) {
        known = known || count == slot_count;
    }
    const auto position = static_cast<std::size_t>(slot);
    if (!known || kSlotSince[position] > slot_count) {
        return std::nullopt;
    }
    return slots_with(slot_count, position);
}

} // namespace sluice::abi
