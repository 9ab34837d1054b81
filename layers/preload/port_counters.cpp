// SPDX-License-Identifier: BSD-3-Clause
#include "layers/preload/port_counters.hpp"

#include <sluice/sluice.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/private_directory.hpp"

namespace sluice::layers::preload {

namespace {

constexpr PortCounter kPortCounters[] = {
    {"counters/port_xmit_data", "path.", ".bytes_sent", 4},
    {"counters/port_rcv_data", "path.", ".bytes_received", 4},
    {"counters/port_xmit_packets", "path.", ".packets_sent"},
    {"counters/port_rcv_packets", "path.", ".packets_received"},
    {"counters/port_rcv_errors", "drop.bad_icrc"},
    {"counters/port_xmit_discards", "drop.send_refused"},
    // rdma_rxe's
    {"hw_counters/sent_pkts", "path.", ".packets_sent"},
    {"hw_counters/rcvd_pkts", "path.", ".packets_received"},
    {"hw_counters/duplicate_request", "transport.duplicates_received"},
    {"hw_counters/out_of_seq_request", "transport.out_of_sequence"},
    {"hw_counters/rcvd_rnr_err", "transport.rnr_received"},
    {"hw_counters/send_rnr_err", "transport.rnr_sent"},
    {"hw_counters/retry_exceeded_err", "completion.retry_exceeded"},
    {"hw_counters/retry_rnr_exceeded_err", "completion.rnr_retry_exceeded"},
    {"hw_counters/completer_retry_err", "transport.rewinds"},
    {"hw_counters/send_err", "drop.send_refused"},
    // mlx5's and others'
    {"hw_counters/out_of_sequence", "transport.out_of_sequence"},
    {"hw_counters/local_ack_timeout_err", "transport.timeouts"},
    {"hw_counters/rnr_nak_retry_err", "transport.rnr_received"},
    {"hw_counters/rx_icrc_encapsulated", "drop.bad_icrc"},
};

constexpr std::chrono::milliseconds kLifespan{10};

struct Sums {
    std::string device;
    std::string address;
    std::vector<std::uint64_t> values = std::vector<std::uint64_t>(std::size(kPortCounters));
};

bool is_meant(const PortCounter& one, std::string_view name) noexcept {
    return one.end[0] == '\0' ? name == one.begin : name.starts_with(one.begin) && name.ends_with(one.end);
}

void add(void* context, const sluice_uroce_use* use) {
    Sums& sums = *static_cast<Sums*>(context);
    if (use->device != sums.device || use->address != sums.address) {
        return;
    }
    for (std::uint32_t i = 0; i < use->count; ++i) {
        for (std::size_t to = 0; to < std::size(kPortCounters); ++to) {
            sums.values[to] +=
                is_meant(kPortCounters[to], use->counters[i].name) ? use->counters[i].value : 0;
        }
    }
}

} // namespace

std::span<const PortCounter> port_counters() noexcept {
    return kPortCounters;
}

bool is_of_port_counters(std::string_view path) noexcept {
    return path.starts_with("counters") || path.starts_with("hw_counters");
}

bool PortCounterFiles::refresh(int directory, const std::string& folder, const std::string& device,
                               const std::string& address) {
    const Clock::time_point now = Clock::now();
    if (written_ != Clock::time_point::min() && now - written_ < kLifespan) {
        return true;
    }
    written_ = now;
    Sums sums{device, address};
    if (sluice_list_uroce_counters(add, &sums) != 0) {
        return true; // nobody counts here, and what is there says so: zero
    }
    bool fine = true;
    for (std::size_t i = 0; i < std::size(kPortCounters); ++i) {
        const PortCounter& one = kPortCounters[i];
        const std::string path = folder + "/" + one.file;
        fine = replace_line(directory, path.c_str(), std::to_string(sums.values[i] / one.bytes_each)) && fine;
    }
    return fine;
}

} // namespace sluice::layers::preload
