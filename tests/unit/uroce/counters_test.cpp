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
    assert_int_equal(whole.size(), kCounterFileBytes);
    for (std::size_t len = 0; len <= kRoomsAt + 3 * kRoomBytes; len += len < 300 ? 1 : 128) {
        const auto use = parse_counters({whole.data(), len});
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
    assert_true(parse_counters(whole).ok());
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
        if (parse_counters(bytes).ok()) {
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
    auto use = parse_counters(bytes);
    assert_true(use.ok());
    assert_string_equal(use->command.c_str(), "?");
    assert_int_equal(use->devices.size(), 2);
    assert_string_equal(use->devices[0].device.c_str(), "?roce0");
    std::memcpy(bytes.data() + offsetof(FileHeader, command), "a\x1b[2J\n", 7);
    use = parse_counters(bytes);
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

} // namespace

int main() {
    return sluice::test::run_all_tests("uroce.counters");
}
