// SPDX-License-Identifier: BSD-3-Clause
#include "layers/power/survivors.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>

namespace sluice::layers::power {

namespace {

using file::kLineBytes;

constexpr const char* kDurable = "durable";
constexpr const char* kNumbers = "numbers";

// What there is of BYTES at OFFSET of FILE.
Result<std::size_t> read_at(int file, std::uint64_t offset, std::span<std::byte> bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t got =
            pread(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno != EINTR) {
            return Error::from_errno(errno, "a simulated file, or what survives of it, can't be read");
        }
        if (got == 0) {
            break;
        }
        done += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    }
    return done;
}

Result<void> write_at(const Descriptor& file, std::uint64_t offset, std::span<const std::byte> bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
        const ssize_t put =
            pwrite(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
        if (put < 0 && errno != EINTR) {
            return Error::from_errno(errno, "what survives can't be written; TMPDIR may name a directory "
                                            "with more room");
        }
        done += static_cast<std::size_t>(std::max<ssize_t>(put, 0));
    }
    return {};
}

Result<file::Age> read_age(const Descriptor& numbers) {
    file::Age age{};
    const Result<std::size_t> got = read_at(numbers.get(), 0, std::as_writable_bytes(std::span(&age, 1)));
    return got ? Result<file::Age>(age) : got.error().clone();
}

Result<void> write_age(const Descriptor& numbers, const file::Age& age) {
    return write_at(numbers, 0, std::as_bytes(std::span(&age, 1)));
}

constinit Mutex raising;

// Its owner isn't there.
[[gnu::constructor]] void renew_in_children() noexcept {
    pthread_atfork(nullptr, nullptr, [] { std::construct_at(&raising); });
}

Result<void> cut_at(const Descriptor& file, std::uint64_t length) {
    struct stat status {};
    if (fstat(file.get(), &status) == 0 && static_cast<std::uint64_t>(status.st_size) > length &&
        ftruncate(file.get(), static_cast<off_t>(length)) != 0) {
        return Error::from_errno(errno, "what survives of a file that has become shorter can't be cut");
    }
    return {};
}

} // namespace

MoreDescriptors::MoreDescriptors() noexcept : turn_(raising) {
    if (getrlimit(RLIMIT_NOFILE, &former_) == 0) {
        const rlimit most{former_.rlim_max, former_.rlim_max};
        setrlimit(RLIMIT_NOFILE, &most);
    }
}

MoreDescriptors::~MoreDescriptors() {
    const int why = errno;
    if (former_.rlim_max != 0) {
        setrlimit(RLIMIT_NOFILE, &former_);
    }
    errno = why;
}

Descriptor open_anyhow(const char* path, int flags) noexcept {
    const auto attempt = [&] { return Descriptor(::open(path, flags | O_CLOEXEC | O_NOCTTY, 0600)); };
    Descriptor opened = attempt();
    if (opened.get() < 0 && errno == EMFILE) {
        const MoreDescriptors more;
        opened = attempt();
    }
    return opened;
}

const char* Survivors::path_of(std::uint64_t survivor, const char* kind) const noexcept {
    std::snprintf(room_->path.data(), room_->path.size(), "%s/%" PRIu64 ".%s", directory_.c_str(), survivor,
                  kind);
    return room_->path.data();
}

Result<Descriptor> Survivors::open(std::uint64_t survivor, const char* kind, int flags) const {
    Descriptor opened = open_anyhow(path_of(survivor, kind), flags | O_NOFOLLOW);
    if (opened.get() < 0) {
        const int why = errno;
        return Error::format(
            kind_of_errno(why), why,
            "%s can't be opened (errno %d), in which `sluice persist run` keeps what survives",
            room_->path.data(), why);
    }
    return opened;
}

Result<void> Survivors::copy(int from, const Descriptor& to) const {
    for (std::uint64_t offset = 0;; offset += kPieceBytes) {
        const Result<std::size_t> got = read_at(from, offset, room_->bytes);
        if (!got) {
            return got.error().clone();
        }
        Result<void> written = write_at(to, offset, std::span(room_->bytes).first(*got));
        if (!written) {
            return written;
        }
        if (*got < kPieceBytes) {
            return cut_at(to, offset + *got);
        }
    }
}

Result<void> Survivors::make(std::uint64_t survivor, const Descriptor* file, std::uint64_t number) const {
    constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC;
    const Result<Descriptor> durable = open(survivor, kDurable, kNew);
    const Result<Descriptor> numbers = durable ? open(survivor, kNumbers, kNew) : durable.error().clone();
    if (!numbers) {
        return numbers.error().clone();
    }
    Result<void> made = write_age(*numbers, {number, 0, 0});
    return made && file != nullptr ? copy(file->get(), *durable) : std::move(made);
}

void Survivors::remove(std::uint64_t survivor) const noexcept {
    unlink(path_of(survivor, kDurable));
    unlink(path_of(survivor, kNumbers));
}

std::uint64_t Survivors::length(std::uint64_t survivor) const noexcept {
    struct stat status {};
    return stat(path_of(survivor, kDurable), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

Result<void> Survivors::write_piece(const Descriptor& durable, const Descriptor& numbers,
                                    std::uint64_t offset, std::span<const std::byte> bytes,
                                    std::uint64_t number, const file::Age& age) const {
    const std::uint64_t first_line = offset / kLineBytes;
    const std::uint64_t lines = in_whole_lines(bytes.size()) / kLineBytes;
    const std::uint64_t numbers_at = sizeof(file::Age) + first_line * sizeof(std::uint64_t);
    const std::span<std::uint64_t> own = std::span(room_->numbers).first(lines);
    std::ranges::fill(own, 0); // behind the end
    if (const Result<std::size_t> got = read_at(numbers.get(), numbers_at, std::as_writable_bytes(own));
        !got) {
        return got.error().clone();
    }
    const auto is_newer = [&](std::uint64_t line) { return std::max(own[line], age.all) < number; };
    const std::uint64_t left =
        std::max(age.cut_length, offset) - offset; // of what was looked at before the cut
    const std::uint64_t limit = number < age.cut ? std::min<std::uint64_t>(left, bytes.size()) : bytes.size();
    for (std::uint64_t first = 0, end = 0; first < lines; first = end) {
        const bool are_newer = is_newer(first);
        for (end = first + 1; end < lines && is_newer(end) == are_newer; ++end) {
        }
        if (!are_newer) {
            continue;
        }
        const std::uint64_t from = first * kLineBytes;
        const std::uint64_t to = std::max(from, std::min(end * kLineBytes, limit));
        if (Result<void> written = write_at(durable, offset + from, bytes.subspan(from, to - from));
            !written) {
            return written;
        }
        std::ranges::fill(own.subspan(first, end - first), number);
    }
    return write_at(numbers, numbers_at, std::as_bytes(own));
}

Result<void> Survivors::write(std::uint64_t survivor, std::uint64_t offset, std::span<const std::byte> bytes,
                              std::uint64_t number) const {
    const Result<Descriptor> durable = open(survivor, kDurable, O_WRONLY);
    const Result<Descriptor> numbers = durable ? open(survivor, kNumbers, O_RDWR) : durable.error().clone();
    if (!numbers) {
        return numbers.error().clone();
    }
    const Result<file::Age> age = read_age(*numbers);
    if (!age) {
        return age.error().clone();
    }
    Result<void> done;
    for (std::uint64_t at = 0; done && at < bytes.size(); at += kPieceBytes) {
        const std::uint64_t length = std::min<std::uint64_t>(kPieceBytes, bytes.size() - at);
        done = write_piece(*durable, *numbers, offset + at, bytes.subspan(at, length), number, *age);
    }
    return done;
}

Result<void> Survivors::write_all(std::uint64_t survivor, int file, std::uint64_t number) const {
    const Result<Descriptor> durable = open(survivor, kDurable, O_WRONLY);
    const Result<Descriptor> numbers = durable ? open(survivor, kNumbers, O_WRONLY) : durable.error().clone();
    if (!numbers) {
        return numbers.error().clone();
    }
    Result<void> copied = copy(file, *durable);
    return copied ? write_age(*numbers, {number, 0, 0}) : std::move(copied);
}

// The numbers first: a process that dies in the middle has changed nothing that counts, and the next one
// cuts.
Result<void> Survivors::shorten(std::uint64_t survivor, std::uint64_t before, std::uint64_t length,
                                std::uint64_t number) const {
    const Result<Descriptor> durable = open(survivor, kDurable, O_WRONLY);
    const Result<Descriptor> numbers = durable ? open(survivor, kNumbers, O_RDWR) : durable.error().clone();
    if (!numbers) {
        return numbers.error().clone();
    }
    Result<file::Age> age = read_age(*numbers);
    if (!age) {
        return std::move(age).error();
    }
    age->cut = number;
    age->cut_length = length;
    Result<void> done = write_age(*numbers, *age);
    room_->numbers.fill(number);
    const std::uint64_t end = in_whole_lines(before) / kLineBytes;
    for (std::uint64_t line = in_whole_lines(length) / kLineBytes; done && line < end;) {
        const std::uint64_t count = std::min<std::uint64_t>(end - line, room_->numbers.size());
        done = write_at(*numbers, sizeof(file::Age) + line * sizeof number,
                        std::as_bytes(std::span(room_->numbers).first(count)));
        line += count;
    }
    return done ? cut_at(*durable, length) : std::move(done);
}

} // namespace sluice::layers::power
