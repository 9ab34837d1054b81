// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/dto.hpp"

namespace sluice::dapl {

void DtoPool::grow(std::uint32_t count, std::uint32_t kept_segments) {
    auto store = std::make_unique<DtoStore>(count, kept_segments);
    Dto* first = nullptr;
    for (Dto& dto : store->dtos) {
        dto.next_free = std::exchange(first, &dto);
    }
    Dto& last = store->dtos.front();
    const LockGuard guard(mutex_);
    stores_.push_back(std::move(store));
    const LockGuard taking(lock_);
    last.next_free = std::exchange(free_, first);
}

Dto* DtoPool::take() noexcept {
    const LockGuard guard(lock_);
    Dto* const dto = free_;
    if (dto != nullptr) {
        free_ = dto->next_free;
        dto->traits = Dto::kShared | Dto::traits_of(DtoOperation::kReceive);
    }
    return dto;
}

void DtoPool::give(Dto& dto) noexcept {
    const LockGuard guard(lock_);
    dto.next_free = std::exchange(free_, &dto);
}

} // namespace sluice::dapl
