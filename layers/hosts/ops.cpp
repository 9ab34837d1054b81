// SPDX-License-Identifier: BSD-3-Clause
//
// A simulated host in place of the CPU, below everything else that libsluice-sync does.
#include "layers/hosts/host.hpp"
#include "sync/state.hpp"

namespace sluice::layers::hosts {

namespace {

using coherence::LineRun;
using coherence::Ops;
using coherence::Range;

template<bool kDrop>
void issue_run(const Ops& ops, LineRun run) noexcept {
    static_cast<Host*>(ops.context)->move(run, kDrop);
}

template<bool kDrop>
void issue_ranges(const Ops& ops, const Range* ranges, std::uint64_t count) noexcept {
    for (std::uint64_t i = 0; i < count; ++i) {
        if (ranges[i].length != 0) {
            issue_run<kDrop>(ops, coherence::lines_of(ranges[i].address, ranges[i].length, ops.line_bytes));
        }
    }
}

Host& host_of(const Ops& ops) noexcept {
    return *static_cast<Host*>(ops.context);
}

constexpr coherence::FlagWatch kWatch{
    .before_publish = [](const Ops& ops,
                         const std::uint64_t* flag) noexcept { host_of(ops).before_publish(flag); },
    .after_publish = [](const Ops& ops, const std::uint64_t* flag,
                        std::uint64_t value) noexcept { host_of(ops).after_publish(flag, value); },
    .before_observe = [](const Ops&) noexcept { Host::before_observe(); },
    .after_observe = [](const Ops& ops, const std::uint64_t* flag,
                        std::uint64_t value) noexcept { host_of(ops).after_observe(flag, value); }};

// No fences: a lock is held while a line moves, and each host's loads and stores are ordered by the CPU.
Ops ops_of(Host& host) noexcept {
    return {.clean = {"simulated", issue_run<false>, nullptr, issue_ranges<false>},
            .invalidate = {"simulated", issue_run<true>, nullptr, issue_ranges<true>},
            .before_clean = {"none", nullptr},
            .after_clean = {"none", nullptr},
            .before_invalidate = {"none", nullptr},
            .after_invalidate = {"none", nullptr},
            .line_bytes = kLineBytes,
            .granule_bytes = kLineBytes,
            .context = &host,
            .persist = {"simulated", issue_run<false>, nullptr, issue_ranges<false>},
            .line_source = "simulated",
            .flags = host.is_watched() ? &kWatch : nullptr};
}

Result<const Ops*> make_ops() {
    const Result<Host*> host = Host::find();
    if (!host) {
        return host.error().clone();
    }
    if (*host == nullptr) {
        return coherence::native_ops();
    }
    (*host)->note_use();
    static const Ops ops = ops_of(**host);
    return &ops;
}

} // namespace

} // namespace sluice::layers::hosts

namespace sluice::sync {

Result<const Ops*> machine_ops() {
    static const Result<const Ops*> ops = layers::hosts::make_ops();
    return ops ? Result<const Ops*>(*ops) : ops.error().clone();
}

} // namespace sluice::sync
