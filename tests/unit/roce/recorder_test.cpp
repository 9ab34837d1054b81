// SPDX-License-Identifier: BSD-3-Clause
//
// Recordings: what is in the file is what was on the wire, and what happens when there can't be one.
#include "roce/socket/pcap_recorder.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "core/log.hpp"
#include "tests/machine.hpp"
#include "tests/unit/roce/free_address.hpp"
#include "tests/unit/roce/pcap.hpp"
#include "tests/unit/roce/random.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::roce;
using namespace sluice::roce::engine;
using namespace sluice::roce::socket;
using sluice::roce::socket::test::open_free_port;
using sluice::roce::test::read_file;
using sluice::roce::test::read_pcap;

namespace {

PlainMemory memory;

// A directory that goes with the object.
struct Directory {
    std::string file(const char* name = "trace.pcap") const { return scratch.root() + "/" + name; }
    sluice::test::Machine scratch;
};

std::unique_ptr<PcapRecorder> recorder_to(const std::string& path) {
    auto recorder = PcapRecorder::open(path);
    assert_true(recorder.ok());
    return *std::move(recorder);
}

const std::vector<std::uint8_t> kPayload(300, 0x42);

OutPacket packet(const Address& from, const Address& to, std::uint32_t psn, std::uint32_t bytes = 300) {
    wire::Packet header;
    header.bth.opcode = wire::kRcSendOnly;
    header.bth.psn = psn;
    OutPacket out;
    out.begin();
    out.add_piece(reinterpret_cast<std::uintptr_t>(kPayload.data()), bytes);
    out.packet = header;
    out.finish();
    out.source = from;
    out.destination = to;
    return out;
}

// Each frame of the file has a valid ICRC; returns their packet numbers.
std::vector<std::uint32_t> checked_psns(const std::string& path) {
    std::vector<std::uint32_t> psns;
    for (const auto& datagram : read_pcap(path)) {
        wire::Frame frame;
        assert_true(wire::parse_frame(datagram, frame) == wire::Refusal::kNone);
        assert_int_equal(frame.icrc, wire::expected_icrc(frame));
        assert_true(frame.is_ipv6 || frame.ipv4.checksum == wire::ipv4_checksum(frame.ipv4));
        wire::Packet parsed;
        assert_true(wire::parse(frame.transport, parsed) == wire::Refusal::kNone);
        psns.push_back(parsed.bth.psn);
    }
    return psns;
}

TEST(record__both_ends__same_frames_with_valid_checksums) {
    const Directory directory;
    const auto sent = recorder_to(directory.file("sent"));
    const auto received = recorder_to(directory.file("received"));
    const auto from = open_free_port(memory, {.recorder = sent.get()});
    const auto to = open_free_port(memory, {.recorder = received.get()});
    for (std::uint32_t psn = 0; psn < 5; ++psn) {
        assert_true(from->sender().append(packet(from->local(), to->local(), psn, psn == 4 ? 7 : 300)));
    }
    assert_true(from->sender().flush());
    pollfd wanted = {.fd = to->descriptor(), .events = POLLIN, .revents = 0};
    assert_int_equal(poll(&wanted, 1, 5000), 1);
    to->receiver().fetch(Receiver::kMaxMessages);
    assert_int_equal(to->receiver().deliver([](const InPacket&) {}), 5);
    sent->flush();
    received->flush();
    assert_true(checked_psns(sent->path()) == (std::vector<std::uint32_t>{0, 1, 2, 3, 4}));
    assert_true(read_pcap(sent->path()) == read_pcap(received->path()));
}

// Whose identification had to be solved for; the checksum in the file is valid with it.
TEST(record__received_in_segments__with_their_identifications) {
    const Directory directory;
    const auto received = recorder_to(directory.file());
    const auto from = open_free_port(memory);
    const auto to = open_free_port(memory, {.use_gro = false, .recorder = received.get()});
    for (std::uint32_t psn = 0; psn < 4; ++psn) {
        assert_true(from->sender().append(packet(from->local(), to->local(), psn)));
    }
    assert_true(from->sender().flush());
    pollfd wanted = {.fd = to->descriptor(), .events = POLLIN, .revents = 0};
    assert_int_equal(poll(&wanted, 1, 5000), 1);
    to->receiver().fetch(Receiver::kMaxMessages);
    assert_int_equal(to->receiver().counters().solved.get(), 3);
    received->flush();
    assert_true(checked_psns(received->path()) == (std::vector<std::uint32_t>{0, 1, 2, 3}));
}

TEST(record__received__with_the_hops_that_were_left) {
    const Directory directory;
    const auto received = recorder_to(directory.file());
    const auto from = open_free_port(memory);
    const auto to = open_free_port(memory, {.recorder = received.get()});
    const int hops = 33;
    assert_int_equal(setsockopt(from->descriptor(), IPPROTO_IP, IP_TTL, &hops, sizeof hops), 0);
    assert_true(from->sender().append(packet(from->local(), to->local(), 1)));
    assert_true(from->sender().flush());
    pollfd wanted = {.fd = to->descriptor(), .events = POLLIN, .revents = 0};
    assert_int_equal(poll(&wanted, 1, 5000), 1);
    to->receiver().fetch(Receiver::kMaxMessages);
    received->flush();
    const auto datagrams = read_pcap(received->path());
    assert_int_equal(datagrams.size(), 1);
    assert_int_equal(datagrams[0][8], hops);
}

TEST(record__short_way__as_it_would_have_looked) {
    const Directory directory;
    const auto recorder = recorder_to(directory.file());
    for (const char* text : {"127.0.0.2", "2001:db8::2"}) {
        const auto address = parse_address(text);
        recorder->record(packet(*address, *address, 9), memory);
    }
    recorder->flush();
    assert_true(
        std::ranges::all_of(checked_psns(recorder->path()), [](std::uint32_t psn) { return psn == 9; }));
    const auto datagrams = read_pcap(recorder->path());
    assert_int_equal(datagrams.size(), 2);
    assert_int_equal(datagrams[0].size(), 20 + 8 + 12 + 300 + 4);
    assert_int_equal(datagrams[1].size(), 40 + 8 + 12 + 300 + 4);
}

TEST(record__more_than_the_buffer__all_of_it_in_order) {
    const Directory directory;
    const Address address = *parse_address("127.0.0.2");
    {
        const auto recorder = recorder_to(directory.file());
        for (std::uint32_t psn = 0; psn < 3000; ++psn) {
            recorder->record(packet(address, address, psn), memory);
        }
    }
    const auto psns = checked_psns(directory.file());
    assert_int_equal(psns.size(), 3000);
    for (std::uint32_t i = 0; i < psns.size(); ++i) {
        assert_int_equal(psns[i], i);
    }
}

TEST(file__header__nanoseconds_and_bare_ip) {
    const Directory directory;
    recorder_to(directory.file());
    const auto bytes = read_file(directory.file());
    assert_int_equal(bytes.size(), 24);
    std::uint32_t magic = 0;
    std::memcpy(&magic, bytes.data(), sizeof magic);
    assert_int_equal(magic, 0xa1b23c4d);
    std::uint32_t link_type = 0;
    std::memcpy(&link_type, bytes.data() + 20, sizeof link_type);
    assert_int_equal(link_type, 101);
    struct stat status = {};
    assert_int_equal(stat(directory.file().c_str(), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600); // payload is nobody else's business
}

TEST(open__old_recording__emptied) {
    const Directory directory;
    const Address address = *parse_address("127.0.0.2");
    {
        const auto longer = recorder_to(directory.file());
        longer->record(packet(address, address, 0), memory);
        longer->record(packet(address, address, 1), memory);
    }
    recorder_to(directory.file())->record(packet(address, address, 2), memory);
    assert_true(checked_psns(directory.file()) == std::vector<std::uint32_t>{2});
}

TEST(open__another_one_is_recording__file_of_its_own) {
    const Directory directory;
    const Address address = *parse_address("127.0.0.2");
    const auto first = recorder_to(directory.file());
    const auto second = recorder_to(directory.file());
    assert_string_equal(second->path().c_str(), (directory.file() + "." + std::to_string(getpid())).c_str());
    first->record(packet(address, address, 1), memory);
    second->record(packet(address, address, 2), memory);
    first->flush();
    second->flush();
    assert_true(checked_psns(first->path()) == std::vector<std::uint32_t>{1});
    assert_true(checked_psns(second->path()) == std::vector<std::uint32_t>{2});
}

std::string text_of(const std::string& path) {
    const auto bytes = read_file(path);
    return {bytes.begin(), bytes.end()};
}

void put_text(const std::string& path, std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
}

// What somebody may have put where a recording is to go: nothing of it is touched, and the error says what to
// do.
void expect_refused(const std::string& path, const char* reason) {
    const auto recorder = PcapRecorder::open(path);
    assert_false(recorder.ok());
    assert_non_null(std::strstr(recorder.error().text(), reason));
    assert_non_null(std::strstr(recorder.error().text(), path.c_str()));
}

TEST(open__link_to_a_file__not_followed) {
    const Directory directory;
    put_text(directory.file("precious"), "precious");
    assert_int_equal(symlink(directory.file("precious").c_str(), directory.file("trace").c_str()), 0);
    expect_refused(directory.file("trace"), "a link is there");
    assert_string_equal(text_of(directory.file("precious")).c_str(), "precious");
}

TEST(open__link_to_nothing__makes_no_file) {
    const Directory directory;
    assert_int_equal(symlink(directory.file("absent").c_str(), directory.file("trace").c_str()), 0);
    expect_refused(directory.file("trace"), "a link is there");
    assert_int_equal(access(directory.file("absent").c_str(), F_OK), -1);
}

TEST(open__second_name_of_a_file__not_emptied) {
    const Directory directory;
    put_text(directory.file("precious"), "precious");
    assert_int_equal(link(directory.file("precious").c_str(), directory.file("trace").c_str()), 0);
    expect_refused(directory.file("trace"), "another name");
    assert_string_equal(text_of(directory.file("precious")).c_str(), "precious");
}

TEST(open__link_where_the_second_process_writes__not_followed) {
    const Directory directory;
    const auto first = recorder_to(directory.file("trace"));
    put_text(directory.file("precious"), "precious");
    const std::string second = directory.file("trace") + "." + std::to_string(getpid());
    assert_int_equal(symlink(directory.file("precious").c_str(), second.c_str()), 0);
    const auto recorder = PcapRecorder::open(directory.file("trace"));
    assert_false(recorder.ok());
    assert_non_null(std::strstr(recorder.error().text(), second.c_str()));
    assert_string_equal(text_of(directory.file("precious")).c_str(), "precious");
}

TEST(open__another_users_file__not_emptied) {
    if (geteuid() != 0) {
        skip(); // nobody else can make one
    }
    const Directory directory;
    put_text(directory.file("trace"), "precious");
    assert_int_equal(chown(directory.file("trace").c_str(), 65534, 65534), 0);
    expect_refused(directory.file("trace"), "another user's file");
    assert_string_equal(text_of(directory.file("trace")).c_str(), "precious");
}

TEST(open__directory__refused) {
    const Directory directory;
    const std::string inner = directory.file("inner");
    assert_int_equal(mkdir(inner.c_str(), 0700), 0);
    expect_refused(inner, "directory");
    assert_int_equal(rmdir(inner.c_str()), 0);
}

TEST(open__own_descriptor_or_device__written_to) {
    assert_true(PcapRecorder::open("/dev/null").ok());
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(PcapRecorder::open("/dev/fd/" + std::to_string(ends[1])).ok());
    std::array<std::uint8_t, 64> header;
    assert_int_equal(read(ends[0], header.data(), header.size()), 24);
    close(ends[0]);
    close(ends[1]);
}

TEST(open__own_pipe__written_to) {
    const Directory directory;
    assert_int_equal(mkfifo(directory.file("trace").c_str(), 0600), 0);
    const int reader = open(directory.file("trace").c_str(), O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_true(PcapRecorder::open(directory.file("trace")).ok());
    std::array<std::uint8_t, 64> header;
    assert_int_equal(read(reader, header.data(), header.size()), 24);
    close(reader);
}

TEST(open__impossible_path__error_names_file_and_setting) {
    const auto recorder = PcapRecorder::open("/nonexistent/trace.pcap");
    assert_false(recorder.ok());
    assert_int_equal(recorder.error().os_errno(), ENOENT);
    assert_non_null(std::strstr(recorder.error().text(), "/nonexistent/trace.pcap"));
    assert_non_null(std::strstr(recorder.error().text(), "SLUICE_UROCE_PCAP"));
}

TEST(record__disk_full__said_once_and_life_goes_on) {
    static int messages;
    messages = 0;
    sluice::set_log_sink([](void*, int, const char*,
                            const char* text) { messages += std::strstr(text, "ends here") != nullptr; },
                         nullptr);
    const Directory directory;
    const auto recorder = recorder_to(directory.file());
    const Address address = *parse_address("127.0.0.2");
    rlimit before = {};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small = {1000, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    for (std::uint32_t psn = 0; psn < 3000; ++psn) {
        recorder->record(packet(address, address, psn), memory);
    }
    recorder->flush();
    setrlimit(RLIMIT_FSIZE, &before);
    sluice::set_log_sink(nullptr, nullptr);
    assert_int_equal(messages, 1);
}

TEST(flush__in_a_forked_child__writes_nothing) {
    const Directory directory;
    const Address address = *parse_address("127.0.0.2");
    const auto recorder = recorder_to(directory.file());
    recorder->record(packet(address, address, 1), memory);
    const pid_t child = fork();
    if (child == 0) {
        recorder->flush();
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    recorder->flush();
    assert_true(checked_psns(directory.file()) == std::vector<std::uint32_t>{1});
}

TEST(by_setting__unset_or_impossible__null_or_error) {
    // Asked once per process, hence each in one of its own.
    const auto in_child = [](const char* value, int (*judge)(const sluice::Result<PcapRecorder*>&)) {
        const pid_t child = fork();
        if (child == 0) {
            value == nullptr ? unsetenv("SLUICE_UROCE_PCAP") : setenv("SLUICE_UROCE_PCAP", value, 1);
            _exit(judge(PcapRecorder::by_setting()));
        }
        int status = 0;
        waitpid(child, &status, 0);
        return WEXITSTATUS(status);
    };
    const auto is_null = [](const sluice::Result<PcapRecorder*>& recorder) {
        return recorder.ok() && *recorder == nullptr ? 7 : 1;
    };
    const auto is_error = [](const sluice::Result<PcapRecorder*>& recorder) { return recorder.ok() ? 1 : 7; };
    assert_int_equal(in_child(nullptr, is_null), 7);
    assert_int_equal(in_child("", is_null), 7);
    assert_int_equal(in_child("/nonexistent/x", is_error), 7);
    const Directory directory;
    const auto is_shared = [](const sluice::Result<PcapRecorder*>& recorder) {
        const auto again = PcapRecorder::by_setting();
        return recorder.ok() && *recorder != nullptr && *again == *recorder ? 7 : 1;
    };
    assert_int_equal(in_child(directory.file().c_str(), is_shared), 7);
}

} // namespace

int main() {
#ifdef TEST_EMULATED
    // User-mode emulation hands control messages of sockets through in part only.
    std::puts("skipped: sockets of an emulated program");
    return 0;
#else
    return sluice::test::run_all_tests("roce.recorder");
#endif
}
