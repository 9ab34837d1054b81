// SPDX-License-Identifier: BSD-3-Clause
//
// A small machine whose device doesn't snoop: a few lines of memory, a CPU cache in front of them,
// and a device behind them.
//
// The device reads and writes memory only. The CPU loads and stores through its cache. What moves
// between the two is what a real machine may do: lines that the engine cleans or invalidates, and, at
// any moment chaos() likes, evictions and prefetches. Line operations wait in a queue and are
// certain to have happened only when the fence after them was issued; an invalidate without the fence
// before it may have happened before the device wrote, which is as good as never.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "core/coherence/batch.hpp"
#include "tests/unit/coherence/seeded.hpp"

namespace sluice::testing {

class NonCoherentMachine {
  public:
    static constexpr std::uint64_t kLineBytes = 64;
    static constexpr std::uint64_t kLines = 12;
    static constexpr std::uint64_t kBase = 0x4000; // of the memory; nothing is ever dereferenced
    static constexpr std::uint64_t kBytes = kLines * kLineBytes;

    explicit NonCoherentMachine(Random& random)
        : random_(random), ops_{.clean = coherence::clean_op<Line<false>>(),
                                .invalidate = coherence::invalidate_op<Line<true>>(),
                                .before_clean = {"none", nullptr},
                                .after_clean = {"drain", drain},
                                .before_invalidate = {"order", order},
                                .after_invalidate = {"drain", drain},
                                .line_bytes = kLineBytes,
                                .granule_bytes = kLineBytes,
                                .context = this} {}

    NonCoherentMachine(const NonCoherentMachine&) = delete;
    NonCoherentMachine& operator=(const NonCoherentMachine&) = delete;

    coherence::Ops& ops() { return ops_; }

    void cpu_store(std::uint64_t address, std::uint8_t byte) {
        CachedLine& line = cached(address);
        line.bytes[(address - kBase) % kLineBytes] = byte;
        line.dirty = true;
    }
    std::uint8_t cpu_load(std::uint64_t address) {
        return cached(address).bytes[(address - kBase) % kLineBytes];
    }

    void device_write(std::uint64_t address, std::uint8_t byte) {
        memory_.at(address - kBase) = byte;
        ordered_ = false;
    }
    std::uint8_t device_read(std::uint64_t address) const { return memory_.at(address - kBase); }

    // Whatever a cache may do unasked.
    void chaos() {
        const std::uint64_t line = random_.below(kLines);
        switch (random_.below(5)) {
        case 0:
            write_back(line);
            cache_[line].reset();
            break;
        case 1:
            (void)cached(kBase + line * kLineBytes);
            break;
        case 2:
            if (!pending_.empty()) {
                perform(pending_.back());
                pending_.pop_back();
            }
            break;
        default:
            break;
        }
    }

  private:
    struct CachedLine {
        std::array<std::uint8_t, kLineBytes> bytes;
        bool dirty;
    };
    struct Operation {
        std::uint64_t line;
        bool drop;
    };

    template<bool kDrop>
    struct Line : coherence::LineInstruction {
        static constexpr const char* kName = kDrop ? "invalidate" : "clean";
        static void line(const coherence::Ops& ops, std::uintptr_t at) {
            NonCoherentMachine& machine = *static_cast<NonCoherentMachine*>(ops.context);
            const bool too_early = kDrop && !machine.ordered_ && machine.random_.one_in(2);
            if (!too_early) {
                machine.pending_.push_back({(at - kBase) / kLineBytes, kDrop});
            }
            machine.chaos();
        }
    };

    static void drain(const coherence::Ops& ops) noexcept {
        NonCoherentMachine& machine = *static_cast<NonCoherentMachine*>(ops.context);
        for (const Operation& operation : std::exchange(machine.pending_, {})) {
            machine.perform(operation);
        }
    }
    static void order(const coherence::Ops& ops) noexcept {
        static_cast<NonCoherentMachine*>(ops.context)->ordered_ = true;
    }

    CachedLine& cached(std::uint64_t address) {
        const std::uint64_t line = (address - kBase) / kLineBytes;
        if (!cache_[line]) {
            cache_[line].emplace();
            cache_[line]->dirty = false;
            std::copy_n(memory_.begin() + static_cast<std::ptrdiff_t>(line * kLineBytes), kLineBytes,
                        cache_[line]->bytes.begin());
        }
        return *cache_[line];
    }

    // The whole line, also those of its bytes that the device has written since.
    void write_back(std::uint64_t line) {
        if (cache_[line] && cache_[line]->dirty) {
            std::ranges::copy(cache_[line]->bytes,
                              memory_.begin() + static_cast<std::ptrdiff_t>(line * kLineBytes));
            cache_[line]->dirty = false;
        }
    }

    void perform(const Operation& operation) {
        write_back(operation.line);
        if (operation.drop) {
            cache_[operation.line].reset();
        }
    }

    Random& random_;
    coherence::Ops ops_;
    std::array<std::uint8_t, kBytes> memory_{};
    std::array<std::optional<CachedLine>, kLines> cache_{};
    std::vector<Operation> pending_;
    bool ordered_ = false;
};

} // namespace sluice::testing
