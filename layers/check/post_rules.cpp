// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/post_rules.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "layers/check/describe.hpp"
#include "layers/check/finding.hpp"

namespace sluice::layers::check {

namespace {

constexpr std::string_view kPosted = "the request was posted";

// A request of REQUESTS before the last one, which is REQUEST, that may write to the same memory. Null: none.
template<typename AnyRequests>
auto* writer_of(AnyRequests& requests, const Request& request) noexcept {
    for (std::size_t i = 0; i < requests.size(); ++i) {
        auto& other = requests[i];
        const bool writes =
            other.kind == Kind::kRead || other.kind == Kind::kAtomic || other.kind == Kind::kReceive;
        if (&other != &request && writes && overlap(other, request)) {
            return &other;
        }
    }
    return static_cast<decltype(&requests[0])>(nullptr);
}

const char* state_name(ibv_qp_state state) noexcept {
    constexpr std::array kNames = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return static_cast<std::size_t>(state) < kNames.size() ? kNames[state] : "unknown";
}

} // namespace

// Until one asks for a completion, no place comes back.
void check_reclaim(QueuePair& pair, Request& request) noexcept {
    const std::size_t before = pair.sends.size() - 1;
    if (request.has_completion || pair.sends.owed() != 0 || before < pair.sends.granted() ||
        pair.sends.granted() == 0) {
        return;
    }
    tell("send-queue-never-reclaimed", {{kPosted, request.posted}, {"the queue pair was made", pair.made}},
         [&] {
             return Told{
                 name_of(pair),
                 "the last " + std::to_string(before) +
                     " requests asked for no completion, and its send queue has " +
                     std::to_string(pair.sends.granted()) + " places: no place comes back to it",
                 "set IBV_SEND_SIGNALED at least once for each time that the queue fills, and poll that "
                 "completion"};
         });
}

void check_process(const QueuePair& pair, Request& request) noexcept {
    if (pair.process == this_process()) {
        return;
    }
    request.is_told_of = true;
    tell("used-after-fork", {{kPosted, request.posted}, {"the queue pair was made", pair.made}}, [&] {
        return Told{name_of(request) + " of " + name_of(pair),
                    "it is posted by a child of fork(), and the queue pair was made by its parent",
                    "let the parent post, or open the device in the child, too"};
    });
}

void check_alignment(const QueuePair& pair, Request& request) noexcept {
    if (request.kind != Kind::kAtomic || request.remote_address % 8 == 0) {
        return;
    }
    request.is_told_of = true;
    tell("misaligned-atomic", {{kPosted, request.posted}}, [&] {
        return Told{name_of(request) + " of " + name_of(pair),
                    "its remote address " + hex(request.remote_address) + " isn't a multiple of 8",
                    "keep what peers change atomically at addresses that are multiples of 8"};
    });
}

// What a Read shall bring may not be there when the device takes the memory for what is sent, unless it
// waits.
void check_sent_before_read(const QueuePair& pair, Request& request, unsigned flags) noexcept {
    const bool is_sent = request.kind == Kind::kSend || request.kind == Kind::kWrite;
    const Request* const read = is_sent ? writer_of(pair.sends, request) : nullptr;
    request.is_filled_first = read != nullptr;
    if (read == nullptr || request.is_told_of || (flags & IBV_SEND_FENCE) != 0) {
        return;
    }
    request.is_told_of = true;
    tell("sent-before-read", {{kPosted, request.posted}, {"the Read was posted", read->posted}}, [&] {
        return Told{name_of(request) + " of " + name_of(pair),
                    "it sends memory that " + name_of(*read) + " fills, whose completion wasn't polled",
                    "await the Read's completion, or set IBV_SEND_FENCE, with which the device waits for it"};
    });
}

void check_failure(const QueuePair& pair, Request& request) noexcept {
    if (pair.failure_seen_by.load(std::memory_order_relaxed) != this_thread()) {
        return;
    }
    request.is_told_of = true;
    tell("posted-after-failure",
         {{kPosted, request.posted}, {"the failure was polled", pair.failure_seen.load()}}, [&] {
             return Told{name_of(request) + " of " + name_of(pair),
                         "the queue pair has failed (" + status_name(pair.failure.load()) +
                             "), as this thread has polled: nothing that is posted to it is carried out",
                         "look at each completion's status; destroy or reset the queue pair after a failure"};
         });
}

void check_inline(const QueuePair& pair, Request& request, std::size_t bytes) noexcept {
    if (!request.is_inline || bytes <= pair.max_inline) {
        return;
    }
    request.is_told_of = true;
    tell("too-much-inline", {{kPosted, request.posted}, {"the queue pair was made", pair.made}}, [&] {
        return Told{name_of(request) + " of " + name_of(pair),
                    std::to_string(bytes) + " bytes are to be sent inline, and the queue pair takes " +
                        std::to_string(pair.max_inline),
                    "look at cap.max_inline_data that ibv_create_qp() has granted, and send more without "
                    "IBV_SEND_INLINE"};
    });
}

void check_count(const QueuePair& pair, Request& request, std::size_t count, std::uint32_t granted) noexcept {
    if (count <= granted || request.is_told_of) {
        return;
    }
    request.is_told_of = true;
    tell("too-many-pieces", {{kPosted, request.posted}, {"the queue pair was made", pair.made}}, [&] {
        return Told{name_of(request) + " of " + name_of(pair),
                    "it has " + std::to_string(count) + " pieces, and the queue pair takes " +
                        std::to_string(granted),
                    "ask for as many in cap when the queue pair is made, and look at what was granted"};
    });
}

// Right where nobody looks at what comes, as for Writes with immediate data.
void check_one_buffer(const Owner& owner, Requests& requests, Request& request) noexcept {
    Request* const other = report::depth() >= report::Depth::kFull ? writer_of(requests, request) : nullptr;
    if (other == nullptr) {
        return;
    }
    request.shares_memory = true;
    other->shares_memory = true;
    if (report::depth() != report::Depth::kPedantic || request.is_told_of) {
        return;
    }
    request.is_told_of = true;
    tell("one-buffer-for-two-receives", {{kPosted, request.posted}, {"the other was posted", other->posted}},
         [&] {
             return Told{name_of(request) + " of " + owner.text(),
                         "its memory is that of " + name_of(*other) + ", too, which is outstanding",
                         "post a buffer for each message that may come"};
         });
}

// Right where the program posts again when completions have come.
void check_full(const Owner& owner, const Request& request, std::uint32_t granted, Place made) noexcept {
    if (report::depth() != report::Depth::kPedantic || request.is_told_of) {
        return;
    }
    tell("queue-overposted", {{kPosted, request.posted}, {"the queue was made", made}}, [&] {
        return Told{name_of(request) + " of " + owner.text(),
                    "it was refused: as many requests are outstanding as its queue has places (" +
                        std::to_string(granted) + ")",
                    "count what is outstanding, and poll before posting more than cap has granted"};
    });
}

void check_refused(const QueuePair& pair, const Request& request, int error, ibv_qp_state least) noexcept {
    if (request.is_told_of || error == ENOMEM || pair.state >= least) {
        return;
    }
    tell("posted-too-early", {{kPosted, request.posted}, {"the queue pair was made", pair.made}}, [&] {
        return Told{name_of(request) + " of " + name_of(pair),
                    std::string("it was refused (") + strerror(error) + "): the queue pair is in state " +
                        state_name(pair.state),
                    std::string("move it to ") + state_name(least) + " first, by ibv_modify_qp()"};
    });
}

// All that may be outstanding has to have a place there.
void check_room(Queue& queue, Place place) noexcept {
    const std::uint32_t owed = queue.owed.load(std::memory_order_relaxed);
    const int entries = queue.object->cqe;
    if (entries <= 0 || owed <= static_cast<std::uint32_t>(entries) || queue.ignores_overrun ||
        queue.is_told_overrun.exchange(true)) {
        return;
    }
    tell("completion-queue-too-small", {{kPosted, place}, {"the queue was made", queue.made}}, [&] {
        return Told{name_of(queue),
                    std::to_string(owed) + " completions may be outstanding, and it has " +
                        std::to_string(entries) + " entries: the device would lose completions",
                    "make it as large as all requests that may be posted and not polled, or poll before "
                    "posting"};
    });
}

} // namespace sluice::layers::check
