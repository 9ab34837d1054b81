// SPDX-License-Identifier: BSD-3-Clause
#include "layers/cmdev/takeover.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/boundary.hpp"
#include "core/cancellable_call.h"
#include "core/log.hpp"
#include "layers/cmdev/commands.hpp"
#include "layers/cmdev/file.hpp"
#include "layers/cmdev/imports.hpp"
#include "layers/hooks/real.hpp"

namespace sluice::layers::cmdev {

namespace {

// librdmacm has it in /dev/infiniband, under the name that the kernel gives.
bool is_rdma_cm(const char* path) noexcept {
    constexpr std::string_view kName = "/rdma_cm";
    return std::string_view(path).ends_with(kName);
}

Result<int> open_file(Descriptor kernels) {
    if (kernels.get() >= 0) {
        // What the kernel has to report must not make us wait when another thread has taken it.
        (void)fcntl(kernels.get(), F_SETFL, fcntl(kernels.get(), F_GETFL) | O_NONBLOCK);
    }
    Result<std::shared_ptr<File>> file = File::make(std::move(kernels));
    if (!file) {
        return std::move(file).error();
    }
    Descriptor fd((*file)->fd());
    files::add(*std::move(file));
    return fd.release(); // the program closes it
}

int fail(const Error& error) noexcept {
    errno = error.to_errno();
    return -1;
}

int open_in_place(const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode =
        (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(rest, int)) : 0; // as it is promoted
    va_end(rest);
    const int fd = open(path, flags, mode);
    if (!is_rdma_cm(path)) {
        return fd;
    }
    const Result<int> made = at_boundary("open", [fd] { return open_file(Descriptor(fd)); });
    return made ? *made : fail(made.error());
}

// Another thread may close the file at any time, and another file that doesn't wait may get its number: the
// file is asked last, since it knows that it is closed before the number is free.
bool is_to_wait(File& file) {
    const int flags = fcntl(file.fd(), F_GETFL);
    return file.is_closed() || (flags & O_NONBLOCK) == 0;
}

// What a thread has while it waits.
struct Waiting {
    std::shared_ptr<File> file;
    Descriptor own; // that of the file may become another file's
};

// What becomes of a call. Nothing in it has to be destroyed: a thread is cancelled beside it.
struct Turn {
    ssize_t done = 0;
    int error = 0;              // what errno is to be
    Waiting* waiting = nullptr; // not null: done once something has come, and of the next turn
    int fd = -1;                // to wait for; -1: for good
};

void give_up(void* waiting) noexcept {
    delete static_cast<Waiting*>(waiting);
}

Turn over(ssize_t done) noexcept {
    return {.done = done, .error = errno};
}

// A closed file has nothing more to give: its thread waits for good, as the kernel lets it.
Turn wait_for(const std::shared_ptr<File>& file) {
    auto waiting = std::make_unique<Waiting>(Waiting{.file = file, .own = Descriptor()});
    if (!file->is_closed()) {
        waiting->own = Descriptor(fcntl(file->fd(), F_DUPFD_CLOEXEC, 0));
        const int error = errno;
        if (waiting->own.get() < 0 && !file->is_closed()) {
            return {.done = -1, .error = error};
        }
    }
    const int fd = file->is_closed() ? -1 : waiting->own.get();
    return {.waiting = waiting.release(), .fd = fd};
}

// A call's next turn, or its only one.
[[gnu::noinline]] Turn take_turn(const std::shared_ptr<File>& file,
                                 std::span<const std::byte> written) noexcept {
    const Result<Turn> turn = at_boundary("write", [&]() -> Result<Turn> {
        const Result<Answer> answer = execute(file, written);
        if (answer && *answer == Answer::kDone) {
            return over(static_cast<ssize_t>(written.size()));
        }
        const ssize_t done =
            answer ? write(file->kernels(), written.data(), written.size()) : fail(answer.error());
        const bool has_nothing = done < 0 && errno == EAGAIN && waits(written);
        return has_nothing && is_to_wait(*file) ? wait_for(file) : over(done);
    });
    return turn ? *turn : over(fail(turn.error()));
}

[[gnu::noinline]] Turn go_on(Waiting* waiting, std::span<const std::byte> written) noexcept {
    const std::unique_ptr<Waiting> own(waiting);
    return take_turn(own->file, written);
}

// rping's main thread closes the channel and ends the program, while another thread asks for its next event.
// It gets EBADF as from the kernel, but not before a program that ends has ended, which takes longer with our
// devices open than with the kernel's.
ssize_t write_to_other(int fd, std::span<const std::byte> written) {
    constexpr int kMillisecondsToEnd = 1000;
    const ssize_t done = write(fd, written.data(), written.size());
    if (done < 0 && errno == EBADF && waits(written)) {
        (void)poll(nullptr, 0, kMillisecondsToEnd);
        errno = EBADF;
    }
    return done;
}

// FD comes from memory that may be free by now, and may be any number. Nothing: it isn't ours.
[[gnu::noinline]] std::optional<Turn> begin_at(int fd, std::span<const std::byte> written) noexcept {
    const Result<files::Entry> entry =
        at_boundary("write", [fd]() -> Result<files::Entry> { return files::find(fd); });
    if (!entry) {
        return over(fail(entry.error()));
    }
    if (entry->is_parents) {
        errno = EIO; // a device is its process's
        return over(-1);
    }
    return entry->file != nullptr ? std::optional(take_turn(entry->file, written)) : std::nullopt;
}

int sleep_on(void* waited) {
    return poll(static_cast<pollfd*>(waited), 1, -1);
}

// While the thread sleeps, nothing has to be destroyed but what give_up() does.
ssize_t finish(Turn turn, std::span<const std::byte> written) {
    while (turn.waiting != nullptr) {
        pollfd waited = {.fd = turn.fd, .events = POLLIN, .revents = 0};
        if (sluice_cancellable_call(sleep_on, &waited, give_up, turn.waiting) < 0 && turn.fd >= 0) {
            const int error = errno;
            give_up(turn.waiting);
            turn = {.done = -1, .error = error};
        } else if (turn.fd >= 0) {
            turn = go_on(turn.waiting, written);
        }
    }
    if (turn.done < 0) {
        errno = turn.error;
    }
    return turn.done;
}

} // namespace

ssize_t write_command(const std::shared_ptr<File>& file, const void* data, std::size_t bytes) {
    const std::span written(static_cast<const std::byte*>(data), bytes);
    return finish(take_turn(file, written), written);
}

ssize_t write_in_place(int fd, const void* data, std::size_t bytes) {
    const std::span written(static_cast<const std::byte*>(data), bytes);
    const std::optional<Turn> turn = begin_at(fd, written);
    return turn ? finish(*turn, written) : write_to_other(fd, written);
}

namespace {

int close_in_place(int fd) {
    const Result<files::Entry> entry =
        at_boundary("close", [fd]() -> Result<files::Entry> { return files::find(fd); });
    if (entry && entry->file != nullptr) {
        const NotCancelled guard;
        (void)at_boundary("close", [&]() -> Result<void> {
            end(*entry->file); // still in the table: a thread that asks for an event meanwhile waits
            return {};
        });
    }
    (void)at_boundary("close", [fd]() -> Result<files::Entry> { return files::take(fd); });
    return close(fd);
}

// The number that netlink may have given to librdmacm for the device, where there is no node for it.
dev_t kernels_number() noexcept {
    unsigned major_number = 0;
    unsigned minor_number = 0;
    if (FILE* const file = std::fopen("/sys/class/misc/rdma_cm/dev", "re")) {
        (void)!std::fscanf(file, "%u:%u", &major_number, &minor_number); // NOLINT(cert-err34-c): 0:0 then
        (void)std::fclose(file);
    }
    return makedev(major_number, minor_number);
}

int fstat_in_place(int fd, struct stat* status) {
    const Result<files::Entry> entry =
        at_boundary("fstat", [fd]() -> Result<files::Entry> { return files::find(fd); });
    if (!entry || entry->file == nullptr) {
        return fstat(fd, status);
    }
    if (entry->file->kernels() >= 0) {
        return fstat(entry->file->kernels(), status);
    }
    *status = {};
    status->st_mode = S_IFCHR | S_IRUSR | S_IWUSR;
    status->st_rdev = kernels_number();
    return 0;
}

// glibc's name for it before 2.33.
int fxstat_in_place(int /*version*/, int fd, struct stat* status) {
    return fstat_in_place(fd, status);
}

// rsockets send to their own queue pair by the LID of their port, which is 0 on Ethernet, and give up a
// socket of datagrams without such an address handle. There the same is said by the port's own GID.
ibv_ah* create_ah_in_place(ibv_pd* pd, ibv_ah_attr* attr) {
    const hooks::RealVerbs* const real = hooks::real_verbs();
    if (real == nullptr) {
        return nullptr;
    }
    ibv_ah* const made = real->create_ah(pd, attr);
    if (made != nullptr || attr->is_global != 0 || attr->dlid != 0) {
        return made;
    }
    const int error = errno;
    ibv_ah_attr with_route = *attr;
    with_route.is_global = 1;
    with_route.grh.hop_limit = 1;
    if (real->query_gid(pd->context, attr->port_num, 0, &with_route.grh.dgid) != 0) {
        errno = error;
        return nullptr;
    }
    return real->create_ah(pd, &with_route);
}

template<typename Function>
void* address_of(Function* function) noexcept {
    return reinterpret_cast<void*>(function);
}

bool is_librdmacm(const link_map& library) noexcept {
    const std::string_view path = library.l_name;
    const std::size_t slash = path.rfind('/');
    return path.substr(slash == std::string_view::npos ? 0 : slash + 1).starts_with("librdmacm");
}

} // namespace

void take_over_librdmacm(const void* caller) noexcept {
    Dl_info info{};
    void* found = nullptr;
    if (dladdr1(caller, &info, &found, RTLD_DL_LINKMAP) == 0 || found == nullptr) {
        return;
    }
    const auto& library = *static_cast<const link_map*>(found);
    if (!is_librdmacm(library)) {
        return;
    }
    const std::array imports = {
        // With 64 bits, the two that each of these comes in are one.
        Import{.name = "open", .replacement = address_of(open_in_place)},
        Import{.name = "open64", .replacement = address_of(open_in_place)},
        Import{.name = "write", .replacement = address_of(write_in_place)},
        Import{.name = "close", .replacement = address_of(close_in_place)},
        Import{.name = "fstat", .replacement = address_of(fstat_in_place)},
        Import{.name = "fstat64", .replacement = address_of(fstat_in_place)},
        Import{.name = "__fxstat", .replacement = address_of(fxstat_in_place)},
        Import{.name = "__fxstat64", .replacement = address_of(fxstat_in_place)},
    };
    constexpr std::size_t kLeast = 4; // open, write, close and fstat, each under one of its names
    const std::size_t count = replace_imports(library, imports, kLeast);
    if (count < kLeast) {
        SLUICE_LOG(kWarning, "preload",
                   "%s isn't built like a librdmacm that we know: it imports %zu of the functions that its "
                   "device needs, and there should be %zu; uroce can't connect its programs",
                   library.l_name, count, kLeast);
    }
    const std::array of_datagrams = {
        Import{.name = "ibv_create_ah", .replacement = address_of(create_ah_in_place)}};
    (void)replace_imports(library, of_datagrams, of_datagrams.size());
}

} // namespace sluice::layers::cmdev
