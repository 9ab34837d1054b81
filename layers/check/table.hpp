// SPDX-License-Identifier: BSD-3-Clause
//
// What is known of objects by the addresses, or numbers, that programs know them by. In sixteen parts with
// a lock each, since every post and poll looks something up.
//
// Thread safety: all of it, from any thread. A record lives as long as anybody holds it, also when its object
// has ended.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/sync.hpp"

namespace sluice::layers::check {

template<typename Key, typename Record>
class Table {
  public:
    void put(const Key& key, std::shared_ptr<Record> record) {
        Part& part = part_of(key);
        const LockGuard lock(part.mutex);
        part.records[key] = std::move(record);
    }

    // Null: it isn't known.
    std::shared_ptr<Record> find(const Key& key) const noexcept {
        Part& part = part_of(key);
        const LockGuard lock(part.mutex);
        const auto found = part.records.find(key);
        return found != part.records.end() ? found->second : nullptr;
    }

    std::shared_ptr<Record> take(const Key& key) noexcept {
        Part& part = part_of(key);
        const LockGuard lock(part.mutex);
        const auto found = part.records.find(key);
        if (found == part.records.end()) {
            return nullptr;
        }
        std::shared_ptr<Record> record = std::move(found->second);
        part.records.erase(found);
        return record;
    }

    // Takes KEY away if it is RECORD's: somebody else may have the key by now.
    void forget(const Key& key, const Record* record) noexcept {
        Part& part = part_of(key);
        const LockGuard lock(part.mutex);
        const auto found = part.records.find(key);
        if (found != part.records.end() && found->second.get() == record) {
            part.records.erase(found);
        }
    }

    // Whether there is one now, among those that no other thread is about to change: waits for nothing, since
    // it is called in handlers of signals and in children of fork().
    template<typename Wanted>
    bool any(Wanted&& is_wanted) const noexcept SLUICE_TSA(no_thread_safety_analysis) {
        for (Part& part : parts_) {
            if (!part.mutex.try_lock()) {
                continue;
            }
            const bool has_one = std::ranges::any_of(
                part.records, [&](const auto& entry) { return is_wanted(*entry.second); });
            part.mutex.unlock();
            if (has_one) {
                return true;
            }
        }
        return false;
    }

    // Those that are in it now. They may be looked at without a lock.
    template<typename Wanted>
    std::vector<std::shared_ptr<Record>> all(Wanted&& is_wanted) const {
        std::vector<std::shared_ptr<Record>> found;
        for (Part& part : parts_) {
            const LockGuard lock(part.mutex);
            for (const auto& [key, record] : part.records) {
                if (is_wanted(*record)) {
                    found.push_back(record);
                }
            }
        }
        return found;
    }

  private:
    struct alignas(64) Part {
        Mutex mutex;
        std::unordered_map<Key, std::shared_ptr<Record>> records SLUICE_TSA(guarded_by(mutex));
    };

    Part& part_of(const Key& key) const noexcept {
        // Addresses of objects are multiples of 16, and numbers follow each other.
        const std::size_t hash = std::hash<Key>()(key) * 0x9e3779b97f4a7c15U;
        return parts_[hash >> 60U];
    }

    mutable std::array<Part, 16> parts_;
};

} // namespace sluice::layers::check
