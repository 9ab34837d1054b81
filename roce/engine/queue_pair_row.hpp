// SPDX-License-Identifier: BSD-3-Clause
//
// What others may see of a queue pair while it exists: which one it is, its state, its peer, and what it has
// counted. In memory that other processes may read; nobody but the queue pair writes.
#pragma once

#include <array>
#include <cstring>

#include "core/count.hpp"
#include "roce/engine/types.hpp"

namespace sluice::roce::engine {

// Messages are requests that ended well, of ours and of the peer's. Bytes are the program's, without headers;
// what was sent twice counts once. Both include requests that went past the packets, at their initiator.
struct QpCounters {
    Count messages_sent;
    Count messages_received;
    Count bytes_sent;
    Count bytes_received;
    Count packets_out;
    Count packets_in;
    Count packets_again;
    Count timeouts;
    Count rnr_naks_in;
    Count rnr_naks_out;
    Count duplicates;
    Count out_of_sequence;
    Count dropped;
    Count completions_good;
    Count completions_failed;
    Count completions_flushed;
};

struct QueuePairRow {
    using AddressWords = std::array<Count, sizeof(Address) / sizeof(Count)>;

    Count qpn;  // 0: nobody's
    Count type; // QpType
    Count state;
    Count peer_qpn; // 0: none
    AddressWords local;
    AddressWords remote;
    QpCounters counters;

    static void put(AddressWords& to, const Address& address) noexcept {
        for (std::size_t i = 0; i < to.size(); ++i) {
            std::uint64_t word = 0;
            std::memcpy(&word, address.gid.data() + i * sizeof word, sizeof word);
            to[i].set(word);
        }
    }
    void clear() noexcept {
        auto* const numbers = reinterpret_cast<Count*>(this);
        for (std::size_t i = 0; i < sizeof *this / sizeof(Count); ++i) { // the first is qpn
            numbers[i].set(0);
        }
    }
};

// Where an engine's queue pairs get their rows. Any thread may call it.
class QueuePairRows {
  public:
    // All zeros. Null: there is no more.
    virtual QueuePairRow* acquire() noexcept = 0;
    virtual void release(QueuePairRow& row) noexcept = 0;

  protected:
    ~QueuePairRows() = default;
};

} // namespace sluice::roce::engine
