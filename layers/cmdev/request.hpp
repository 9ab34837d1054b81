// SPDX-License-Identifier: BSD-3-Clause
//
// What the commands have in common: their bytes, the id that they are about, and addresses in them.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "core/result.hpp"
#include "ibverbs-glue/address.hpp"
#include "layers/cmdev/file.hpp"
#include "layers/cmdev/id.hpp"

namespace sluice::layers::cmdev {

inline Error invalid(const char* text) noexcept {
    return Error(ErrorKind::kInvalidArgument, text, EINVAL);
}

inline Error unbound() noexcept {
    return Error(ErrorKind::kInvalidState, "this id has no device yet", EINVAL);
}

// A command without its header.
class Request {
  public:
    Request(const std::shared_ptr<File>& file, std::span<const std::byte> body, std::size_t room) noexcept
        : file_(file), body_(body), room_(room) {}

    File& file() const noexcept { return *file_; }
    const std::shared_ptr<File>& shared_file() const noexcept { return file_; }
    std::size_t room() const noexcept { return room_; }

    // What isn't there, down to LEAST bytes, is zero: fields that a later version has added.
    template<typename Command>
    Result<Command> as(std::size_t least = sizeof(Command)) const noexcept {
        if (body_.size() < least) {
            return Error(ErrorKind::kInvalidArgument, "the command is shorter than its structure", EINVAL);
        }
        Command command{};
        std::memcpy(&command, body_.data(), std::min(body_.size(), sizeof command));
        return command;
    }

    // ANSWER, of which a caller of an earlier version takes LEAST bytes or more.
    template<typename Answered>
    Result<void> answer(std::uint64_t to, const Answered& answered,
                        std::size_t least = sizeof(Answered)) const noexcept {
        if (room_ < least) {
            return Error(ErrorKind::kOutOfRange, "there is no room for the answer to this command", ENOSPC);
        }
        if (to == 0) {
            return Error(ErrorKind::kInvalidArgument, "the answer to this command has no address", EFAULT);
        }
        std::memcpy(at(to), &answered, std::min(room_, sizeof answered));
        return {};
    }

    static void* at(std::uint64_t address) noexcept {
        return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)); // NOLINT: the ABI has numbers
    }

  private:
    const std::shared_ptr<File>& file_;
    std::span<const std::byte> body_;
    std::size_t room_;
};

inline Result<Answer> done_if(Result<void> done) noexcept {
    return done ? Result<Answer>(Answer::kDone) : std::move(done).error();
}

// BODY(id) for the id that is meant, locked. Only the kernel knows one that isn't here.
template<typename Body>
Result<Answer> with_id(const Request& request, std::uint32_t handle, Body&& body) {
    const std::shared_ptr<SharedId> shared = ids::find(handle);
    if (shared == nullptr) {
        return request.file().kernels() >= 0 ? Result<Answer>(Answer::kByKernel)
                                             : Error(ErrorKind::kNotFound, "there is no such id", ENOENT);
    }
    const LockGuard guard(shared->mutex);
    Id& id = shared->id;
    if (id.is_destroyed || id.file.get() != &request.file()) {
        return invalid("the id is destroyed, or of another channel");
    }
    return body(id);
}

// The same for commands that need a device of uroce's, or else are the kernel's.
template<typename Body>
Result<Answer> with_device(const Request& request, std::uint32_t handle, Body&& body) {
    return with_id(request, handle, [&](Id& id) -> Result<Answer> {
        if (!id.device) {
            return id.is_in_kernel ? Result<Answer>(Answer::kByKernel) : unbound();
        }
        return done_if(body(id));
    });
}

inline constexpr std::uint16_t kInfinibandFamily = 27; // AF_IB

template<typename Storage>
Result<glue::Address> address_in(const Storage& storage) noexcept {
    if (reinterpret_cast<const sockaddr*>(&storage)->sa_family == kInfinibandFamily) {
        return Error(ErrorKind::kNotSupported, "uroce has IPv4 and IPv6 addresses only", EAFNOSUPPORT);
    }
    return glue::Address::from(reinterpret_cast<const sockaddr*>(&storage));
}

// BYTES must be what its family has.
inline Result<glue::Address> address_in(const __kernel_sockaddr_storage& storage,
                                        std::size_t bytes) noexcept {
    Result<glue::Address> address = address_in(storage);
    if (address && address->size() != bytes) {
        return invalid("the size of an address isn't its family's");
    }
    return address;
}

} // namespace sluice::layers::cmdev
