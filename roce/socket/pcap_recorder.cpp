// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/pcap_recorder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "core/log.hpp"
#include "core/not_cancelled.hpp"
#include "core/settings.hpp"
#include "roce/socket/flat_packet.hpp"

namespace sluice::roce::socket {
namespace {

// The file format's own, in this machine's byte order: readers tell from the first number.
struct FileHeader {
    std::uint32_t magic = 0xa1b23c4d; // with nanoseconds
    std::uint16_t major = 2;
    std::uint16_t minor = 4;
    std::int32_t zone = 0;
    std::uint32_t accuracy = 0;
    std::uint32_t most_bytes = 0x10000;
    std::uint32_t link_type = 101; // packets begin with IPv4 or IPv6
};
static_assert(sizeof(FileHeader) == 24);

struct RecordHeader {
    std::uint32_t seconds;
    std::uint32_t nanoseconds;
    std::uint32_t kept_bytes;
    std::uint32_t whole_bytes;
};
static_assert(sizeof(RecordHeader) == 16);

Error file_error(const std::string& path, int error, const char* why) {
    return Error::format(kind_of_errno(error), error, "recording packets to %s (SLUICE_UROCE_PCAP): %s",
                         path.c_str(), why);
}

Error file_error(const std::string& path) {
    return file_error(path, errno, strerrordesc_np(errno));
}

// A descriptor that the process has already: opened on purpose, by it or its parent.
bool is_own_descriptor(const std::string& path) {
    return path == "/dev/stdout" || path == "/dev/stderr" || path.starts_with("/dev/fd/") ||
           path.starts_with("/proc/self/fd/");
}

// Why what is there already must not be written to; null if it may be. What was there is lost, so it must be
// ours alone: in a directory that others write to, somebody may have put a link there.
const char* objection(int file) {
    struct stat status {};
    if (fstat(file, &status) != 0) {
        return strerrordesc_np(errno);
    }
    if (S_ISCHR(status.st_mode)) {
        return nullptr; // /dev/null
    }
    if (status.st_uid != geteuid()) {
        return "another user's file is there; choose another name";
    }
    if (S_ISREG(status.st_mode) && status.st_nlink != 1) {
        return "the file has another name too, and would be lost there; choose another name";
    }
    return S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode) ? nullptr
                                                               : "that is neither a file nor a pipe";
}

Result<Descriptor> create(const std::string& path) {
    constexpr int kFlags = O_WRONLY | O_CLOEXEC | O_NONBLOCK;
    if (is_own_descriptor(path)) {
        Descriptor file(::open(path.c_str(), kFlags));
        return file.get() >= 0 ? Result<Descriptor>(std::move(file)) : file_error(path);
    }
    Descriptor made(::open(path.c_str(), kFlags | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    if (made.get() >= 0) {
        return made;
    }
    if (errno != EEXIST) {
        return file_error(path);
    }
    Descriptor found(::open(path.c_str(), kFlags | O_NOFOLLOW));
    if (found.get() < 0) {
        return errno == ELOOP
                   ? file_error(path, ELOOP, "a link is there, and none is followed; name its target")
                   : file_error(path);
    }
    if (const char* const why = objection(found.get()); why != nullptr) {
        return file_error(path, EPERM, why);
    }
    return found;
}

std::uint32_t sum_words(wire::ConstBytes bytes, std::uint32_t sum) noexcept {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        sum += i % 2 == 0 ? std::uint32_t{bytes[i]} << 8 : bytes[i];
    }
    return sum;
}

// IPv6 has no packet without a UDP checksum (RFC 8200, 8.1); the kernel computes ours on its way.
// HEADERS are IPv6's and UDP's with a checksum of 0.
void set_udp_checksum(wire::MutableBytes headers, wire::ConstBytes payload) noexcept {
    constexpr std::size_t kAddresses = 8;
    constexpr std::size_t kChecksum = wire::Ipv6Header::kBytes + 6;
    const std::size_t udp_bytes = wire::UdpHeader::kBytes + payload.size();
    std::uint32_t sum = wire::kProtocolUdp + static_cast<std::uint32_t>(udp_bytes);
    sum = sum_words(payload, sum_words(headers.subspan(kAddresses), sum));
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
    sum = sum == 0 ? 0xffff : sum;
    headers[kChecksum] = static_cast<std::uint8_t>(sum >> 8);
    headers[kChecksum + 1] = static_cast<std::uint8_t>(sum);
}

bool write_all(int file, const std::uint8_t* bytes, std::size_t count) noexcept {
    const NotCancelled guard;
    while (count != 0) {
        const ssize_t written = write(file, bytes, count);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        const auto done = static_cast<std::size_t>(written < 0 ? 0 : written);
        bytes += done;
        count -= done;
    }
    return true;
}

Result<std::unique_ptr<PcapRecorder>> open_by_setting() {
    const char* const path = setting_value(Setting::kUrocePcap);
    if (path == nullptr || *path == '\0') {
        return std::unique_ptr<PcapRecorder>();
    }
    return PcapRecorder::open(path);
}

} // namespace

Result<std::unique_ptr<PcapRecorder>> PcapRecorder::open(const std::string& wanted) {
    std::string path = wanted;
    Result<Descriptor> file = create(path);
    if (file && flock(file->get(), LOCK_EX | LOCK_NB) != 0) {
        path += "." + std::to_string(getpid());
        SLUICE_LOG(kWarning, "uroce", "another process records to %s; this one writes %s", wanted.c_str(),
                   path.c_str());
        file = create(path);
    }
    if (!file) {
        return std::move(file).error();
    }
    const FileHeader header;
    // A pipe can't be emptied, and needn't be.
    if ((ftruncate(file->get(), 0) != 0 && errno != EINVAL) ||
        !write_all(file->get(), reinterpret_cast<const std::uint8_t*>(&header), sizeof header)) {
        return file_error(path);
    }
    return std::unique_ptr<PcapRecorder>(new PcapRecorder(std::move(path), *std::move(file)));
}

Result<PcapRecorder*> PcapRecorder::by_setting() {
    // Never destroyed: threads of devices may be running until the very end of the process.
    static const auto& recorder = *new Result<std::unique_ptr<PcapRecorder>>(open_by_setting());
    static const struct FlushAtExit {
        ~FlushAtExit() {
            if (recorder && *recorder != nullptr) {
                (*recorder)->flush();
            }
        }
    } flush_at_exit;
    if (!recorder) {
        return recorder.error().clone();
    }
    return recorder->get();
}

PcapRecorder::PcapRecorder(std::string path, Descriptor file)
    : path_(std::move(path)), process_(getpid()), file_(std::move(file)),
      buffer_(std::make_unique_for_overwrite<std::uint8_t[]>(kBufferBytes)) {}

PcapRecorder::~PcapRecorder() {
    flush();
}

void PcapRecorder::record(const wire::Frame& frame, wire::ConstBytes udp_payload) noexcept {
    std::array<std::uint8_t, wire::Ipv6Header::kBytes + wire::UdpHeader::kBytes> headers;
    const std::size_t header_bytes =
        wire::write_ip_udp(frame, udp_payload.size() - wire::kIcrcBytes, headers);
    if (frame.is_ipv6 && header_bytes != 0 && frame.udp.checksum == 0) {
        set_udp_checksum(std::span(headers).first(header_bytes), udp_payload);
    }
    const std::size_t whole_bytes = header_bytes + udp_payload.size();
    timespec now = {};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const RecordHeader record = {.seconds = static_cast<std::uint32_t>(now.tv_sec),
                                 .nanoseconds = static_cast<std::uint32_t>(now.tv_nsec),
                                 .kept_bytes = static_cast<std::uint32_t>(whole_bytes),
                                 .whole_bytes = static_cast<std::uint32_t>(whole_bytes)};
    const LockGuard lock(lock_);
    if (header_bytes == 0 || failed_) {
        return;
    }
    if (used_bytes_ + sizeof record + whole_bytes > kBufferBytes) {
        flush_locked();
    }
    std::uint8_t* to = buffer_.get() + used_bytes_;
    std::memcpy(to, &record, sizeof record);
    to += sizeof record;
    std::memcpy(to, headers.data(), header_bytes);
    std::memcpy(to + header_bytes, udp_payload.data(), udp_payload.size());
    used_bytes_ += sizeof record + whole_bytes;
}

void PcapRecorder::record(const engine::OutPacket& packet, engine::Memory& memory) noexcept {
    std::array<std::uint8_t, kMaxPacketBytes> bytes;
    const std::size_t packet_bytes = flat_bytes(packet);
    if (packet_bytes > bytes.size()) {
        return;
    }
    const wire::MutableBytes whole = std::span(bytes).first(packet_bytes);
    if (copy_packet(packet, memory, whole)) {
        record(seal(whole, packet.source, packet.destination, 0), whole);
    }
}

void PcapRecorder::flush() noexcept {
    const LockGuard lock(lock_);
    flush_locked();
}

void PcapRecorder::flush_locked() noexcept {
    const std::size_t count = used_bytes_;
    used_bytes_ = 0;
    if (count == 0 || failed_ || getpid() != process_) {
        return;
    }
    if (!write_all(file_.get(), buffer_.get(), count)) {
        failed_ = true;
        SLUICE_LOG(kError, "uroce", "recording packets to %s ends here: %s", path_.c_str(),
                   strerrordesc_np(errno));
    }
}

} // namespace sluice::roce::socket
