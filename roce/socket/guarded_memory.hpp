// SPDX-License-Identifier: BSD-3-Clause
//
// The program's memory, which the program may have unmapped, protected or truncated although it is
// registered: each touch of it says whether it succeeded, and never ends the program.
//
// Two methods. kSignal catches the fault (guard.hpp) and costs nanoseconds. kSystemCall asks the
// kernel to copy, for programs whose runtime can't live with another handler in front of its own: 2
// to 7 times slower for small copies. No system call does an atomic operation of 64 bits: there the
// page is asked for just before, and a program that unmaps it in that very moment dies of it.
//
// Thread safety: stateless; any thread at any time.
#pragma once

#include <memory>

#include "core/result.hpp"
#include "roce/engine/memory.hpp"

namespace sluice::coherence {
struct Ops;
}

namespace sluice::roce::socket {

enum class GuardMethod : std::uint8_t { kSignal, kSystemCall };

// From a text as SLUICE_UROCE_GUARD has it; null or empty means the default.
Result<GuardMethod> parse_guard_method(const char* text);

class GuardedMemory final : public engine::Memory {
  public:
    static Result<std::unique_ptr<GuardedMemory>> create(GuardMethod method);

    // The program may have installed handlers since the last time.
    Result<void> prepare() const override;
    // Between a question to the kernel and the access, a peer may shorten its file.
    bool survives_peers() const noexcept override { return method_ == GuardMethod::kSignal; }

    bool copy_in(std::uint64_t to, const void* from, std::size_t len_bytes) noexcept override;
    bool copy_out(void* to, std::uint64_t from, std::size_t len_bytes) noexcept override;
    bool readable(std::uint64_t addr, std::size_t len_bytes) noexcept override;
    bool read(void* to, std::uint64_t from, std::size_t len_bytes) noexcept override {
        return copy_out(to, from, len_bytes);
    }
    bool fetch_add(std::uint64_t addr, std::uint64_t add, std::uint64_t& original) noexcept override;
    bool compare_swap(std::uint64_t addr, std::uint64_t compare, std::uint64_t swap,
                      std::uint64_t& original) noexcept override;
    bool store(std::uint64_t addr, std::uint64_t value) noexcept override;
    // Persistence is as good as the memory: on a file of a DAX file system, lines written back are
    // safe; on any other the page cache is what they were written back to. False when this CPU can't
    // write lines back.
    bool flush(std::uint64_t addr, std::size_t len_bytes, std::uint8_t placement) noexcept override;

  private:
    GuardedMemory(GuardMethod method, const coherence::Ops* ops, bool simulates_power) noexcept
        : method_(method), ops_(ops), simulates_power_(simulates_power) {}

    // Runs ACCESS, which reads or writes [ADDR, ADDR + LEN).
    template<typename Access>
    bool touch(std::uint64_t addr, std::size_t len_bytes, bool writes, Access&& access) const noexcept;

    GuardMethod method_;
    const coherence::Ops* ops_;  // null when this CPU has no instructions for it
    const bool simulates_power_; // then a flush is a persistent clean
};

} // namespace sluice::roce::socket
