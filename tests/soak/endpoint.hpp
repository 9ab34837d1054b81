// SPDX-License-Identifier: BSD-3-Clause
//
// What one side of a step has of verbs' objects.
#pragma once

#include <infiniband/verbs.h>
#include <sluice/sluice.h>

#include <array>
#include <optional>
#include <string>

#include "tests/soak/memory.hpp"
#include "tests/soak/step.hpp"

namespace sluice::test::soak {

inline constexpr std::uint32_t kQkey = 0x11223344;

// Opens it with the environment that the step asks for, and gives the environment back.
class OpenDevice {
  public:
    OpenDevice(const std::string& address, bool packets_only, const std::string& faults);
    ~OpenDevice() { must_be_zero(ibv_close_device(context_), "ibv_close_device"); }
    OpenDevice(const OpenDevice&) = delete;
    OpenDevice& operator=(const OpenDevice&) = delete;
    ibv_context* get() const { return context_; }

  private:
    ibv_context* context_ = nullptr;
};

class Endpoint {
  public:
    Endpoint(const Step& step, const std::string& its_address, const std::string& faults);
    ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    // New ones for each round; the memory is as at the beginning then.
    void make_queue_pairs();
    void destroy_queue_pairs();
    ibv_qp* make_queue_pair() const;

    const Step& step;
    const std::string address;
    const OpenDevice device;
    const Block block;
    ibv_pd* pd = nullptr;
    ibv_mr* mr = nullptr;
    ibv_comp_channel* channel = nullptr; // of a step that waits
    ibv_cq* cq = nullptr;
    ibv_srq* srq = nullptr; // of a step with one
    sluice_cm_channel* cm = nullptr;
    std::array<ibv_qp*, kMaxConnections> qps{};
    ibv_qp* datagrams = nullptr; // of a step with them

  private:
    void make_datagrams();
};

} // namespace sluice::test::soak
