// SPDX-License-Identifier: BSD-3-Clause
#include "provider/common/context_memory.hpp"

#include <cstdlib>

namespace sluice::provider {

namespace {

abi::Abi measured_abi{};

} // namespace

const abi::Abi& current_abi() noexcept {
    return measured_abi;
}

void set_current_abi(const abi::Abi& measured) noexcept {
    measured_abi = measured;
}

ibv_context* allocate_context(ibv_device* device, int cmd_fd, std::size_t own_bytes,
                              std::uint32_t driver_id) noexcept {
    const std::size_t verbs_bytes = current_abi().layout.verbs_context_bytes;
    void* allocation = current_abi().symbols.init_and_alloc_context(device, cmd_fd, verbs_bytes + own_bytes,
                                                                    nullptr, driver_id);
    return allocation == nullptr ? nullptr
                                 : reinterpret_cast<ibv_context*>(static_cast<std::byte*>(allocation) +
                                                                  verbs_bytes - sizeof(ibv_context));
}

verbs_context* whole_context(ibv_context* context) noexcept {
    return reinterpret_cast<verbs_context*>(reinterpret_cast<std::byte*>(context) -
                                            (current_abi().layout.verbs_context_bytes - sizeof(ibv_context)));
}

void free_context_memory(ibv_context* context) noexcept {
    verbs_context* allocation = whole_context(context);
    current_abi().symbols.uninit_context(allocation);
    std::free(allocation); // NOLINT(cppcoreguidelines-no-malloc): allocated by libibverbs
}

} // namespace sluice::provider
