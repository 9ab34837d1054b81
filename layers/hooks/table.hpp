// SPDX-License-Identifier: BSD-3-Clause
//
// The objects of a layer, by the pointer that the program has for each. A pointer that isn't in the table
// belongs to the library behind the layer.
#pragma once

#include <memory>
#include <unordered_map>

#include "core/sync.hpp"

namespace sluice::layers::hooks {

// PUBLIC is the type that the program knows, OURS the layer's object for it. Thread safety: all functions may
// be called from any thread. As in librdmacm, using an object while another thread destroys it is undefined,
// unless the pointer came from hold().
template<typename Public, typename Ours>
class Table {
  public:
    // Lives until the process ends: destructors of others may still call.
    static Table& instance() {
        static Table& instance = *new Table();
        return instance;
    }

    Ours& add(const Public* key, std::unique_ptr<Ours> ours) {
        const LockGuard guard(mutex_);
        std::shared_ptr<Ours>& place = entries_[key];
        place = std::move(ours);
        return *place;
    }

    // Null: not ours.
    Ours* find(const Public* key) { return hold(key).get(); }

    std::shared_ptr<Ours> hold(const Public* key) {
        const LockGuard guard(mutex_);
        const auto found = entries_.find(key);
        return found == entries_.end() ? nullptr : found->second;
    }

    std::shared_ptr<Ours> take(const Public* key) {
        const LockGuard guard(mutex_);
        const auto found = entries_.find(key);
        if (found == entries_.end()) {
            return nullptr;
        }
        std::shared_ptr<Ours> ours = std::move(found->second);
        entries_.erase(found);
        return ours;
    }

  private:
    Mutex mutex_;
    std::unordered_map<const Public*, std::shared_ptr<Ours>> entries_ SLUICE_TSA(guarded_by(mutex_));
};

} // namespace sluice::layers::hooks
