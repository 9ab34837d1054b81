// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/peer_read.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/boundary.hpp"
#include "core/descriptor.hpp"
#include "core/report/file/words.hpp"
#include "core/report/finding.hpp"
#include "core/report/record.hpp"
#include "core/sync.hpp"

namespace sluice::report {

namespace {

using file::add_line;

// What this process has told. Never destroyed: destructors of programs call us.
class Told {
  public:
    static Told& instance() {
        static auto* const told = new Told;
        return *told;
    }

    // Whether one more of that kind is told.
    bool add(std::string kind) {
        const LockGuard lock(mutex_);
        if (count_ == kMost) {
            return false;
        }
        unsigned& of_kind = kinds_[std::move(kind)];
        if (of_kind == kMostOfKind) {
            return false;
        }
        ++of_kind;
        ++count_;
        return true;
    }

  private:
    static constexpr std::size_t kMost = 4096;
    static constexpr unsigned kMostOfKind = 64; // programs poll by Reads

    Mutex mutex_;
    std::map<std::string, unsigned> kinds_ SLUICE_TSA(guarded_by(mutex_));
    std::size_t count_ SLUICE_TSA(guarded_by(mutex_)) = 0;
};

// One place in the program, which reads the same bytes of the same peer's.
std::string kind_of(const PeerRead& read, const Stack& stack) {
    std::string kind = read.address;
    for (const std::uint64_t each : {std::uint64_t{read.number}, read.first, read.last}) {
        kind += ' ' + std::to_string(each);
    }
    for (const void* const frame : stack.frames()) {
        kind += ' ' + std::to_string(reinterpret_cast<std::uintptr_t>(frame));
    }
    return kind;
}

// The lines of FRAMES, which are a finding's, as those of a record.
void add_frames(std::string& to, std::string_view frames) {
    while (!frames.empty()) {
        const std::string_view line = frames.substr(0, frames.find('\n'));
        frames.remove_prefix(std::min(line.size() + 1, frames.size()));
        to.append(kFramePrefix).append(line).append("\n");
    }
}

std::string text_of(const PeerRead& read, const Stack& stack) {
    std::string text;
    add_line(text, kReadWord,
             std::to_string(getpid()) + " " + std::to_string(read.number) + " " + std::to_string(read.first) +
                 " " + std::to_string(read.last) + " " + std::to_string(read.posted_ns) + " " + read.address);
    add_frames(text, frames_of(stack));
    return text.append(kEndWord).append("\n");
}

} // namespace

void write(const PeerRead& read, const Stack& stack) noexcept {
    if (depth() == Depth::kNothing) {
        return;
    }
    const int former_errno = errno;
    (void)at_boundary("telling of a Read", [&]() -> Result<void> {
        if (Told::instance().add(kind_of(read, stack))) {
            append(findings_file(), text_of(read, stack));
        } else {
            write_blind_spot("what a process reads of other processes' memory, of 64 Reads of the same "
                             "bytes, or 4096 in all, on");
        }
        return {};
    });
    errno = former_errno;
}

std::vector<PeerRead> PeerReads::take() {
    constexpr std::uint64_t kMostAtOnce = 4 << 20; // the rest by the next call
    std::vector<PeerRead> taken;
    struct stat now {};
    if (stat(findings_file(), &now) != 0 || static_cast<std::uint64_t>(now.st_size) <= at_) {
        return taken;
    }
    const Descriptor file(open(findings_file(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    const std::uint64_t end = at_ + kMostAtOnce;
    for (ssize_t count = 0; at_ < end && (count = pread(file.get(), bytes_.data(), bytes_.size(),
                                                        static_cast<off_t>(at_))) > 0;) {
        at_ += static_cast<std::uint64_t>(count);
        std::vector<PeerRead> more = parser_.feed({bytes_.data(), static_cast<std::size_t>(count)}, getpid());
        std::ranges::move(more, std::back_inserter(taken));
    }
    return taken;
}

} // namespace sluice::report
