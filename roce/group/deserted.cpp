// SPDX-License-Identifier: BSD-3-Clause
#include "roce/group/deserted.hpp"

#include <algorithm>

namespace sluice::roce::group {

void Deserted::add(int socket_fd, const engine::Address& local, socket::PcapRecorder* recorder) {
    if (find(socket_fd) == nullptr) {
        all_.push_back({.socket_fd = socket_fd,
                        .receiver = std::make_unique<socket::Receiver>(socket_fd, local, recorder)});
    }
}

void Deserted::remove(int socket_fd) noexcept {
    std::erase_if(all_, [&](const One& one) { return one.socket_fd == socket_fd; });
}

socket::Receiver* Deserted::find(int socket_fd) const noexcept {
    const auto one = std::ranges::find(all_, socket_fd, &One::socket_fd);
    return one != all_.end() ? one->receiver.get() : nullptr;
}

} // namespace sluice::roce::group
