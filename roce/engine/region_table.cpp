// SPDX-License-Identifier: BSD-3-Clause
#include "roce/engine/region_table.hpp"

#include <algorithm>
#include <bit>

namespace sluice::roce::engine {
namespace {

constexpr std::uint32_t kVariantMask = 0xff;
constexpr std::uint32_t kMaxSlots = std::uint32_t{1} << 20;
constexpr std::uint32_t kRemoteAccess =
    kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal | kFlushPersistent;

// No sum that could wrap: both differences are of numbers known to be in order.
constexpr bool inside(std::uint64_t addr, std::uint64_t len, std::uint64_t base,
                      std::uint64_t size) noexcept {
    return addr >= base && len <= size && addr - base <= size - len;
}

Result<void> check(std::uint64_t host_addr, std::uint64_t iova, std::uint64_t len_bytes,
                   std::uint32_t access) {
    // 11.2.8: what a peer may change, the local side may.
    if ((access & (kRemoteWrite | kRemoteAtomic)) != 0 && (access & kLocalWrite) == 0) {
        return Error(ErrorKind::kInvalidArgument, "remote write or atomic access needs local write access");
    }
    if (host_addr + len_bytes < host_addr || iova + len_bytes < iova) {
        return Error(ErrorKind::kOutOfRange, "memory region runs past the end of the address space");
    }
    return {};
}

} // namespace

RegionTable::RegionTable(std::uint32_t capacity, const RandomKey& secret, Neighbourhood* neighbourhood)
    : slots_(std::bit_ceil(std::clamp<std::uint32_t>(capacity, 2, kMaxSlots))),
      slot_bits_(static_cast<std::uint32_t>(std::countr_zero(slots_.size()))),
      free_(static_cast<std::uint32_t>(slots_.size()), secret.derive("slots")),
      random_(secret.derive("tags")), neighbourhood_(neighbourhood) {}

RegionTable::~RegionTable() {
    for (Slot& slot : slots_) {
        withdraw(slot);
    }
}

// What only this side touches is nobody else's business.
void RegionTable::publish(Slot& slot) noexcept {
    if (neighbourhood_ == nullptr || (slot.access & kRemoteAccess) == 0) {
        return;
    }
    neighbourhood_->publish(index_of(slot), {.key = slot.key,
                                             .pd = slot.pd,
                                             .qpn = slot.kind == Kind::kWindow2 ? slot.qpn : 0,
                                             .access = slot.access,
                                             .iova = slot.iova,
                                             .host_addr = slot.host_addr,
                                             .len_bytes = slot.len_bytes});
    slot.is_published = true;
}

void RegionTable::withdraw(Slot& slot) noexcept {
    if (slot.is_published) {
        neighbourhood_->withdraw_region(index_of(slot));
        slot.is_published = false;
    }
}

Result<RegionTable::Slot*> RegionTable::take_slot() {
    const std::optional<std::uint32_t> index = free_.take();
    if (!index) {
        return Error(ErrorKind::kInsufficientResources,
                     "no free slot for a memory region or window; deregister some");
    }
    const std::uint64_t above = std::uint64_t{random_.draw()} << slot_bits_;
    const std::uint32_t variant = random_.draw() & kVariantMask;
    Slot& slot = slots_[*index];
    slot = Slot{};
    slot.key = (static_cast<std::uint32_t>(above) | *index) << kKeyVariantBits | variant;
    return &slot;
}

void RegionTable::release(Slot& slot) noexcept {
    withdraw(slot);
    slot.kind = Kind::kFree;
    free_.give_back(index_of(slot));
}

const RegionTable::Slot* RegionTable::find(std::uint32_t key) const noexcept {
    const Slot& slot = slots_[key >> kKeyVariantBits & (slots_.size() - 1)];
    return slot.kind != Kind::kFree && slot.key == key ? &slot : nullptr;
}

RegionTable::Slot* RegionTable::find(std::uint32_t key) noexcept {
    Slot& slot = slots_[key >> kKeyVariantBits & (slots_.size() - 1)];
    return slot.kind != Kind::kFree && slot.key == key ? &slot : nullptr;
}

Result<std::uint32_t> RegionTable::add_region(std::uint32_t pd, std::uint64_t host_addr, std::uint64_t iova,
                                              std::uint64_t len_bytes, std::uint32_t access) {
    if (Result<void> sound = check(host_addr, iova, len_bytes, access); !sound) {
        return std::move(sound).error();
    }
    Result<Slot*> slot = take_slot();
    if (!slot) {
        return std::move(slot).error();
    }
    Slot& region = **slot;
    region.kind = Kind::kRegion;
    region.pd = pd;
    region.access = access;
    region.iova = iova;
    region.host_addr = host_addr;
    region.len_bytes = len_bytes;
    if (len_bytes == ~std::uint64_t{0}) {
        // When UCX 1.13 closes a device, it takes the key of its region of all memory for a word of flags. It
        // crashes if the lowest bit is set.
        region.key &= ~std::uint32_t{1};
    }
    publish(region);
    return region.key;
}

Result<RegionTable::Slot*> RegionTable::unused_region(std::uint32_t key) {
    Slot* region = find(key);
    if (region == nullptr || region->kind != Kind::kRegion) {
        return Error(ErrorKind::kNotFound, "no memory region has this key");
    }
    if (region->windows != 0) {
        return Error(ErrorKind::kBusy, "memory windows are bound to this region; unbind them first");
    }
    return region;
}

Result<void> RegionTable::change_region(std::uint32_t key, std::uint32_t pd, std::uint64_t host_addr,
                                        std::uint64_t iova, std::uint64_t len_bytes, std::uint32_t access) {
    if (Result<void> sound = check(host_addr, iova, len_bytes, access); !sound) {
        return sound;
    }
    Result<Slot*> region = unused_region(key);
    if (!region) {
        return std::move(region).error();
    }
    withdraw(**region);
    (*region)->pd = pd;
    (*region)->access = access;
    (*region)->iova = iova;
    (*region)->host_addr = host_addr;
    (*region)->len_bytes = len_bytes;
    publish(**region);
    return {};
}

Result<void> RegionTable::remove_region(std::uint32_t key) {
    Result<Slot*> region = unused_region(key);
    if (!region) {
        return std::move(region).error();
    }
    release(**region);
    return {};
}

Result<std::uint32_t> RegionTable::add_window(std::uint32_t pd, WindowType type) {
    Result<Slot*> slot = take_slot();
    if (!slot) {
        return std::move(slot).error();
    }
    (*slot)->kind = type == WindowType::kType1 ? Kind::kWindow1 : Kind::kWindow2;
    (*slot)->pd = pd;
    return (*slot)->key;
}

Result<void> RegionTable::remove_window(std::uint32_t rkey) {
    Slot* window = &slots_[rkey >> kKeyVariantBits & (slots_.size() - 1)];
    if (window->kind == Kind::kFree || window->kind == Kind::kRegion ||
        (window->key ^ rkey) >> kKeyVariantBits != 0) {
        return Error(ErrorKind::kNotFound, "no memory window has this key");
    }
    unbind(*window);
    release(*window);
    return {};
}

// A bind never crosses domains: whatever refers to these slots is among them.
void RegionTable::remove_domain(std::uint32_t pd) noexcept {
    for (Slot& slot : slots_) {
        if (slot.kind != Kind::kFree && slot.pd == pd) {
            unbind(slot);
            release(slot);
        }
    }
}

const RegionTable::Slot* RegionTable::region_of(std::uint32_t lkey, std::uint32_t pd,
                                                std::uint32_t access) const noexcept {
    const Slot* region = find(lkey);
    const bool fits = region != nullptr && region->kind == Kind::kRegion && region->pd == pd &&
                      (region->access & access) == access;
    return fits ? region : nullptr;
}

std::optional<std::uint64_t> RegionTable::local(std::uint32_t lkey, std::uint32_t pd, std::uint64_t addr,
                                                std::uint64_t len_bytes,
                                                std::uint32_t access) const noexcept {
    const Slot* region = region_of(lkey, pd, access);
    if (region == nullptr || !inside(addr, len_bytes, region->iova, region->len_bytes)) {
        return std::nullopt;
    }
    return region->host_addr + (addr - region->iova);
}

const RegionTable::Slot* RegionTable::usable_remotely(std::uint32_t rkey, std::uint32_t pd, std::uint32_t qpn,
                                                      std::uint32_t access) const noexcept {
    const Slot* slot = find(rkey);
    if (slot == nullptr || slot->pd != pd || (slot->access & access) != access) {
        return nullptr;
    }
    const bool open =
        slot->kind == Kind::kRegion || (slot->bound && (slot->kind == Kind::kWindow1 || slot->qpn == qpn));
    return open ? slot : nullptr;
}

std::optional<std::uint64_t> RegionTable::remote(std::uint32_t rkey, std::uint32_t pd, std::uint32_t qpn,
                                                 std::uint64_t addr, std::uint64_t len_bytes,
                                                 std::uint32_t access) const noexcept {
    const Slot* slot = usable_remotely(rkey, pd, qpn, access);
    if (slot == nullptr || !inside(addr, len_bytes, slot->iova, slot->len_bytes)) {
        return std::nullopt;
    }
    return slot->host_addr + (addr - slot->iova);
}

std::optional<RegionTable::Extent> RegionTable::whole(std::uint32_t rkey, std::uint32_t pd, std::uint32_t qpn,
                                                      std::uint32_t access) const noexcept {
    const Slot* slot = usable_remotely(rkey, pd, qpn, access);
    if (slot == nullptr) {
        return std::nullopt;
    }
    return Extent{slot->host_addr, slot->len_bytes};
}

// 10.6: the window must be of this domain and, of type 2, not open; the region must be of the
// domain too, allow binding, cover the range, and allow whatever writing the window allows.
bool RegionTable::bind(const MwBind& bind, std::uint32_t pd, std::uint32_t qpn) noexcept {
    Slot* window = find(bind.mw_rkey);
    if (window == nullptr || window->kind == Kind::kRegion || window->pd != pd ||
        (bind.new_rkey ^ bind.mw_rkey) > kVariantMask) {
        return false;
    }
    const bool type2 = window->kind == Kind::kWindow2;
    if (type2 && (window->bound || bind.len_bytes == 0)) {
        return false;
    }
    if (bind.len_bytes == 0) {
        unbind(*window);
        window->key = bind.new_rkey;
        return true;
    }
    Slot* region = find(bind.mr_key);
    if (region == nullptr || region->kind != Kind::kRegion || region->pd != pd ||
        (region->access & kMwBindAllowed) == 0 || (bind.access & ~kRemoteAccess) != 0 ||
        ((bind.access & (kRemoteWrite | kRemoteAtomic)) != 0 && (region->access & kLocalWrite) == 0) ||
        !inside(bind.addr, bind.len_bytes, region->iova, region->len_bytes)) {
        return false;
    }
    unbind(*window);
    window->key = bind.new_rkey;
    window->bound = true;
    window->qpn = qpn;
    window->parent = index_of(*region);
    window->access = bind.access;
    window->iova = bind.zero_based ? 0 : bind.addr;
    window->host_addr = region->host_addr + (bind.addr - region->iova);
    window->len_bytes = bind.len_bytes;
    ++region->windows;
    bound_type2_ += type2 ? 1 : 0;
    publish(*window);
    return true;
}

bool RegionTable::invalidate(std::uint32_t rkey, std::uint32_t pd, std::uint32_t qpn) noexcept {
    Slot* window = find(rkey);
    if (window == nullptr || window->kind != Kind::kWindow2 || window->pd != pd || !window->bound ||
        window->qpn != qpn) {
        return false;
    }
    unbind(*window);
    return true;
}

void RegionTable::forget_queue_pair(std::uint32_t qpn) noexcept {
    if (bound_type2_ == 0) {
        return; // so that queue pairs without windows go quickly
    }
    for (Slot& slot : slots_) {
        if (slot.kind == Kind::kWindow2 && slot.bound && slot.qpn == qpn) {
            unbind(slot);
        }
    }
}

void RegionTable::unbind(Slot& window) noexcept {
    withdraw(window);
    if (window.bound) {
        --slots_[window.parent].windows;
        bound_type2_ -= window.kind == Kind::kWindow2 ? 1 : 0;
        window.bound = false;
        window.access = 0;
    }
}

} // namespace sluice::roce::engine
