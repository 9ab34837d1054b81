// SPDX-License-Identifier: BSD-3-Clause
//
// An open file of the rdma_cm device, which librdmacm calls an event channel: what librdmacm has in place of
// the kernel's. Its descriptor is readable while an event waits, of uroce's or of the kernel's.
#pragma once

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <sluice/sluice.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/descriptor.hpp"
#include "core/result.hpp"
#include "core/sync.hpp"
#include "layers/cmdev/event.hpp"

namespace sluice::layers::cmdev {

// Thread safety: everything may be called from any thread.
class File {
  public:
    // KERNELS is the kernel's own file, if there is one.
    static Result<std::shared_ptr<File>> make(Descriptor kernels);
    ~File();
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    // Whoever closes it calls close() before.
    int fd() const noexcept { return fd_; }
    // -1: there is none.
    int kernels() const noexcept { return kernels_.get(); }

    // Where the device of CONTEXT reports its events for ids of this file.
    Result<sluice_cm_channel*> channel_of(ibv_context* context);
    std::vector<sluice_cm_channel*> channels();

    void post(const Event& event);
    std::optional<Event> take_posted();
    std::vector<Event> take_posted_of(std::uint32_t handle);

    // Does nothing any more, but to keep waiting those that wait.
    void close();
    bool is_closed();

  private:
    struct OfDevice {
        ibv_context* context;
        sluice_cm_channel* channel;
    };

    File(Descriptor kernels, Descriptor bell, int fd);
    void silence_locked() noexcept SLUICE_TSA(requires_capability(mutex_));

    const Descriptor kernels_;
    const Descriptor bell_; // readable while something is posted
    const int fd_;          // waits for all of them
    Mutex mutex_;
    bool is_closed_ SLUICE_TSA(guarded_by(mutex_)) = false;
    std::deque<Event> posted_ SLUICE_TSA(guarded_by(mutex_));
    std::vector<OfDevice> of_devices_ SLUICE_TSA(guarded_by(mutex_));
};

// The files of this process, by descriptor.
namespace files {

void add(std::shared_ptr<File> file);

struct Entry {
    std::shared_ptr<File> file;
    // The file was open when this process was forked: its devices are the parent's.
    bool is_parents = false;
};

// Neither: the descriptor isn't ours.
Entry find(int fd);
Entry take(int fd);

} // namespace files

} // namespace sluice::layers::cmdev
