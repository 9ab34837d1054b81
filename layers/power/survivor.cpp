// SPDX-License-Identifier: BSD-3-Clause
#include "layers/power/survivor.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace sluice::layers::power {

namespace {

using file::kLineBytes;

Result<Descriptor> open_own(const std::string& path, int flags) {
    Descriptor opened(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (opened.get() < 0) {
        return Error::format(
            kind_of_errno(errno), errno,
            "%s can't be opened (errno %d), in which `sluice persist run` keeps what survives", path.c_str(),
            errno);
    }
    return opened;
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

Result<void> move(const std::string& from, const std::string& to) {
    if (rename(from.c_str(), to.c_str()) != 0) {
        return Error::format(kind_of_errno(errno), errno, "%s can't be renamed (errno %d)", from.c_str(),
                             errno);
    }
    return {};
}

Result<void> shorten_own(const std::string& path, std::uint64_t length) {
    const Result<Descriptor> own = open_own(path, O_WRONLY);
    if (!own) {
        return own.error().clone();
    }
    const off_t end = lseek(own->get(), 0, SEEK_END);
    if (end > static_cast<off_t>(length) && ftruncate(own->get(), static_cast<off_t>(length)) != 0) {
        return Error::from_errno(errno, "what survives of a file that has become shorter can't be cut");
    }
    return {};
}

} // namespace

// The file system copies lines, and so the words in them, whole: it uses the same loads as memcpy().
Result<std::size_t> read_at(const Descriptor& file, std::uint64_t offset,
                            std::span<std::byte> bytes) noexcept {
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t got =
            pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno != EINTR) {
            return Error::from_errno(errno, "a simulated file can't be read");
        }
        if (got == 0) {
            break;
        }
        done += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    }
    return done;
}

Survivor::Survivor(const std::string& directory, std::size_t number)
    : durable_{directory + "/" + file::durable_name(number),
               directory + "/" + file::durable_name(number) + ".aside"},
      numbers_{directory + "/" + file::numbers_name(number),
               directory + "/" + file::numbers_name(number) + ".aside"} {}

Result<void> Survivor::write(std::uint64_t offset, std::span<const std::byte> bytes, std::uint64_t number,
                             Room& room) const {
    const std::uint64_t lines = in_whole_lines(bytes.size()) / kLineBytes;
    const std::uint64_t numbers_at = offset / kLineBytes * sizeof(std::uint64_t);
    const std::span<std::uint64_t> numbers = std::span(room.numbers).first(lines);
    const Result<Descriptor> durable = open_own(durable_.used, O_WRONLY);
    const Result<Descriptor> numbers_file = open_own(numbers_.used, O_RDWR | O_CREAT);
    if (!durable || !numbers_file) {
        return (durable ? numbers_file : durable).error().clone();
    }
    std::ranges::fill(numbers, 0); // behind the end
    if (const Result<std::size_t> got = read_at(*numbers_file, numbers_at, std::as_writable_bytes(numbers));
        !got) {
        return got.error().clone();
    }
    for (std::uint64_t first = 0, end = 0; first < lines; first = end) {
        const bool is_newer = numbers[first] < number;
        for (end = first; end < lines && (numbers[end] < number) == is_newer; ++end) {
        }
        if (is_newer) {
            const std::uint64_t from = first * kLineBytes;
            const std::uint64_t to = std::min<std::uint64_t>(end * kLineBytes, bytes.size());
            if (Result<void> written = write_at(*durable, offset + from, bytes.subspan(from, to - from));
                !written) {
                return written;
            }
            std::ranges::fill(numbers.subspan(first, end - first), number);
        }
    }
    return write_at(*numbers_file, numbers_at, std::as_bytes(numbers));
}

Result<void> Survivor::shorten(std::uint64_t length) const {
    Result<void> done = shorten_own(durable_.used, length);
    return done ? shorten_own(numbers_.used, in_whole_lines(length) / kLineBytes * sizeof(std::uint64_t))
                : std::move(done);
}

Result<void> Survivor::put_aside() const {
    Result<void> done = move(durable_.used, durable_.aside);
    return done ? move(numbers_.used, numbers_.aside) : std::move(done);
}

Result<void> Survivor::take_from(const Survivor& other) const {
    Result<void> done = move(other.durable_.aside, durable_.used);
    return done ? move(other.numbers_.aside, numbers_.used) : std::move(done);
}

Result<void> Survivor::nothing() const {
    constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC;
    const Result<Descriptor> durable = open_own(durable_.used, kNew);
    const Result<Descriptor> numbers = open_own(numbers_.used, kNew);
    if (!durable || !numbers) {
        return (durable ? numbers : durable).error().clone();
    }
    return {};
}

Result<void> Survivor::copy_of(const Descriptor& file, Room& room) const {
    if (Result<void> made = nothing(); !made) {
        return made;
    }
    const Result<Descriptor> durable = open_own(durable_.used, O_WRONLY);
    if (!durable) {
        return durable.error().clone();
    }
    for (std::uint64_t offset = 0;; offset += kPieceBytes) {
        const Result<std::size_t> got = read_at(file, offset, room.bytes);
        if (!got) {
            return got.error().clone();
        }
        if (Result<void> written = write_at(*durable, offset, std::span(room.bytes).first(*got));
            !written || *got < kPieceBytes) {
            return written;
        }
    }
}

void Survivor::forget_aside() const noexcept {
    unlink(durable_.aside.c_str());
    unlink(numbers_.aside.c_str());
}

} // namespace sluice::layers::power
