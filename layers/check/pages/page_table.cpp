// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/pages/page_table.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace sluice::layers::check::pages {

std::size_t page_bytes() noexcept {
    static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

Page* PageTable::make(std::uint64_t number) noexcept {
    const std::uint64_t leaf = number / kLeafPages;
    if (leaf >= kLeaves) {
        return nullptr;
    }
    if (leaves_[leaf].load(std::memory_order_relaxed) == nullptr) {
        void* const memory = mmap(nullptr, kLeafPages * sizeof(Page), PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            return nullptr;
        }
        leaves_[leaf].store(static_cast<Page*>(memory), std::memory_order_release); // partner: find()
    }
    return find(number);
}

} // namespace sluice::layers::check::pages
