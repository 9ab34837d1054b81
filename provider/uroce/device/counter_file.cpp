// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/device/counter_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>

#include "core/log.hpp"
#include "provider/uroce/device/counter_reader.hpp"
#include "roce/socket/address.hpp"

namespace sluice::uroce::device {

namespace {

template<std::size_t kSize>
void put(std::array<char, kSize>& to, std::string_view from) noexcept {
    to[from.copy(to.data(), kSize - 1)] = '\0';
}

// A longer file would end the program with SIGXFSZ.
bool may_have_file() noexcept {
    rlimit limit{};
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= kWholeFileBytes;
}

} // namespace

CounterFile::CounterFile() {
    if (!may_have_file()) {
        SLUICE_LOG(kInfo, "uroce",
                   "`sluice stat` won't see this process: its limit for files (ulimit -f) is "
                   "below %zu bytes",
                   kWholeFileBytes);
        return;
    }
    const std::vector<std::string> directories = counter_directories();
    const bool created =
        std::ranges::any_of(directories, [this](const std::string& directory) { return create(directory); });
    if (!created && !directories.empty()) {
        SLUICE_LOG(
            kInfo, "uroce",
            "`sluice stat` won't see this process: no file can be made in %s (%s); make room there, or name "
            "a directory in SLUICE_UROCE_COUNTERS",
            directories.back().c_str(), strerrordesc_np(errno));
    }
}

// Nobody can guess the name, or put a link in its place.
bool CounterFile::create(const std::string& directory) {
    remove_old_counters(directory);
    std::string path = directory + "/" + kCounterFilePrefix + "XXXXXX";
    file_ = Descriptor(mkostemp(path.data(), O_CLOEXEC));
    if (file_.get() < 0) {
        return false;
    }
    if (fill(path)) {
        return true;
    }
    const int error = errno;
    unlink(path.c_str());
    file_.reset();
    errno = error;
    return false;
}

// Memory that the file system hasn't got would end the program with SIGBUS: it is asked for beforehand.
bool CounterFile::fill(const std::string& path) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    if (fcntl(file_.get(), F_SETLK, &lock) != 0 || ftruncate(file_.get(), kWholeFileBytes) != 0) {
        return false;
    }
    errno = posix_fallocate(file_.get(), 0, kRoomsAt);
    if (errno != 0) {
        return false;
    }
    Result<MappedBytes> mapped =
        MappedBytes::map("can't map the counters", file_.get(), 0, kWholeFileBytes, PROT_READ | PROT_WRITE);
    if (!mapped) {
        return false;
    }
    mapped_ = *std::move(mapped);
    reserved_ = kRoomsAt;
    auto& header = *reinterpret_cast<FileHeader*>(mapped_.at());
    static_assert(kCounters <= kMaxCounters);
    header.counters = kCounters;
    header.pid = getpid();
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    header.opened_ns =
        static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
    put(header.command, program_invocation_short_name);
    for (std::size_t i = 0; i < kCounters; ++i) {
        const char* const name = counter_names()[i];
        put(header.names[i], name != nullptr ? name : "");
    }
    row_table_ = std::make_unique<RowTable>(file_.get(), reinterpret_cast<std::uint8_t*>(mapped_.at()));
    std::atomic_thread_fence(std::memory_order_release); // a reader of the magic word finds the rest
    header.magic = kCounterMagic;
    SLUICE_LOG(kDebug, "uroce", "counting in %s", path.c_str());
    return true;
}

CounterRoom* CounterFile::room_in_file(std::size_t index) noexcept {
    const std::size_t at = kRoomsAt + index * kRoomBytes;
    if (mapped_.at() == nullptr || index >= kMaxCounterRooms) {
        return nullptr;
    }
    if (at + kRoomBytes > reserved_) {
        const int error = posix_fallocate(file_.get(), static_cast<off_t>(at), kRoomBytes);
        if (error != 0) {
            SLUICE_LOG(kInfo, "uroce", "`sluice stat` won't see a device: no room for its counters: %s",
                       strerrordesc_np(error));
            return nullptr;
        }
        reserved_ = at + kRoomBytes;
    }
    return reinterpret_cast<CounterRoom*>(mapped_.at() + at);
}

CounterFile::Room& CounterFile::free_room() {
    const auto found = std::ranges::find_if(
        rooms_, [](const Room& room) { return !room.is_used && room.memory->name.device[0] == '\0'; });
    if (found != rooms_.end()) {
        return *found;
    }
    Room made{room_in_file(rooms_.size()), false, nullptr, nullptr};
    if (made.memory == nullptr) {
        made.own = std::make_unique<CounterRoom>();
        made.memory = made.own.get();
    } else {
        made.rows = std::make_unique<DeviceRows>(*row_table_, rooms_.size());
    }
    rooms_.push_back(std::move(made));
    return rooms_.back();
}

DeviceCounters& CounterFile::acquire(std::string_view device, std::string_view address) {
    Room& room = free_room();
    room.is_used = true;
    for (Count& value : room.memory->values) {
        value.set(0);
    }
    put(room.memory->name.address, address);
    put(room.memory->name.device, device);
    static_assert(sizeof(DeviceCounters) <= sizeof room.memory->values);
    return *reinterpret_cast<DeviceCounters*>(room.memory->values.data());
}

DeviceCounters& CounterFile::acquire(const LocalAddress& where) {
    return acquire(where.name, socket::to_text(where.gid).data());
}

std::vector<CounterFile::Room>::iterator CounterFile::room_of(const DeviceCounters& counters) noexcept {
    return std::ranges::find_if(rooms_, [&](const Room& room) {
        return static_cast<const void*>(room.memory->values.data()) == static_cast<const void*>(&counters);
    });
}

engine::QueuePairRows* CounterFile::rows(const DeviceCounters& counters) noexcept {
    const auto room = room_of(counters);
    return room == rooms_.end() ? nullptr : room->rows.get();
}

void CounterFile::release(DeviceCounters& counters) noexcept {
    const auto own = room_of(counters);
    if (own == rooms_.end()) {
        return;
    }
    own->is_used = false;
    const auto before = std::ranges::find_if(rooms_, [&](const Room& room) {
        return &room != &*own && !room.is_used && room.memory->name.device == own->memory->name.device &&
               room.memory->name.address == own->memory->name.address;
    });
    if (before == rooms_.end()) {
        return;
    }
    own->memory->name.device[0] = '\0'; // nobody reads it any more
    for (std::size_t i = 0; i < kCounters; ++i) {
        before->memory->values[i].add(own->memory->values[i].get());
    }
}

} // namespace sluice::uroce::device
