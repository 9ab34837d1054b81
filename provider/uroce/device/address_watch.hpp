// SPDX-License-Identifier: BSD-3-Clause
//
// A thread that tells when an address comes or goes in this network namespace. It sleeps in a netlink socket.
#pragma once

#include <pthread.h>

#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "provider/uroce/roce.hpp"

namespace sluice::uroce::device {

class AddressWatch {
  public:
    class Client {
      public:
        // Once at first, for what changed before anybody watched, and after each change.
        virtual void addresses_changed() noexcept = 0;

      protected:
        ~Client() = default;
    };

    explicit AddressWatch(Client& client) noexcept : client_(client) {}
    AddressWatch(const AddressWatch&) = delete;
    AddressWatch& operator=(const AddressWatch&) = delete;
    ~AddressWatch() { stop(); }

    Result<void> start();
    // Waits for the end of the thread.
    void stop() noexcept;
    // The thread is another process's: this is the child of a fork.
    void abandon() noexcept;

  private:
    static void* run(void* self) noexcept;
    void loop() noexcept;

    Client& client_;
    Descriptor netlink_;
    Descriptor stop_; // an eventfd
    bool running_ = false;
    pthread_t thread_{};
};

} // namespace sluice::uroce::device
