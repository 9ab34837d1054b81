// SPDX-License-Identifier: BSD-3-Clause
#include "provider/abi/uverbs.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

namespace sluice::abi {

namespace {

int real_ioctl(int fd, unsigned long request, void* argument) {
    return ::ioctl(fd, request, argument);
}

ssize_t real_write(int fd, const void* data, std::size_t len_bytes) {
    const ssize_t written = write_call(fd, data, len_bytes);
    if (written < 0) {
        errno = static_cast<int>(-written);
        return -1;
    }
    return written;
}

// The errno of a failed system call; never 0, which would read as success.
int last_error() noexcept {
    return errno != 0 ? errno : EIO;
}

int real_open(const char* path) {
    return ::open(path, O_RDONLY | O_CLOEXEC);
}

ssize_t real_pread(int fd, void* data, std::size_t len_bytes) {
    return ::pread(fd, data, len_bytes, 0);
}

} // namespace

const KernelCalls kRealKernelCalls{real_ioctl, real_write, ::mmap, ::munmap, real_open, real_pread, ::close};

int Uverbs::call(ib_uverbs_ioctl_hdr& header) const noexcept {
    header.length = static_cast<std::uint16_t>(sizeof header + header.num_attrs * sizeof(ib_uverbs_attr));
    header.driver_id = driver_id_;
    return kernel_.ioctl(fd_, RDMA_VERBS_IOCTL, &header) == 0 ? 0 : last_error();
}

int Uverbs::invoke_bytes(std::uint32_t number, const void* command, std::size_t command_bytes, void* answer,
                         std::size_t answer_bytes, const DriverData& driver) const noexcept {
    IoctlCommand<5> ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    ioctl.input(UVERBS_ATTR_CORE_IN, command, command_bytes);
    if (answer_bytes != 0) {
        ioctl.output(UVERBS_ATTR_CORE_OUT, answer, answer_bytes);
    }
    ioctl.constant(UVERBS_ATTR_WRITE_CMD, number);
    if (!driver.in.empty()) {
        ioctl.input(UVERBS_ATTR_UHW_IN, driver.in.data(), driver.in.size());
    }
    if (!driver.out.empty()) {
        ioctl.output(UVERBS_ATTR_UHW_OUT, driver.out.data(), driver.out.size());
    }
    return call(ioctl);
}

int Uverbs::send_otherwise(const ib_uverbs_cmd_hdr& command, std::size_t command_bytes, ssize_t written,
                           void* answer, std::size_t answer_bytes) noexcept {
    const Way way = way_.load(std::memory_order_relaxed);
    if (way == Way::kStandIn) {
        written = kernel_.write(fd_, &command, command_bytes);
        if (written < 0) {
            written = -last_error();
        }
    }
    if (way != Way::kIoctl) {
        if (written == static_cast<ssize_t>(command_bytes)) {
            return 0;
        }
        if (written != -EACCES) {
            return written < 0 ? static_cast<int>(-written) : EIO;
        }
        way_.store(Way::kIoctl, std::memory_order_relaxed);
    }
    return invoke_bytes(command.command, &command + 1, command_bytes - sizeof command, answer, answer_bytes,
                        {});
}

Mapping::Mapping(Mapping&& other) noexcept
    : kernel_(other.kernel_), data_(std::exchange(other.data_, nullptr)), len_bytes_(other.len_bytes_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    std::swap(kernel_, other.kernel_);
    std::swap(data_, other.data_);
    std::swap(len_bytes_, other.len_bytes_);
    return *this;
}

Mapping::~Mapping() {
    if (data_ != nullptr) {
        kernel_->munmap(data_, len_bytes_);
    }
}

int Mapping::map(const Uverbs& uverbs, std::size_t len_bytes, std::uint64_t offset) noexcept {
    Mapping fresh;
    void* data = uverbs.kernel().mmap(nullptr, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, uverbs.fd(),
                                      static_cast<off_t>(offset));
    if (data == MAP_FAILED) {
        return last_error();
    }
    fresh.kernel_ = &uverbs.kernel();
    fresh.data_ = data;
    fresh.len_bytes_ = len_bytes;
    *this = std::move(fresh);
    return 0;
}

} // namespace sluice::abi
