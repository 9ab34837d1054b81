// SPDX-License-Identifier: BSD-3-Clause
#include "layers/hosts/publications.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/keyed_hash.hpp"
#include "layers/hosts/line.hpp"
#include "layers/hosts/place.hpp"
#include "layers/hosts/shared_lock.hpp"

namespace sluice::layers::hosts {

namespace {

constexpr std::size_t kFlags = 1024;
constexpr std::size_t kLines = 16384;
constexpr std::size_t kPlaces = 8;
constexpr std::size_t kRemembered = 64; // values of a flag, as a writer may be far ahead

// The last publication of each host that this thread has observed.
thread_local std::array<std::uint32_t, kMostHosts> observed = {};

std::uint64_t key_of(std::uint64_t kind, Publications::Where where) noexcept {
    const std::array words{kind, where.file, where.offset};
    const std::uint64_t key = KeyedHash(1, 2)(words);
    return key != 0 ? key : 1;
}

std::uint64_t key_of_line(unsigned host, Publications::Where line) noexcept {
    return key_of(host, line);
}

std::uint64_t key_of_written(Publications::Where line) noexcept {
    return key_of(kMostHosts + 1, line);
}

std::uint64_t key_of_flag(Publications::Where flag) noexcept {
    return key_of(kMostHosts, flag);
}

} // namespace

struct Publications::Shared {
    struct Value {
        std::uint64_t value;
        std::uint32_t number; // 0: none
        std::uint32_t host;
    };

    struct Flag {
        std::uint64_t key;
        std::uint64_t next;
        Value pending; // without its value; number 0: none
        std::array<Value, kRemembered> values;
    };

    struct Dirty {
        std::uint64_t key;
        std::uint64_t hash;
        std::uint32_t number;
        std::uint32_t place;
    };

    struct Written { // last, by a host that has cleaned it
        std::uint64_t key;
        std::uint64_t hash;
        std::uint32_t number; // of the host's first publication behind that
        std::uint32_t host;
    };

    struct OfHost {
        std::uint32_t publications;
        std::uint32_t observations;
        std::uint32_t joined;
        std::uint32_t left;
        char places[kPlaces][1024]; // as frames
    };

    std::array<Flag, kFlags> flags;
    std::array<Dirty, kLines> lines;
    std::array<Written, kLines> written;
    std::array<OfHost, kMostHosts> hosts;

    Flag& flag(Where where) noexcept;
    Dirty& line(std::uint64_t key) noexcept { return lines[key % kLines]; }
};

Publications::Shared& Publications::shared() noexcept {
    return *reinterpret_cast<Shared*>(file_.first());
}

Result<Publications> Publications::open(const std::string& directory) {
    Result<Descriptor> file = open_in(directory, "published", O_RDWR);
    if (!file) {
        return std::move(file).error();
    }
    if (ftruncate(file->get(), sizeof(Shared)) != 0) {
        return Error::from_errno(errno, "what hosts publish can't be remembered");
    }
    Result<MappedFile> mapped = MappedFile::make(*file, sizeof(Shared), PROT_READ | PROT_WRITE, 0);
    if (!mapped) {
        return std::move(mapped).error();
    }
    return Publications(*std::move(mapped));
}

void Publications::join_locked(unsigned host) noexcept {
    ++shared().hosts[host].joined;
}

void Publications::leave_locked(unsigned host) noexcept {
    ++shared().hosts[host].left;
}

bool Publications::have_left_locked(unsigned host) noexcept {
    const Shared::OfHost& own = shared().hosts[host];
    return own.joined != 0 && own.left == own.joined;
}

void Publications::count_observation_locked(unsigned host) noexcept {
    ++shared().hosts[host].observations;
}

std::uint32_t Publications::observations_locked(unsigned host) noexcept {
    return shared().hosts[host].observations;
}

Publications::Publication Publications::begin_locked(unsigned host, std::string_view frames) {
    Shared::OfHost& own = shared().hosts[host];
    const std::size_t place = std::hash<std::string_view>()(frames) % kPlaces;
    char* const text = own.places[place];
    const std::size_t length = std::min(frames.size(), sizeof own.places[place] - 1);
    std::memcpy(text, frames.data(), length);
    text[length] = '\0';
    return {host, ++own.publications, static_cast<std::uint32_t>(place)};
}

void Publications::note_dirty_locked(const Publication& now, Where line, std::uint64_t hash) {
    const std::uint64_t key = key_of_line(now.host, line);
    Shared::Dirty& entry = shared().line(key);
    if (entry.key != key || entry.hash != hash) {
        entry = {key, hash, now.number, now.place};
    }
}

void Publications::note_clean_locked(unsigned host, Where line) {
    const std::uint64_t key = key_of_line(host, line);
    if (Shared::Dirty& entry = shared().line(key); entry.key == key) {
        entry = {};
    }
}

Publications::Shared::Flag& Publications::Shared::flag(Where where) noexcept {
    const std::uint64_t key = key_of_flag(where);
    Flag& entry = flags[key % kFlags];
    if (entry.key != key) {
        entry = {};
        entry.key = key;
    }
    return entry;
}

void Publications::note_pending_locked(const Publication& now, Where flag) {
    shared().flag(flag).pending = {0, now.number, now.host};
}

void Publications::end_locked(const Publication& now, Where flag, std::uint64_t value) {
    Shared::Flag& entry = shared().flag(flag);
    entry.pending = {};
    entry.values[entry.next++ % kRemembered] = {value, now.number, now.host};
}

// The host's next publication will be behind it.
void Publications::note_written_locked(unsigned host, Where line, std::uint64_t hash) {
    const std::uint64_t key = key_of_written(line);
    shared().written[key % kLines] = {key, hash, shared().hosts[host].publications + 1, host};
}

bool Publications::has_flag_locked(Where line) {
    for (std::uint64_t at = 0; at < kLineBytes; at += sizeof(std::uint64_t)) {
        const std::uint64_t key = key_of_flag({line.file, line.offset + at});
        if (shared().flags[key % kFlags].key == key) {
            return true;
        }
    }
    return false;
}

bool Publications::is_published_locked(Where line, std::uint64_t hash) {
    const std::uint64_t key = key_of_written(line);
    const Shared::Written& entry = shared().written[key % kLines];
    return entry.key == key && entry.hash == hash && entry.host < kMostHosts &&
           entry.number <= observed[entry.host] && !has_flag_locked(line);
}

// The oldest that fits: of a value that comes again, this may be the one. What memory holds, and no
// publication that has ended, is of the one that goes on.
bool Publications::observe_locked(Where flag, std::uint64_t value, bool is_in_memory) {
    const std::uint64_t key = key_of_flag(flag);
    const Shared::Flag& entry = shared().flags[key % kFlags];
    if (entry.key != key) {
        return false;
    }
    const Shared::Value* oldest = nullptr;
    for (const Shared::Value& each : entry.values) {
        const bool fits = each.number != 0 && each.value == value && each.host < kMostHosts;
        oldest = fits && (oldest == nullptr || each.number < oldest->number) ? &each : oldest;
    }
    const bool is_pending = oldest == nullptr && is_in_memory && entry.pending.number != 0;
    oldest = is_pending && entry.pending.host < kMostHosts ? &entry.pending : oldest;
    if (oldest == nullptr || oldest->number <= observed[oldest->host]) {
        return false;
    }
    observed[oldest->host] = oldest->number;
    return true;
}

bool Publications::is_missed_locked(unsigned host, Where line, std::uint64_t hash) {
    const std::uint64_t key = key_of_line(host, line);
    const Shared::Dirty& entry = shared().line(key);
    if (entry.key != key || entry.hash != hash || entry.number == 0 || entry.number > observed[host]) {
        return false;
    }
    std::uint32_t& looked = looked_[key];
    const bool is_first = looked < entry.number;
    looked = observed[host];
    return is_first;
}

std::string Publications::frames_locked(unsigned host, Where line) {
    const Shared::Dirty& entry = shared().line(key_of_line(host, line));
    const char* const text = shared().hosts[host].places[entry.place % kPlaces];
    return {text, strnlen(text, sizeof shared().hosts[host].places[0] - 1)};
}

} // namespace sluice::layers::hosts
