// SPDX-License-Identifier: BSD-3-Clause
#include "rpma/responder.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "rpma/persistence.hpp"

namespace sluice::rpma {

namespace {

// A request has 27 bytes, and more only if a later version of the message has more fields.
constexpr std::size_t kRequestBytes = 128;
constexpr std::size_t kSlotBytes = 2 * kRequestBytes; // the answer is behind the request

Result<const coherence::Ops*> ops_for_persistence() {
    Result<const coherence::Ops*> ops = coherence::native_ops();
    if (ops && (*ops)->persist.issue == nullptr) {
        return Error(ErrorKind::kNotSupported,
                     "this CPU gives user mode no instruction that makes data persistent");
    }
    return ops;
}

} // namespace

Result<WriteBack> WriteBack::make(const LocalRegion& region, bool may_be_volatile) {
    Result<const coherence::Ops*> ops = ops_for_persistence();
    if (may_be_volatile) {
        return WriteBack(ops ? *ops : nullptr, region.address(), region.size());
    }
    if (!ops) {
        return std::move(ops).error();
    }
    Result<bool> survives = is_persistent(region.address(), region.size());
    if (!survives) {
        return std::move(survives).error();
    }
    if (!*survives) {
        return Error(ErrorKind::kNotSupported,
                     "the region's memory is not persistent: an answer would promise what it can't keep; "
                     "map persistent memory with MAP_SYNC, or allow ordinary memory");
    }
    return WriteBack(*ops, region.address(), region.size());
}

bool WriteBack::persist(const FlushRequest& request) const noexcept {
    if (!is_range_of(size_, request)) {
        return false;
    }
    if (ops_ != nullptr && request.length != 0) {
        coherence::persist(*ops_, address_ + request.offset, request.length);
    }
    return true;
}

// Pages of their own, so that a fork() of the program's copies nothing that the device writes to.
Result<std::unique_ptr<Responder>> Responder::make(Peer& peer, const LocalRegion& region, std::uint32_t depth,
                                                   bool may_be_volatile) {
    Result<WriteBack> write_back = WriteBack::make(region, may_be_volatile);
    if (!write_back) {
        return std::move(write_back).error();
    }
    const std::size_t size = depth * kSlotBytes;
    void* const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        return Error(ErrorKind::kInsufficientResources, "out of memory for messages");
    }
    std::unique_ptr<Responder> responder(new Responder(mapped, size, *write_back, depth));
    Result<std::unique_ptr<LocalRegion>> messages =
        LocalRegion::make(peer, mapped, size, RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_SEND);
    if (!messages) {
        return std::move(messages).error();
    }
    responder->messages_ = *std::move(messages);
    return responder;
}

Responder::~Responder() {
    messages_.reset();
    munmap(memory_, size_);
}

Responder::State* Responder::slot_of(std::uint64_t id) noexcept {
    const std::uint64_t index = id - reinterpret_cast<std::uintptr_t>(slots_.data()); // wraps below the first
    static_assert(sizeof(State) == 1);
    return index < slots_.size() ? &slots_[static_cast<std::size_t>(index)] : nullptr;
}

std::size_t Responder::offset_of(const State& slot) const noexcept {
    return static_cast<std::size_t>(&slot - slots_.data()) * kSlotBytes;
}

Answer Responder::receive(Queues& queues, State& slot) noexcept {
    const Answer posted = queues.receive(messages_.get(), offset_of(slot), kRequestBytes, &slot);
    slot = posted == Answer::kDone ? State::kReceiving : slot;
    return posted;
}

Answer Responder::start(Queues& queues) noexcept {
    if (std::any_of(slots_.begin(), slots_.end(), [](State slot) { return slot != State::kIdle; })) {
        return Answer::kInvalid;
    }
    for (State& slot : slots_) {
        if (const Answer posted = receive(queues, slot); posted != Answer::kDone) {
            return posted;
        }
    }
    return Answer::kDone;
}

Answer Responder::answer(Conn& conn, State& slot, const FlushRequest& request) noexcept {
    const std::size_t offset = offset_of(slot) + kRequestBytes;
    const auto bytes = flush_response_for(request);
    std::copy(bytes.begin(), bytes.end(), memory_ + offset);
    const Answer sent = conn.send({messages_.get(), offset, bytes.size()}, {RPMA_F_COMPLETION_ALWAYS, &slot});
    slot = sent == Answer::kDone ? State::kAnswering : slot;
    return sent;
}

// A completion that was handled before no longer fits to its slot's state.
Answer Responder::handle(Conn& conn, const ibv_wc& completion,
                         std::optional<FlushRequest>& answered) noexcept {
    State* const slot = slot_of(completion.wr_id);
    if (slot == nullptr) {
        return Answer::kNoCompletion;
    }
    if (completion.status != IBV_WC_SUCCESS) {
        return Answer::kRefused;
    }
    if (completion.qp_num != conn.queues().qp().number()) {
        return Answer::kInvalid; // of another connection
    }
    if (*slot == State::kAnswering && completion.opcode == IBV_WC_SEND) {
        return receive(conn.queues(), *slot);
    }
    if (*slot != State::kReceiving || completion.opcode != IBV_WC_RECV ||
        completion.byte_len > kRequestBytes) {
        return Answer::kInvalid;
    }
    const std::optional<FlushRequest> request =
        flush_request_from({memory_ + offset_of(*slot), completion.byte_len});
    if (!request || !write_back_.persist(*request)) {
        return Answer::kInvalid;
    }
    const Answer sent = answer(conn, *slot, *request);
    if (sent == Answer::kDone) {
        answered = request;
    }
    return sent;
}

} // namespace sluice::rpma
