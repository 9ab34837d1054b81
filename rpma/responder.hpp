// SPDX-License-Identifier: BSD-3-Clause
//
// The server's side of the general purpose server persistency method: makes persistent what a peer asks for,
// and answers (ADR 92).
//
// A slot is a receive for a request, and afterwards the answer's send; then it is a receive again. So there
// are never more of its requests under way than slots, and nothing is allocated while it works.
//
// Thread safety: one thread at a time.
#pragma once

#include <vector>

#include "core/coherence/cacheflush.hpp"
#include "rpma/conn.hpp"
#include "rpma/gpspm.hpp"

namespace sluice::rpma {

// Memory that lines are written back from.
class WriteBack {
  public:
    // For REGION's memory. Unless MAY_BE_VOLATILE: kNotSupported where the memory is not persistent, or the
    // CPU has no instruction to that end; other errors where nobody can tell.
    static Result<WriteBack> make(const LocalRegion& region, bool may_be_volatile);
    // OPS may be null: nothing is written back then, which is right only where nothing has to survive.
    WriteBack(const coherence::Ops* ops, void* address, std::uint64_t size) noexcept
        : ops_(ops), address_(reinterpret_cast<std::uintptr_t>(address)), size_(size) {}

    // False: it reaches beyond the memory, and nothing was done.
    bool persist(const FlushRequest& request) const noexcept;

  private:
    const coherence::Ops* ops_;
    std::uintptr_t address_;
    std::uint64_t size_;
};

class Responder {
  public:
    // REGION and PEER outlive it. DEPTH: how many slots.
    static Result<std::unique_ptr<Responder>> make(Peer& peer, const LocalRegion& region, std::uint32_t depth,
                                                   bool may_be_volatile);
    ~Responder();
    Responder(const Responder&) = delete;
    Responder& operator=(const Responder&) = delete;

    // Posts the receives. kInvalid: it was started before.
    Answer start(Queues& queues) noexcept;
    // Does what COMPLETION of CONN's asks for; ANSWERED is the request that was answered, if it was one's.
    // kNoCompletion: it is none of the responder's. kInvalid: the peer's message is wrong. Unless the answer
    // is kDone, it may be tried again with the same completion.
    Answer handle(Conn& conn, const ibv_wc& completion, std::optional<FlushRequest>& answered) noexcept;
    Result<void> close() noexcept { return messages_->close(); }

  private:
    enum class State : std::uint8_t { kIdle, kReceiving, kAnswering };

    Responder(void* memory, std::size_t size, WriteBack write_back, std::uint32_t depth)
        : memory_(static_cast<std::byte*>(memory)), size_(size), write_back_(write_back), slots_(depth) {}

    // Null: ID is none of them.
    State* slot_of(std::uint64_t id) noexcept;
    std::size_t offset_of(const State& slot) const noexcept;
    Answer receive(Queues& queues, State& slot) noexcept;
    Answer answer(Conn& conn, State& slot, const FlushRequest& request) noexcept;

    std::byte* const memory_; // of the messages
    const std::size_t size_;
    const WriteBack write_back_;
    std::unique_ptr<LocalRegion> messages_;
    std::vector<State> slots_; // their addresses are the ids of the requests
};

} // namespace sluice::rpma
