// SPDX-License-Identifier: BSD-3-Clause
#include "roce/group/table.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <new>

#include "roce/wire/cm.hpp"

namespace sluice::roce::group {

namespace {

constexpr std::uint64_t kMagic = 0x736c7569636534; // and the layout's version
constexpr std::uint64_t kPortMask = 0xffff;
constexpr std::array<std::uint64_t, 3> kPortSpaces = {wire::kPortSpaceTcp, wire::kPortSpaceUdp,
                                                      wire::kPortSpaceIb};
constexpr std::uint32_t kFreePort = 0;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// In a port's word: its holder, and whether it has let go of the port.
constexpr std::uint32_t kLetGo = 1;
constexpr std::uint32_t tag_of(Holder holder) noexcept {
    return static_cast<std::uint32_t>(holder) & ~kLetGo;
}

} // namespace

struct Table::Layout {
    std::uint64_t magic;
    std::uint64_t group;
    engine::Share::Words words;
    std::array<std::atomic<Holder>, kSeats> seats;
    std::array<std::atomic<std::int64_t>, kSeats> taken_ms; // when its last holder took the seat
    std::array<std::array<std::atomic<Holder>, kSeats>, kMaxFurther> users; // of further addresses
    std::atomic<std::uint64_t> generation; // of the further address that was made last
    // 13 MiB, of which the pages are there that were touched.
    using Ports = std::array<std::array<std::atomic<std::uint32_t>, kPortMask + 1>, kPortSpaces.size()>;
    std::array<Ports, kPlaces> ports;
};
static_assert(std::atomic<Holder>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

// The pages are zero, or another process has made a Layout there.
Table::Table(Descriptor memory, MappedBytes mapped) noexcept
    : memory_(std::move(memory)), mapped_(std::move(mapped)),
      layout_(*std::launder(reinterpret_cast<Layout*>(mapped_.at()))) {}

Result<std::unique_ptr<Table>> Table::attach(Descriptor memory) {
    Result<MappedBytes> mapped =
        MappedBytes::map("can't map the table of the processes that share an address", memory.get(), 0,
                         sizeof(Layout), PROT_READ | PROT_WRITE);
    if (!mapped) {
        return std::move(mapped).error();
    }
    return std::unique_ptr<Table>(new Table(std::move(memory), *std::move(mapped)));
}

Result<std::unique_ptr<Table>> Table::create() {
    const Result<RandomKey> key = RandomKey::from_system();
    if (!key) {
        return key.error().clone();
    }
    Descriptor memory(memfd_create("sluice-uroce", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (memory.get() < 0 || ftruncate(memory.get(), sizeof(Layout)) != 0 ||
        fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) {
        return Error::from_errno(errno, "no memory for the processes that share an address");
    }
    Result<std::unique_ptr<Table>> table = attach(std::move(memory));
    if (table) {
        RandomStream random(key->derive("group"));
        Layout& layout = (*table)->layout_;
        layout.magic = kMagic;
        layout.group = random.draw_64();
        for (std::uint32_t& word : layout.words) {
            word = random.draw();
        }
    }
    return table;
}

Result<std::unique_ptr<Table>> Table::map(Descriptor memory) {
    struct stat status {};
    const int seals = fcntl(memory.get(), F_GET_SEALS);
    if (fstat(memory.get(), &status) != 0 || status.st_size != sizeof(Layout) || seals < 0 ||
        (seals & kSeals) != kSeals) {
        return Error(ErrorKind::kProtocol,
                     "the processes that share this address use another version of this library");
    }
    Result<std::unique_ptr<Table>> table = attach(std::move(memory));
    if (table && (*table)->layout_.magic != kMagic) {
        return Error(ErrorKind::kProtocol,
                     "the processes that share this address use another version of this library");
    }
    return table;
}

std::uint64_t Table::group() const noexcept {
    return layout_.group;
}

engine::Share::Words Table::words() const noexcept {
    return layout_.words;
}

Holder Table::holder(std::uint32_t seat) const noexcept {
    return layout_.seats[seat].load(std::memory_order_acquire); // partner: release in take_seat()
}

// One process at a time does.
bool Table::take_seat(std::uint32_t seat, Holder holder, std::int64_t now_ms) noexcept {
    Holder free = this->holder(seat);
    if (free != kNobody) {
        return false;
    }
    layout_.taken_ms[seat].store(now_ms, std::memory_order_relaxed);
    return layout_.seats[seat].compare_exchange_strong(free, holder, std::memory_order_acq_rel);
}

bool Table::has_member_before(std::int64_t when_ms) const noexcept {
    for (std::uint32_t seat = 0; seat < kSeats; ++seat) {
        if (holder(seat) != kNobody && layout_.taken_ms[seat].load(std::memory_order_relaxed) < when_ms) {
            return true;
        }
    }
    return false;
}

void Table::give_up_seat(std::uint32_t seat, Holder holder) noexcept {
    layout_.seats[seat].compare_exchange_strong(holder, kNobody, std::memory_order_acq_rel);
}

bool Table::use_further(std::uint32_t number, std::uint32_t seat, Holder holder) noexcept {
    // Partner: the acquire in is_used().
    return layout_.users[number][seat].exchange(holder, std::memory_order_acq_rel) != holder;
}

void Table::disuse_further(std::uint32_t number, std::uint32_t seat) noexcept {
    layout_.users[number][seat].store(kNobody, std::memory_order_release);
}

std::uint64_t Table::next_generation() noexcept {
    return layout_.generation.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool Table::is_used(std::uint32_t number) const noexcept {
    for (std::uint32_t seat = 0; seat < kSeats; ++seat) {
        const Holder user = layout_.users[number][seat].load(std::memory_order_acquire);
        if (user != kNobody && user == holder(seat)) {
            return true;
        }
    }
    return false;
}

std::uint32_t Table::seat_with(std::uint32_t word) const noexcept {
    const std::uint32_t tag = word & ~kLetGo;
    for (std::uint32_t seat = 0; seat < kSeats && tag != kFreePort; ++seat) {
        if (tag_of(holder(seat)) == tag) {
            return seat;
        }
    }
    return kSeats;
}

std::atomic<std::uint32_t>* Table::word_of(std::uint64_t service, Place place) const noexcept {
    for (std::size_t space = 0; space < kPortSpaces.size(); ++space) {
        if (service >> 16 == kPortSpaces[space]) {
            return &layout_.ports[static_cast<std::uint32_t>(place)][space][service & kPortMask];
        }
    }
    return nullptr;
}

bool Table::is_held(std::uint32_t word) const noexcept {
    return (word & kLetGo) == 0 && seat_with(word) != kSeats;
}

std::uint32_t Table::seat_of_service(std::uint64_t service, Place place) const noexcept {
    std::uint32_t last = kSeats;
    for (const Place at : {place, Place::kEverywhere}) {
        const std::atomic<std::uint32_t>* const word = word_of(service, at);
        const std::uint32_t its = word == nullptr ? kFreePort : word->load(std::memory_order_acquire);
        if (is_held(its)) {
            return seat_with(its);
        }
        last = last == kSeats ? seat_with(its) : last;
    }
    return last;
}

// Of two processes that want a port, the one everywhere and the other at one place, each writes its word
// before it reads the other's: so not both get it.
bool Table::take_service(std::uint64_t service, Place place, Holder holder) noexcept {
    std::atomic<std::uint32_t>* const word = word_of(service, place);
    if (word == nullptr) {
        return true;
    }
    std::uint32_t former = word->load(std::memory_order_seq_cst);
    do {
        if (is_held(former)) {
            return former == tag_of(holder);
        }
    } while (!word->compare_exchange_weak(former, tag_of(holder), std::memory_order_seq_cst));
    if (!is_held_by_another(service, place, holder)) {
        return true;
    }
    std::uint32_t tag = tag_of(holder);
    word->compare_exchange_strong(tag, former, std::memory_order_seq_cst);
    return false;
}

// Where PLACE and another one exclude each other.
bool Table::is_held_by_another(std::uint64_t service, Place place, Holder holder) const noexcept {
    const auto has_it = [&](Place at) {
        const std::uint32_t word = word_of(service, at)->load(std::memory_order_seq_cst);
        return is_held(word) && word != tag_of(holder);
    };
    if (place != Place::kEverywhere) {
        return has_it(Place::kEverywhere);
    }
    for (std::uint32_t at = static_cast<std::uint32_t>(Place::kHome); at < kPlaces; ++at) {
        if (has_it(static_cast<Place>(at))) {
            return true;
        }
    }
    return false;
}

bool Table::is_service_taken(std::uint64_t service, Place place) const noexcept {
    const std::atomic<std::uint32_t>* const word = word_of(service, place);
    return word != nullptr && is_held(word->load(std::memory_order_acquire));
}

void Table::give_up_service(std::uint64_t service, Place place, Holder holder) noexcept {
    std::uint32_t tag = tag_of(holder);
    if (std::atomic<std::uint32_t>* const word = word_of(service, place)) {
        word->compare_exchange_strong(tag, tag | kLetGo, std::memory_order_acq_rel);
    }
}

// A lock of the process's, not of the open file: that one is every member's.
bool Table::try_begin_joining() noexcept {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1, .l_pid = 0};
    return fcntl(memory_.get(), F_SETLK, &lock) == 0;
}

void Table::end_joining() noexcept {
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1, .l_pid = 0};
    (void)fcntl(memory_.get(), F_SETLK, &lock);
}

int Table::joining_process() const noexcept {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1, .l_pid = 0};
    return fcntl(memory_.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? lock.l_pid : 0;
}

} // namespace sluice::roce::group
