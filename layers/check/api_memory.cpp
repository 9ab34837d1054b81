// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libibverbs: calls that register memory, and end that.
#include <infiniband/verbs.h>

#include "core/boundary.hpp"
#include "core/report/finding.hpp"
#include "layers/check/keep.hpp"
#include "layers/check/lifetimes.hpp"
#include "layers/check/pages/pages.hpp"
#include "layers/check/registry.hpp"
#include "layers/check/touches.hpp"
#include "layers/hooks/next.hpp"

// libibverbs' header has macros of these names.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace check = sluice::layers::check;

using check::here;
using check::keep_unless;
using check::Place;
using check::Registry;
using sluice::at_boundary;
using sluice::Result;
using sluice::layers::hooks::Next;

namespace {

Registry& known_objects() noexcept {
    return Registry::instance();
}

struct Registered {
    std::uint64_t memory = 0;
    std::uint64_t first = 0;
    unsigned access = 0;
    bool has_memory = true;
};

ibv_mr* take_region(ibv_mr* made, const Registered& how) noexcept {
    if (made == nullptr) {
        return nullptr;
    }
    (void)at_boundary("check", [&]() -> Result<void> {
        const auto region = std::make_shared<check::Region>();
        region->context = made->context;
        region->pd = made->pd;
        region->object = made;
        region->memory = how.memory;
        region->first = (how.access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : how.first;
        region->length = made->length;
        region->access = static_cast<int>(how.access);
        region->local_key = made->lkey;
        region->remote_key = made->rkey;
        region->is_on_demand = (how.access & IBV_ACCESS_ON_DEMAND) != 0;
        region->has_memory = how.has_memory;
        region->made = here();
        if (region->has_memory) {
            if (sluice::report::depth() >= sluice::report::Depth::kFull && !region->is_on_demand) {
                check::pages::learn(reinterpret_cast<const void*>(region->memory), region->length); // NOLINT
            }
            known_objects().registered.add(region->memory, region->length);
        }
        known_objects().keys.put(region);
        known_objects().regions.put(made, region);
        return {};
    });
    return made;
}

std::uint64_t number_of(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address);
}

void end_region(const std::shared_ptr<check::Region>& region, Place place) noexcept {
    region->ended = place;
    (void)at_boundary("check", [&]() -> Result<void> {
        known_objects().keys.end(region);
        return {};
    });
}

} // namespace

extern "C" {
#pragma GCC visibility push(default)

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* memory, std::size_t length, int access) {
    check::pages::lift_range(memory, length); // the kernel pins its pages as the program may use them
    static constinit Next<ibv_mr*(ibv_pd*, void*, std::size_t, int)> real("ibv_reg_mr");
    return take_region(
        real.call(static_cast<ibv_mr*>(nullptr), pd, memory, length, access),
        {.memory = number_of(memory), .first = number_of(memory), .access = static_cast<unsigned>(access)});
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* memory, std::size_t length, std::uint64_t first, int access) {
    check::pages::lift_range(memory, length);
    static constinit Next<ibv_mr*(ibv_pd*, void*, std::size_t, std::uint64_t, int)> real("ibv_reg_mr_iova");
    return take_region(
        real.call(static_cast<ibv_mr*>(nullptr), pd, memory, length, first, access),
        {.memory = number_of(memory), .first = first, .access = static_cast<unsigned>(access)});
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* memory, std::size_t length, std::uint64_t first,
                         unsigned int access) {
    check::pages::lift_range(memory, length);
    static constinit Next<ibv_mr*(ibv_pd*, void*, std::size_t, std::uint64_t, unsigned)> real(
        "ibv_reg_mr_iova2");
    return take_region(real.call(static_cast<ibv_mr*>(nullptr), pd, memory, length, first, access),
                       {.memory = number_of(memory), .first = first, .access = access});
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t first, int fd,
                          int access) {
    static constinit Next<ibv_mr*(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int)> real(
        "ibv_reg_dmabuf_mr");
    return take_region(real.call(static_cast<ibv_mr*>(nullptr), pd, offset, length, first, fd, access),
                       {.first = first, .access = static_cast<unsigned>(access), .has_memory = false});
}

int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* memory, std::size_t length, int access) {
    static constinit Next<int(ibv_mr*, int, ibv_pd*, void*, std::size_t, int)> real("ibv_rereg_mr");
    const auto known = known_objects().regions.find(mr);
    const int error =
        real.call(static_cast<int>(IBV_REREG_MR_ERR_INPUT), mr, flags, pd, memory, length, access);
    if (error != 0 || known == nullptr) {
        return error;
    }
    end_region(known, here());
    const bool is_moved = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
    const bool is_changed = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
    (void)take_region(mr, {.memory = is_moved ? number_of(memory) : known->memory,
                           .first = is_moved ? number_of(memory) : known->first,
                           .access = static_cast<unsigned>(is_changed ? access : known->access),
                           .has_memory = known->has_memory});
    return error;
}

int ibv_dereg_mr(ibv_mr* mr) {
    static constinit Next<int(ibv_mr*)> real("ibv_dereg_mr");
    const Place place = here();
    check::touches::tell_all();
    const auto known = known_objects().regions.take(mr);
    if (known != nullptr) {
        check::touches::forget_failed(*known);
        check::check_end(*known, place);
    }
    const int error = keep_unless(real.call(ENOSYS, mr), known_objects().regions, mr, known);
    if (error == 0 && known != nullptr) {
        end_region(known, place);
    } else if (error == EBUSY && known != nullptr) {
        check::tell_busy(*known, place);
    }
    return error;
}

#pragma GCC visibility pop
} // extern "C"
