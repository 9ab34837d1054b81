// SPDX-License-Identifier: BSD-3-Clause
//
// The files in which processes count: what their reader gets, and what becomes of bad ones.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "provider/uroce/device/counter_file.hpp"
#include "provider/uroce/device/counter_reader.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice;
using namespace sluice::uroce::device;

namespace {

namespace fs = std::filesystem;
namespace engine = sluice::roce::engine;

// A directory of the test's own, which all files are in.
struct Place {
    Place() {
        char made[] = "/tmp/sluice-counters-test-XXXXXX";
        path = mkdtemp(made);
        setenv("SLUICE_UROCE_COUNTERS", path.c_str(), 1);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {
        chmod(path.c_str(), 0700);
        fs::remove_all(path);
        unsetenv("SLUICE_UROCE_COUNTERS");
    }
    std::size_t files() const {
        return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), {}));
    }
    std::string only_file() const { return fs::directory_iterator(path)->path(); }
    std::vector<std::uint8_t> bytes() const {
        std::ifstream in(only_file(), std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }

    std::string path;
};

LocalAddress at(std::uint8_t last, const char* name = "uroce0") {
    LocalAddress made{.name = name, .gid = {}, .interface = "lo", .interface_mtu = 65536};
    made.gid.gid[10] = made.gid.gid[11] = 0xff;
    made.gid.gid[12] = 127;
    made.gid.gid[15] = last;
    return made;
}

std::uint64_t value(const DeviceUse& use, const std::string& name) {
    const auto found = std::ranges::find(use.counters, name, [](const auto& one) { return one.first; });
    if (found == use.counters.end()) {
        fail_msg("there is no counter %s", name.c_str());
    }
    return found->second;
}

// Runs BODY in a child, which answers with its status.
int in_child(const std::function<int()>& body) {
    const pid_t child = fork();
    if (child == 0) {
        _exit(body());
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(names__all__are_different_and_fit) {
    std::set<std::string> names;
    for (const char* const name : counter_names()) {
        if (name != nullptr) {
            assert_true(std::strlen(name) < kCounterNameBytes);
            assert_true(names.insert(name).second);
        }
    }
}

TEST(file__what_a_device_counts__is_read_by_name) {
    const Place place;
    CounterFile file;
    assert_true(file.fd() >= 0);
    DeviceCounters& counters = file.acquire(at(1));
    counters.udp.sent(4096);
    counters.transport.completions[12].set(7);
    ++counters.connections.ended; // the last of all
    const auto all = read_counters(file.fd());
    assert_true(all.ok());
    assert_int_equal(all->size(), 1);
    const ProcessUse& use = all->front();
    assert_int_equal(use.pid, getpid());
    assert_true(use.is_running);
    assert_true(use.opened_ns > 0);
    assert_string_equal(use.command.c_str(), program_invocation_short_name);
    assert_int_equal(use.devices.size(), 1);
    assert_string_equal(use.devices[0].device.c_str(), "uroce0");
    assert_string_equal(use.devices[0].address.c_str(), "127.0.0.1");
    assert_int_equal(value(use.devices[0], "path.udp.packets_sent"), 1);
    assert_int_equal(value(use.devices[0], "path.udp.bytes_sent"), 4096);
    assert_int_equal(value(use.devices[0], "completion.retry_exceeded"), 7);
    assert_int_equal(value(use.devices[0], "cm.connections_ended"), 1);
    assert_int_equal(value(use.devices[0], "path.loop.bytes_sent"), 0);
}

TEST(file__of_another_process__runs_until_that_is_killed) {
    const Place place;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        CounterFile file;
        file.acquire(at(1)).udp.sent(5);
        (void)!write(ready[1], "x", 1);
        for (;;) {
            pause();
        }
    }
    char byte = 0;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    auto all = read_counters(-1);
    assert_true(all.ok() && all->size() == 1);
    assert_true(all->front().is_running);
    assert_int_equal(all->front().pid, child);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    all = read_counters(-1);
    assert_true(all.ok() && all->size() == 1);
    assert_false(all->front().is_running);
    assert_int_equal(all->front().pid, child);
    assert_int_equal(value(all->front().devices.at(0), "path.udp.bytes_sent"), 5);
    close(ready[0]);
    close(ready[1]);
}

// What the child closes is its own copy.
TEST(file__after_a_fork__is_the_parents_alone) {
    const Place place;
    CounterFile file;
    file.acquire(at(1));
    const pid_t parent = getpid();
    assert_int_equal(in_child([&] {
                         file.abandon();
                         const auto all = read_counters(-1);
                         return all.ok() && all->size() == 1 && all->front().is_running &&
                                        all->front().pid == parent
                                    ? 0
                                    : 1;
                     }),
                     0);
}

TEST(rooms__opened_again_and_again__are_added_up_for_each_address) {
    const Place place;
    CounterFile file;
    for (int i = 0; i < 1000; ++i) {
        DeviceCounters& first = file.acquire(at(1));
        DeviceCounters& second = file.acquire(at(2, "uroce1"));
        assert_int_equal(first.udp.bytes_sent, 0);
        first.udp.sent(3);
        second.udp.received(4);
        file.release(first);
        file.release(second);
    }
    const auto all = read_counters(file.fd());
    assert_true(all.ok() && all->size() == 1);
    assert_int_equal(all->front().devices.size(), 2);
    assert_int_equal(value(all->front().devices[0], "path.udp.bytes_sent"), 3000);
    assert_int_equal(value(all->front().devices[1], "path.udp.bytes_received"), 4000);
    struct stat status {};
    assert_int_equal(fstat(file.fd(), &status), 0);
    assert_true(status.st_blocks * 512 <= 32768); // a few rooms, not thousands
}

// More than there are rooms: they count where nobody sees it.
TEST(rooms__more_than_the_file_has__still_count) {
    const Place place;
    CounterFile file;
    std::vector<DeviceCounters*> all;
    for (std::size_t i = 0; i < kMaxCounterRooms + 2; ++i) {
        all.push_back(&file.acquire(at(1)));
        all.back()->udp.sent(1);
    }
    const auto read = read_counters(file.fd());
    assert_true(read.ok() && read->size() == 1);
    assert_int_equal(value(read->front().devices.at(0), "path.udp.bytes_sent"), kMaxCounterRooms);
    assert_int_equal(all.back()->udp.bytes_sent, 1);
}

TEST(directory__absent__devices_count_and_the_reader_tells) {
    const Place place;
    setenv("SLUICE_UROCE_COUNTERS", (place.path + "/none").c_str(), 1);
    CounterFile file;
    assert_int_equal(file.fd(), -1);
    DeviceCounters& counters = file.acquire(at(1));
    counters.udp.sent(8);
    assert_int_equal(counters.udp.bytes_sent, 8);
    const auto all = read_counters(-1);
    assert_false(all.ok());
    assert_true(all.error().kind() == ErrorKind::kNotFound);
    assert_non_null(std::strstr(all.error().text(), (place.path + "/none").c_str()));
}

TEST(directory__said_to_be_none__nothing_is_written) {
    const Place place;
    setenv("SLUICE_UROCE_COUNTERS", "no", 1);
    assert_true(counter_directories().empty());
    const CounterFile file;
    assert_int_equal(file.fd(), -1);
    assert_false(read_counters(-1).ok());
}

TEST(limit_for_files__too_small__no_file_and_no_signal) {
    const Place place;
    assert_int_equal(in_child([] {
                         const rlimit limit{4096, 4096};
                         setrlimit(RLIMIT_FSIZE, &limit);
                         CounterFile file;
                         file.acquire(at(1)).udp.sent(1);
                         return file.fd();
                     }),
                     0xff); // -1
    assert_int_equal(place.files(), 0);
}

// Only files of ours that nobody else may write to.
TEST(directory__links_fifos_and_files_of_others__are_passed_over) {
    const Place place;
    {
        CounterFile file;
        file.acquire(at(1));
    }
    const std::string whole = place.only_file(), other = place.path + "/" + kCounterFilePrefix;
    const fs::path outside = place.path + "/outside";
    fs::rename(whole, outside);
    assert_true(read_counters(-1)->empty());
    fs::create_symlink(outside, other + "link");
    assert_int_equal(mkfifo((other + "fifo").c_str(), 0600), 0);
    fs::create_directory(other + "directory");
    fs::copy_file(outside, other + "readable");
    chmod((other + "readable").c_str(), 0644);
    if (geteuid() == 0) {
        fs::copy_file(outside, other + "somebody");
        assert_int_equal(chown((other + "somebody").c_str(), 65534, 65534), 0);
    }
    assert_true(read_counters(-1)->empty());
    fs::copy_file(outside, other + "ours"); // so that the others could have been read
    chmod((other + "ours").c_str(), 0600);
    assert_int_equal(read_counters(-1)->size(), 1);
}

TEST(parse__any_length__nothing_or_whole_rooms) {
    const Place place;
    {
        CounterFile file;
        file.acquire(at(1)).udp.sent(9);
        file.acquire(at(2)).udp.sent(9);
    }
    const std::vector<std::uint8_t> whole = place.bytes();
    assert_int_equal(whole.size(), kWholeFileBytes);
    for (std::size_t len = 0; len <= kRoomsAt + 3 * kRoomBytes; len += len < 300 ? 1 : 128) {
        const auto use = parse_counters(parts_of({whole.data(), len}));
        assert_true(use.ok() == (len >= sizeof(FileHeader)));
        if (use.ok()) {
            const std::size_t rooms = len < kRoomsAt ? 0 : (len - kRoomsAt) / kRoomBytes;
            assert_int_equal(use->devices.size(), std::min<std::size_t>(rooms, 2));
        }
    }
}

struct Broken {
    const char* what;
    std::size_t offset;
    std::vector<std::uint8_t> bytes;
};

TEST(parse__heads_that_lie__are_refused) {
    const Place place;
    {
        CounterFile file;
        file.acquire(at(1));
    }
    const std::vector<std::uint8_t> whole = place.bytes();
    assert_true(parse_counters(parts_of(whole)).ok());
    const std::size_t names = offsetof(FileHeader, names);
    const Broken all[] = {
        {"magic", 0, {'X'}},
        {"version", 7, {'2'}},
        {"too many", offsetof(FileHeader, counters), {kMaxCounters + 1, 0, 0, 0}},
        {"endless", offsetof(FileHeader, counters), {0xff, 0xff, 0xff, 0xff}},
        {"name without end", names, std::vector<std::uint8_t>(kCounterNameBytes, 'a')},
        {"name with a quote", names, {'"', 0}},
        {"name with an escape", names + kCounterNameBytes, {0x1b, 0}},
    };
    for (const Broken& one : all) {
        std::vector<std::uint8_t> bytes = whole;
        std::ranges::copy(one.bytes, bytes.begin() + static_cast<std::ptrdiff_t>(one.offset));
        if (parse_counters(parts_of(bytes)).ok()) {
            fail_msg("taken: %s", one.what);
        }
    }
}

TEST(parse__texts_that_lie__are_made_harmless_or_passed_over) {
    const Place place;
    {
        CounterFile file;
        file.acquire(at(1));
        file.acquire(at(2));
        file.acquire(at(3));
    }
    std::vector<std::uint8_t> bytes = place.bytes();
    std::memset(bytes.data() + kRoomsAt, 'a', 64); // a name without end
    bytes[kRoomsAt + kRoomBytes] = 0x1b;
    std::memset(bytes.data() + offsetof(FileHeader, command), 'c', 64);
    auto use = parse_counters(parts_of(bytes));
    assert_true(use.ok());
    assert_string_equal(use->command.c_str(), "?");
    assert_int_equal(use->devices.size(), 2);
    assert_string_equal(use->devices[0].device.c_str(), "?roce0");
    std::memcpy(bytes.data() + offsetof(FileHeader, command), "a\x1b[2J\n", 7);
    use = parse_counters(parts_of(bytes));
    assert_true(use.ok());
    assert_string_equal(use->command.c_str(), "a?[2J?");
}

TEST(directory__files_of_many_that_ended__the_oldest_go) {
    const Place place;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) { // the oldest of all, but it runs
        CounterFile file;
        file.acquire(at(200));
        (void)!write(ready[1], "x", 1);
        for (;;) {
            pause();
        }
    }
    char byte = 0;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    for (int i = 0; i < 300; ++i) {
        const CounterFile file;
    }
    kill(child, SIGKILL);
    const auto all = read_counters(-1);
    waitpid(child, nullptr, 0);
    assert_true(all.ok());
    assert_true(all->size() >= 128 && all->size() <= 257);
    assert_int_equal(all->front().pid, child);
    close(ready[0]);
    close(ready[1]);
}

engine::Address loopback(std::uint8_t last) {
    return at(last).gid;
}

// As a queue pair of the device in COUNTERS shows itself.
engine::QueuePairRow& show_queue_pair(CounterFile& file, const DeviceCounters& counters, std::uint32_t qpn) {
    engine::QueuePairRow* const row = file.rows(counters)->acquire();
    assert_non_null(row);
    row->type.set(static_cast<std::uint64_t>(engine::QpType::kUc));
    row->state.set(static_cast<std::uint64_t>(engine::QpState::kReadyToSend));
    row->qpn.set(qpn);
    return *row;
}

TEST(queue_pairs__of_two_devices__are_read_with_theirs_by_number) {
    const Place place;
    CounterFile file;
    DeviceCounters &first = file.acquire(at(1)), &second = file.acquire(at(2, "uroce1"));
    show_queue_pair(file, second, 30);
    engine::QueuePairRow& row = show_queue_pair(file, first, 20);
    show_queue_pair(file, first, 10);
    row.peer_qpn.set(0xabcdef);
    engine::QueuePairRow::put(row.local, loopback(1));
    engine::QueuePairRow::put(row.remote, loopback(9));
    row.counters.messages_sent.set(5);
    row.counters.completions_flushed.set(6); // the last of all
    const auto all = read_counters(file.fd());
    assert_true(all.ok() && all->size() == 1 && all->front().devices.size() == 2);
    const std::vector<QueuePairUse>& ours = all->front().devices[0].queue_pairs;
    assert_int_equal(all->front().devices[1].queue_pairs.size(), 1);
    assert_int_equal(ours.size(), 2);
    assert_int_equal(ours[0].qpn, 10);
    assert_string_equal(ours[0].remote.c_str(), "");
    assert_int_equal(ours[1].qpn, 20);
    assert_int_equal(ours[1].peer_qpn, 0xabcdef);
    assert_string_equal(ours[1].type.c_str(), "UC");
    assert_string_equal(ours[1].state.c_str(), "RTS");
    assert_string_equal(ours[1].local.c_str(), "127.0.0.1");
    assert_string_equal(ours[1].remote.c_str(), "127.0.0.9");
    assert_true(ours[1].counters.front() == std::pair(std::string("messages_sent"), std::uint64_t{5}));
    assert_true(ours[1].counters.back() == std::pair(std::string("completions.flushed"), std::uint64_t{6}));
}

TEST(queue_pairs__destroyed__their_rows_are_used_again) {
    const Place place;
    CounterFile file;
    DeviceCounters& counters = file.acquire(at(1));
    for (std::uint32_t i = 1; i < 20000; ++i) {
        engine::QueuePairRow& row = show_queue_pair(file, counters, i);
        assert_int_equal(row.counters.messages_sent, 0);
        row.counters.messages_sent.set(i);
        file.rows(counters)->release(row);
    }
    const auto all = read_counters(file.fd());
    assert_true(all.ok() && all->front().devices.at(0).queue_pairs.empty());
    struct stat status {};
    assert_int_equal(fstat(file.fd(), &status), 0);
    assert_true(status.st_blocks * 512 <= 32768);
}

TEST(queue_pairs__more_than_there_are_rows__the_rest_goes_unseen) {
    const Place place;
    CounterFile file;
    DeviceCounters& counters = file.acquire(at(1));
    for (std::uint32_t i = 1; i <= kMaxRows; ++i) {
        show_queue_pair(file, counters, i);
    }
    assert_null(file.rows(counters)->acquire());
    const auto all = read_counters(file.fd());
    assert_true(all.ok());
    assert_int_equal(all->front().devices.at(0).queue_pairs.size(), kMaxRows);
    assert_int_equal(all->front().devices.at(0).queue_pairs.back().qpn, kMaxRows);
}

TEST(queue_pairs__process_killed__are_read_as_they_were) {
    const Place place;
    assert_int_equal(in_child([] {
                         CounterFile file;
                         show_queue_pair(file, file.acquire(at(1)), 77);
                         raise(SIGKILL);
                         return 0;
                     }),
                     128 + SIGKILL);
    const auto all = read_counters(-1);
    assert_true(all.ok() && all->size() == 1 && !all->front().is_running);
    assert_int_equal(all->front().devices.at(0).queue_pairs.at(0).qpn, 77);
}

TEST(queue_pairs__without_a_file__have_no_rows) {
    const Place place;
    setenv("SLUICE_UROCE_COUNTERS", "no", 1);
    CounterFile file;
    assert_null(file.rows(file.acquire(at(1))));
}

// A file of a version before there were rows, and one that is cut short.
TEST(parse__without_all_rows__the_devices_and_what_is_whole) {
    const Place place;
    {
        CounterFile file;
        DeviceCounters& counters = file.acquire(at(1));
        show_queue_pair(file, counters, 1);
        show_queue_pair(file, counters, 2);
    }
    const std::vector<std::uint8_t> whole = place.bytes();
    const std::pair<std::size_t, std::size_t> lengths[] = {
        {kCounterFileBytes, 0},       {kRowsAt - 1, 0},
        {kRowsAt + kRowBytes - 1, 0}, {kRowsAt + kRowBytes, 1},
        {kRowsAt + 2 * kRowBytes, 2}, {whole.size(), 2},
    };
    for (const auto& [len, rows] : lengths) {
        const auto use = parse_counters(parts_of({whole.data(), len}));
        assert_true(use.ok() && use->devices.size() == 1);
        assert_int_equal(use->devices[0].queue_pairs.size(), rows);
    }
}

TEST(parse__rows_that_lie__are_made_harmless_or_passed_over) {
    const Place place;
    {
        CounterFile file;
        DeviceCounters& counters = file.acquire(at(1));
        show_queue_pair(file, counters, 1);
    }
    const std::vector<std::uint8_t> sound = place.bytes();
    const auto with = [&](std::size_t offset, std::uint64_t number) {
        std::vector<std::uint8_t> bytes = sound;
        std::memcpy(bytes.data() + offset, &number, sizeof number);
        return parse_counters(parts_of(bytes));
    };
    constexpr std::size_t kRow = kRowsAt + offsetof(QueuePairInFile, row);
    constexpr std::uint64_t kWild = ~std::uint64_t{0};
    for (const std::uint64_t room : {std::uint64_t{1}, std::uint64_t{kMaxCounterRooms}, kWild}) {
        assert_true(with(kRowsAt, room)->devices.at(0).queue_pairs.empty());
    }
    const auto typed = with(kRow + offsetof(engine::QueuePairRow, type), kWild);
    assert_string_equal(typed->devices.at(0).queue_pairs.at(0).type.c_str(), "?");
    const auto stated = with(kRow + offsetof(engine::QueuePairRow, state), 7);
    assert_string_equal(stated->devices.at(0).queue_pairs.at(0).state.c_str(), "?");
    const auto numbered = with(kRow + offsetof(engine::QueuePairRow, qpn), kWild);
    assert_int_equal(numbered->devices.at(0).queue_pairs.at(0).qpn, 0xffffff);
    const auto used = with(kRowsHeadAt + offsetof(RowsHeader, used), kWild);
    assert_int_equal(used->devices.at(0).queue_pairs.size(), 1);
    assert_true(with(kRowsHeadAt, 0)->devices.at(0).queue_pairs.empty());
    assert_false(with(kRowsHeadAt + offsetof(RowsHeader, counters), kWild).ok());
    assert_false(with(kRowsHeadAt + offsetof(RowsHeader, names), kWild).ok());
}

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.counters");
}
