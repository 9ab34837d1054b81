// SPDX-License-Identifier: BSD-3-Clause
//
// The doorbell of a send queue: a command without requests in it, which makes the kernel look at
// the ring. Laid out once, when the queue is made.
#pragma once

#include "provider/abi/uverbs.hpp"

namespace sluice::provider {

class Doorbell {
  public:
    Doorbell() noexcept = default;
    Doorbell(const Doorbell&) = delete;
    Doorbell& operator=(const Doorbell&) = delete;

    // For the queue pair that the kernel calls QP_HANDLE.
    void hang(std::uint32_t qp_handle) noexcept {
        abi::PostSendBody body{};
        body.response = reinterpret_cast<std::uintptr_t>(&answer_);
        body.qp_handle = qp_handle;
        body.wqe_size = sizeof(ib_uverbs_send_wr);
        command_ = {IB_USER_VERBS_CMD_POST_SEND, body, sizeof answer_};
    }
    // 0 or an errno.
    int ring(abi::Uverbs& uverbs) noexcept { return uverbs.send(command_, &answer_, sizeof answer_); }

  private:
    abi::SendDoorbell command_{0, {}, 0};
    std::uint32_t answer_ = 0; // the kernel writes here; nobody reads it
};

} // namespace sluice::provider
