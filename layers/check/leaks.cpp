// SPDX-License-Identifier: BSD-3-Clause
//
// Objects that are left when their device is closed, or when the process ends.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"
#include "layers/check/lifetimes.hpp"
#include "layers/check/registry.hpp"

namespace sluice::layers::check {

namespace {

// librdmacm closes its devices when the process ends; what is left then is gone with it.
bool is_called_by_librdmacm(Place place) noexcept {
    return std::ranges::any_of(place->frames(), [](const void* address) {
        Dl_info info{};
        return dladdr(address, &info) != 0 && info.dli_fname != nullptr &&
               std::strstr(info.dli_fname, "librdmacm") != nullptr;
    });
}

// Objects that one place has made.
struct LeftThere {
    std::string first;
    std::size_t count = 0;
};

template<typename Records, typename Wanted, typename Name>
void add_left(std::map<Place, LeftThere>& to, const Records& records, Wanted&& wanted, Name&& name) {
    for (const auto& record : records.all(wanted)) {
        LeftThere& left = to[record->made];
        if (left.count++ == 0) {
            left.first = name(*record);
        }
    }
}

std::map<Place, LeftThere> left_by_place(const ibv_context* context) {
    Registry& all = Registry::instance();
    std::map<Place, LeftThere> left;
    const auto named = [](const auto& record) { return name_of(record); };
    const auto is_its = [context](const auto& record) { return record.context->verbs == context; };
    add_left(left, all.pairs, is_its, named);
    add_left(left, all.queues, is_its, named);
    add_left(left, all.shared_queues, is_its, named);
    const auto is_of = [context](const auto& record) { return record.context == context; };
    add_left(left, all.regions, is_of, named);
    add_left(left, all.domains, is_of, [](const Domain&) { return std::string("protection domain"); });
    add_left(left, all.channels, is_of, [](const Channel&) { return std::string("completion channel"); });
    return left;
}

// One that is left where a program ends its use of a device costs nothing: many programs leave one.
void tell_left(const ibv_context* context, const LeftThere& left, Place made, Place closed) noexcept {
    tell("left-at-close", {{"they were made", made}, {"their device is closed", closed}}, [&] {
        return Told{"device " + device_of(context),
                    std::to_string(left.count) +
                        " objects that one place has made are left when it is closed, as " + left.first,
                    "destroy each object when it is no longer used"};
    });
}

} // namespace

void check_close(const ibv_context* context, Place place) noexcept {
    (void)at_boundary("check", [&]() -> Result<void> {
        if (is_called_by_librdmacm(place)) {
            return {};
        }
        for (const auto& [made, left] : left_by_place(context)) {
            if (left.count > 1 || report::depth() == report::Depth::kPedantic) {
                tell_left(context, left, made, place);
            }
        }
        return {};
    });
}

void check_exit() noexcept {
    if (report::depth() != report::Depth::kPedantic) {
        return; // with a process all goes
    }
    (void)at_boundary("check", []() -> Result<void> {
        for (const auto& context : Registry::instance().contexts.all([](const Context&) { return true; })) {
            for (const auto& [made, left] : left_by_place(context->verbs)) {
                tell_left(context->verbs, left, made, nullptr);
            }
        }
        return {};
    });
}

} // namespace sluice::layers::check
