// SPDX-License-Identifier: BSD-3-Clause
//
// Objects that can't be destroyed, since others use them.
#include <optional>

#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/lifetimes.hpp"
#include "layers/check/registry.hpp"

namespace sluice::layers::check {

namespace {

struct Left {
    std::string name;
    Place made = nullptr;
};

template<typename Records, typename Wanted, typename Name>
std::optional<Left> first_of(const Records& records, Wanted&& wanted, Name&& name) {
    const auto found = records.all(wanted);
    if (found.empty()) {
        return std::nullopt;
    }
    return Left{name(*found.front()), found.front()->made};
}

std::optional<Left> user_of(const ibv_pd* pd) {
    Registry& all = Registry::instance();
    const auto is_its = [pd](const auto& record) { return record.pd == pd; };
    const auto named = [](const auto& record) { return name_of(record); };
    std::optional<Left> found = first_of(all.regions, is_its, named);
    if (!found) {
        found = first_of(all.pairs, is_its, named);
    }
    if (!found) {
        found = first_of(all.shared_queues, is_its, named);
    }
    if (!found) {
        found = first_of(all.address_handles, is_its,
                         [](const AddressHandle&) { return std::string("an address handle"); });
    }
    if (!found) {
        found = first_of(
            all.domains, [pd](const Domain& domain) { return domain.root == pd && domain.pd != pd; },
            [](const Domain&) { return std::string("a parent domain"); });
    }
    return found;
}

void tell_in_use(const std::string& object, const std::string& call, const std::optional<Left>& user,
                 Place place) noexcept {
    tell("object-in-use",
         {{"it was to be destroyed", place}, {"its user was made", user ? user->made : nullptr}}, [&] {
             return Told{object, call + " is refused: " + (user ? user->name : "another object") + " uses it",
                         "destroy objects in the reverse order of their creation, and look at what each call "
                         "returns"};
         });
}

} // namespace

void tell_busy(const Domain& domain, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        tell_in_use("protection domain of " + device_of(domain.context), "ibv_dealloc_pd()",
                    user_of(domain.pd), place);
        return {};
    });
}

void tell_busy(const Region& region, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        tell_in_use(name_of(region) + " of " + device_of(region.context), "ibv_dereg_mr()",
                    Left{"a memory window", nullptr}, place);
        return {};
    });
}

void tell_busy(const Queue& queue, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        tell_in_use(name_of(queue), "ibv_destroy_cq()",
                    first_of(
                        Registry::instance().pairs,
                        [&](const QueuePair& pair) {
                            return pair.send_queue.get() == &queue || pair.receive_queue.get() == &queue;
                        },
                        [](const QueuePair& pair) { return name_of(pair); }),
                    place);
        return {};
    });
}

void tell_busy(const SharedQueue& queue, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        tell_in_use(name_of(queue), "ibv_destroy_srq()",
                    first_of(
                        Registry::instance().pairs,
                        [&](const QueuePair& pair) { return pair.shared.get() == &queue; },
                        [](const QueuePair& pair) { return name_of(pair); }),
                    place);
        return {};
    });
}

void tell_busy(const Channel& channel, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        tell_in_use("completion channel of " + device_of(channel.context), "ibv_destroy_comp_channel()",
                    first_of(
                        Registry::instance().queues,
                        [&](const Queue& queue) { return queue.channel == channel.object; },
                        [](const Queue& queue) { return name_of(queue); }),
                    place);
        return {};
    });
}

} // namespace sluice::layers::check
