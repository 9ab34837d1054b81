// SPDX-License-Identifier: BSD-3-Clause
//
// Commands to the kernel's uverbs device: our own layer over the kernel's uAPI headers, in place
// of libibverbs' private ibv_cmd_* helpers, whose signatures change from version to version.
//
// Control commands go by ioctl. The kernel also takes commands by write(), which is quicker, but
// refuses that once the program's credentials have changed since it opened the device. So
// doorbells are rung by write() until the first refusal, and by ioctl from then on. That write()
// is a system call without the C library in between (write_call.hpp), unless a test stands in for
// the kernel.
//
// Everything here returns 0 or a positive errno: both neighbours, the kernel and the verbs
// interface, speak errno, and there is nothing to add to it in between. Thread-safe.
#pragma once

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include "provider/abi/write_call.hpp"

namespace sluice::abi {

// The system calls of the provider, so that tests can stand in for the kernel.
struct KernelCalls {
    int (*ioctl)(int fd, unsigned long request, void* argument);
    ssize_t (*write)(int fd, const void* data, std::size_t len_bytes);
    void* (*mmap)(void* address, std::size_t len_bytes, int protection, int flags, int fd, off_t offset);
    int (*munmap)(void* address, std::size_t len_bytes);
    int (*open)(const char* path);
    ssize_t (*pread)(int fd, void* data, std::size_t len_bytes);
    int (*close)(int fd);
};
extern const KernelCalls kRealKernelCalls;

// The attributes of one ioctl, built on the stack behind the header, as the kernel wants them.
template<std::size_t kCapacity>
class IoctlCommand {
  public:
    IoctlCommand(std::uint16_t object, std::uint16_t method) noexcept {
        header().object_id = object;
        header().method_id = method;
    }

    // Up to eight bytes travel inside the attribute, as the kernel expects.
    void input(std::uint16_t id, const void* data, std::size_t len_bytes) noexcept {
        ib_uverbs_attr& attr = next(id, len_bytes);
        if (len_bytes <= sizeof attr.data) {
            __builtin_memcpy(&attr.data, data, len_bytes);
        } else {
            attr.data = reinterpret_cast<std::uintptr_t>(data);
        }
    }
    void output(std::uint16_t id, void* data, std::size_t len_bytes) noexcept {
        next(id, len_bytes).data = reinterpret_cast<std::uintptr_t>(data);
    }
    void constant(std::uint16_t id, std::uint64_t value) noexcept { input(id, &value, sizeof value); }
    void handle(std::uint16_t id, std::uint32_t object) noexcept { next(id, 0).data = object; }
    // The kernel may be too old to know the attribute; then it leaves it alone.
    void make_last_optional() noexcept { attr(header().num_attrs - 1U).flags = 0; }

    ib_uverbs_ioctl_hdr& header() noexcept { return *reinterpret_cast<ib_uverbs_ioctl_hdr*>(bytes_); }

  private:
    ib_uverbs_attr& attr(std::size_t index) noexcept {
        return reinterpret_cast<ib_uverbs_attr*>(bytes_ + sizeof(ib_uverbs_ioctl_hdr))[index];
    }
    ib_uverbs_attr& next(std::uint16_t id, std::size_t len_bytes) noexcept {
        ib_uverbs_attr& added = attr(header().num_attrs++);
        added.attr_id = id;
        added.len = static_cast<std::uint16_t>(len_bytes);
        added.flags = UVERBS_ATTR_F_MANDATORY;
        return added;
    }

    alignas(8) std::byte bytes_[sizeof(ib_uverbs_ioctl_hdr) + kCapacity * sizeof(ib_uverbs_attr)]{};
};

// A driver's own bytes beside a command and its answer; either may be empty.
struct DriverData {
    std::span<const std::byte> in{};
    std::span<std::byte> out{};
};

template<typename T>
DriverData driver_answer(T& out) noexcept {
    return {.in = {}, .out = std::as_writable_bytes(std::span(&out, 1))};
}

// A doorbell, or another small command that is worth a write(): laid out once, sent often.
template<typename Body>
struct WriteCommand {
    ib_uverbs_cmd_hdr header;
    Body body;

    WriteCommand(std::uint32_t number, const Body& content, std::size_t answer_bytes) noexcept
        : header{number, sizeof(WriteCommand) / 4, static_cast<std::uint16_t>(answer_bytes / 4)},
          body(content) {}
};

// The fixed part of struct ib_uverbs_post_send. With no requests in it, it is a doorbell.
struct PostSendBody {
    std::uint64_t response;
    std::uint32_t qp_handle;
    std::uint32_t wr_count;
    std::uint32_t sge_count;
    std::uint32_t wqe_size;
};
static_assert(sizeof(PostSendBody) == sizeof(ib_uverbs_post_send));
using SendDoorbell = WriteCommand<PostSendBody>;

class Uverbs {
  public:
    Uverbs(int fd, std::uint32_t driver_id, const KernelCalls& kernel) noexcept
        : kernel_(kernel), fd_(fd), driver_id_(driver_id),
          way_(&kernel == &kRealKernelCalls ? Way::kWrite : Way::kStandIn) {}
    Uverbs(const Uverbs&) = delete;
    Uverbs& operator=(const Uverbs&) = delete;

    int fd() const noexcept { return fd_; }
    const KernelCalls& kernel() const noexcept { return kernel_; }

    template<std::size_t kCapacity>
    int call(IoctlCommand<kCapacity>& command) const noexcept {
        return call(command.header());
    }

    // A command of the write() interface, by ioctl. EX commands carry
    // IB_USER_VERBS_CMD_FLAG_EXTENDED in their number.
    template<typename Command, typename Answer>
    int invoke(std::uint32_t number, const Command& command, Answer& answer,
               const DriverData& driver = {}) const noexcept {
        return invoke_bytes(number, &command, sizeof command, &answer, sizeof answer, driver);
    }
    template<typename Command>
    int invoke(std::uint32_t number, const Command& command, const DriverData& driver = {}) const noexcept {
        return invoke_bytes(number, &command, sizeof command, nullptr, 0, driver);
    }

    // Sends a small command by the quickest way that the kernel still allows. ANSWER is where the
    // command's own response pointer points, if it has one.
    template<typename Body>
    [[gnu::always_inline]] int send(const WriteCommand<Body>& command, void* answer,
                                    std::size_t answer_bytes) noexcept {
        ssize_t written = 0;
        if (way_.load(std::memory_order_relaxed) == Way::kWrite) [[likely]] {
            written = write_call(fd_, &command, sizeof command);
            if (written == ssize_t{sizeof command}) [[likely]] {
                return 0;
            }
        }
        return send_otherwise(command.header, sizeof command, written, answer, answer_bytes);
    }

  private:
    // How small commands are sent.
    enum class Way : std::uint8_t { kWrite, kStandIn, kIoctl };

    int call(ib_uverbs_ioctl_hdr& header) const noexcept;
    int invoke_bytes(std::uint32_t number, const void* command, std::size_t command_bytes, void* answer,
                     std::size_t answer_bytes, const DriverData& driver) const noexcept;
    // After a write() that answered WRITTEN, or where none was tried.
    [[gnu::cold]] int send_otherwise(const ib_uverbs_cmd_hdr& command, std::size_t command_bytes,
                                     ssize_t written, void* answer, std::size_t answer_bytes) noexcept;

    const KernelCalls& kernel_;
    const int fd_;
    const std::uint32_t driver_id_;
    std::atomic<Way> way_;
};

// A mapping of memory that the kernel shares with us. Move-only; unmaps at its end.
class Mapping {
  public:
    Mapping() noexcept = default;
    Mapping(Mapping&& other) noexcept;
    Mapping& operator=(Mapping&& other) noexcept;
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping();

    // Maps LEN_BYTES of the device's file at the kernel's cookie OFFSET. 0 or an errno; then the
    // mapping is as it was.
    int map(const Uverbs& uverbs, std::size_t len_bytes, std::uint64_t offset) noexcept;

    void* data() const noexcept { return data_; }
    std::size_t len_bytes() const noexcept { return len_bytes_; }

  private:
    const KernelCalls* kernel_ = nullptr;
    void* data_ = nullptr;
    std::size_t len_bytes_ = 0;
};

} // namespace sluice::abi
