// SPDX-License-Identifier: BSD-3-Clause
//
// Which of the pointers that a program passes are ours. All others are of librdmacm's own, and go there.
#pragma once

#include <memory>
#include <unordered_map>

#include "core/sync.hpp"

namespace sluice::preload {

// FACE is what the program has, OURS what belongs to it. Any thread. Whose objects are used by one thread
// while another destroys them has lost already with librdmacm, but for who hold()s one.
template<typename Face, typename Ours>
class Table {
  public:
    // Lives until the process ends: destructors of others may still call.
    static Table& instance() {
        static Table& instance = *new Table();
        return instance;
    }

    Ours& add(const Face* face, std::unique_ptr<Ours> ours) {
        const LockGuard guard(mutex_);
        std::shared_ptr<Ours>& place = entries_[face];
        place = std::move(ours);
        return *place;
    }

    // Null: not ours.
    Ours* find(const Face* face) { return hold(face).get(); }

    std::shared_ptr<Ours> hold(const Face* face) {
        const LockGuard guard(mutex_);
        const auto found = entries_.find(face);
        return found == entries_.end() ? nullptr : found->second;
    }

    std::shared_ptr<Ours> take(const Face* face) {
        const LockGuard guard(mutex_);
        const auto found = entries_.find(face);
        if (found == entries_.end()) {
            return nullptr;
        }
        std::shared_ptr<Ours> ours = std::move(found->second);
        entries_.erase(found);
        return ours;
    }

  private:
    Mutex mutex_;
    std::unordered_map<const Face*, std::shared_ptr<Ours>> entries_ SLUICE_TSA(guarded_by(mutex_));
};

} // namespace sluice::preload
