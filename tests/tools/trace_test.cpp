// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice trace`: what it says and leaves where the program uses no verbs; and files that claim to be
// recordings. tests/preload/trace has programs with verbs.
#include <unistd.h>

#include <cstring>

#include "tools/trace/names.hpp"
#include "tools/trace/picture.hpp"
#include "tools/trace/requests.hpp"
#include "tools/trace/timeline.hpp"

// Last: its macros are common words.
#include "tests/tools/run_command.hpp"

using namespace sluice::test;
using namespace sluice::tools::trace;

namespace {

// ---- the command

Ran trace(const Machine& scratch, const std::vector<std::string>& command) {
    std::vector<std::string> arguments = {"trace", "-o", scratch.root() + "/trace.json", "--"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    return run(arguments);
}

TEST(trace__program_without_verbs__said_and_empty_and_its_own_status) {
    const Machine scratch;
    const Ran ran = trace(scratch, {"sh", "-c", "echo out; exit 42"});
    assert_status(ran, 42);
    assert_string_equal(ran.out.c_str(), "out\n");
    assert_string_equal(ran.err.c_str(), ("sluice: trace: no process of the command has used verbs; " +
                                          scratch.root() + "/trace.json has nothing of it\n")
                                             .c_str());
    const Json document = Json::parse(content_of(scratch.root() + "/trace.json"));
    assert_true(document["traceEvents"].empty());
    assert_int_equal(document["otherData"]["schema"], 1);
}

TEST(trace__to_standard_output__behind_what_the_command_prints) {
    const Ran ran = run({"trace", "-o", "-", "--", "echo", "[a,b]"});
    assert_status(ran, 0);
    assert_contains(ran.out, "[a,b]\n{\"displayTimeUnit\"");
}

TEST(trace__command_that_is_not_there__as_a_shell_says) {
    const Machine scratch;
    assert_status(trace(scratch, {"/no/such/program"}), 127);
    assert_status(trace(scratch, {"/etc/passwd"}), 126);
}

TEST(trace__wrong_options__refused_and_nothing_started) {
    for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
             {"--events", "1023"}, {"--events", "x"}, {"-o", "--"}, {"--quick"}}) {
        std::vector<std::string> arguments = {"trace"};
        arguments.insert(arguments.end(), options.begin(), options.end());
        arguments.insert(arguments.end(), {"--", "echo", "started"});
        const Ran ran = run(arguments);
        assert_status(ran, 2);
        assert_string_equal(ran.out.c_str(), "");
    }
    assert_status(run({"trace"}), 2);
    assert_status(run({"--json", "trace", "--", "true"}), 2);
    const Ran nowhere = run({"trace", "-o", "/no/such/file", "--", "echo", "started"});
    assert_status(nowhere, 1);
    assert_string_equal(nowhere.out.c_str(), "");
    assert_string_equal(nowhere.err.c_str(), "sluice: trace: /no/such/file: No such file or directory\n");
}

TEST(trace__environment__private_directory_that_goes) {
    const Machine scratch;
    const Ran ran = trace(scratch, {"sh", "-c",
                                    "echo ${SLUICE_TRACE#*:}; stat -c %a ${SLUICE_TRACE#*:}; "
                                    "echo $LD_PRELOAD >&2"});
    assert_status(ran, 0);
    const std::string folder = ran.out.substr(0, ran.out.find('\n'));
    assert_string_equal(ran.out.c_str(), (folder + "\n700\n").c_str());
    assert_contains(ran.err, "/libsluice-trace.so");
    assert_int_equal(access(folder.c_str(), F_OK), -1);
}

// A program may put anything there.
TEST(trace__strange_files_in_the_directory__passed_over) {
    const Machine scratch;
    const Ran ran = trace(scratch, {"sh", "-c",
                                    "cd ${SLUICE_TRACE#*:} && mkfifo pipe && ln -s /dev/zero link && "
                                    "mkdir folder && echo SLTRACE1 > short && : > empty"});
    assert_status(ran, 0);
    assert_contains(ran.err, "no process of the command has used verbs");
}

// ---- files

class RecordingBytes {
  public:
    explicit RecordingBytes(std::uint32_t blocks)
        : bytes_(file::kBlocksAt + blocks * file::kBlockBytes, '\0') {
        header().magic = file::kMagic;
        header().block_count = blocks;
        header().blocks_taken = blocks;
        header().threads = 1;
        header().pid = 77;
        begin_block(0, 0);
    }

    file::Header& header() { return *reinterpret_cast<file::Header*>(bytes_.data()); }
    file::Thread& thread(std::uint32_t index) {
        return reinterpret_cast<file::Thread*>(bytes_.data() + file::kThreadsAt)[index];
    }
    file::Event& event(std::uint32_t block, std::uint32_t index) {
        return reinterpret_cast<file::Event*>(bytes_.data() + file::kBlocksAt +
                                              block * file::kBlockBytes)[index];
    }
    void begin_block(std::uint32_t block, std::uint64_t thread) {
        event(block, 0).kind = file::Kind::kHead;
        event(block, 0).time_ns = thread;
    }
    void cut(std::size_t bytes) { bytes_.resize(bytes); }

    // The next event of the first block.
    RecordingBytes& add(file::Event what) {
        what.time_ns = 1000 + next_;
        event(0, next_++) = what;
        return *this;
    }
    RecordingBytes& post(std::uint64_t id, std::uint8_t flags = file::kSignaled,
                         file::Kind kind = file::Kind::kPost) {
        return add({.time_ns = 0,
                    .id = id,
                    .bytes = 8,
                    .queue_pair = 17,
                    .device = 1,
                    .kind = kind,
                    .code = 2,
                    .status = 0,
                    .flags = flags});
    }
    RecordingBytes& complete(std::uint64_t id, std::uint8_t status = 0, std::uint8_t code = 0) {
        return add({.time_ns = 0,
                    .id = id,
                    .bytes = 8,
                    .queue_pair = 17,
                    .device = 1,
                    .kind = file::Kind::kCompletion,
                    .code = code,
                    .status = status,
                    .flags = 0});
    }

    std::optional<Recording> read(std::uint32_t most_blocks = 100) const {
        return read_recording(
            [this](std::uint64_t offset, char* to, std::size_t bytes) {
                const std::size_t there =
                    offset >= bytes_.size() ? 0 : std::min<std::size_t>(bytes, bytes_.size() - offset);
                std::memcpy(to, bytes_.data() + std::min<std::size_t>(offset, bytes_.size()), there);
                return there;
            },
            most_blocks);
    }

  private:
    std::string bytes_;
    std::uint32_t next_ = 1;
};

std::vector<Ending> endings(const RecordingBytes& bytes) {
    const Requests requests = requests_of(*bytes.read());
    std::vector<Ending> all;
    all.reserve(requests.all.size());
    for (const TracedRequest& each : requests.all) {
        all.push_back(each.ending);
    }
    return all;
}

TEST(recording__claims_more_than_there_is__what_is_there) {
    RecordingBytes bytes(1);
    bytes.header().block_count = bytes.header().blocks_taken = bytes.header().threads = 0xffffffff;
    bytes.post(1);
    const std::optional<Recording> recording = bytes.read(0xffffffff);
    assert_true(recording.has_value());
    assert_int_equal(recording->events.size(), 1);
    assert_int_equal(recording->threads.size(), file::kMostThreads);
}

TEST(recording__more_blocks_than_asked_for__left) {
    RecordingBytes bytes(3);
    for (const std::uint32_t block : {1U, 2U}) {
        bytes.begin_block(block, 0);
        bytes.event(block, 1).kind = file::Kind::kPost;
    }
    assert_int_equal(bytes.read(3)->events.size(), 2);
    assert_int_equal(bytes.read(2)->events.size(), 1);
}

TEST(recording__unknown_kinds_and_threads__counted) {
    RecordingBytes bytes(2);
    bytes.post(1);
    bytes.event(0, 5).kind = static_cast<file::Kind>(200);
    bytes.event(0, 6).kind = file::Kind::kHead;
    bytes.begin_block(1, 1); // there is no second thread
    bytes.event(1, 1).kind = file::Kind::kPost;
    const std::optional<Recording> recording = bytes.read();
    assert_int_equal(recording->events.size(), 1);
    assert_int_equal(recording->unreadable, 3);
}

TEST(recording__cut_off__whole_events_of_it) {
    RecordingBytes bytes(1);
    bytes.post(1).post(2);
    bytes.cut(file::kBlocksAt + 3 * sizeof(file::Event) - 1);
    assert_int_equal(bytes.read()->events.size(), 1);
    bytes.cut(sizeof(file::Header));
    assert_int_equal(bytes.read()->events.size(), 0);
    bytes.cut(sizeof(file::Header) - 1);
    assert_false(bytes.read().has_value());
}

TEST(recording__another_magic__none) {
    RecordingBytes bytes(1);
    bytes.header().magic[7] = '9';
    assert_false(bytes.read().has_value());
}

TEST(recording__control_characters_in_names__gone) {
    RecordingBytes bytes(1);
    std::memcpy(bytes.thread(0).name.data(), "a\x1b[31mbcdefghijkl", 16); // without an end
    assert_string_equal(bytes.read()->threads[0].name.c_str(), "a?[31mbcdefghijk");
}

// ---- requests

TEST(requests__unsignaled_before_a_completion__ended_with_it) {
    RecordingBytes bytes(1);
    bytes.post(0, 0).post(0, 0).post(0).post(0, 0).complete(0);
    const std::vector<Ending> expected = {Ending::kPassed, Ending::kPassed, Ending::kCompleted,
                                          Ending::kOpen};
    assert_true(endings(bytes) == expected);
}

TEST(requests__same_id_in_sends_and_receives__by_the_completions_opcode) {
    RecordingBytes bytes(1);
    bytes.post(1).post(1, file::kSignaled, file::Kind::kReceive).complete(1, 0, 128);
    const std::vector<Ending> expected = {Ending::kOpen, Ending::kCompleted};
    assert_true(endings(bytes) == expected);
}

TEST(requests__failed_without_being_signaled__completed) {
    RecordingBytes bytes(1);
    bytes.post(1, 0).post(2).complete(1, 5).complete(2, 5);
    const std::vector<Ending> expected = {Ending::kCompleted, Ending::kCompleted};
    assert_true(endings(bytes) == expected);
}

TEST(requests__refused__the_last_ones) {
    RecordingBytes bytes(1);
    bytes.post(1).post(2).post(3).add({.time_ns = 0,
                                       .id = 2,
                                       .bytes = 0,
                                       .queue_pair = 17,
                                       .device = 1,
                                       .kind = file::Kind::kRefused,
                                       .code = 0,
                                       .status = 0,
                                       .flags = 0});
    bytes.post(3).complete(3);
    const std::vector<Ending> expected = {Ending::kOpen, Ending::kRefused, Ending::kRefused,
                                          Ending::kCompleted};
    assert_true(endings(bytes) == expected);
}

TEST(requests__queue_pair_destroyed__ended_and_its_number_free) {
    RecordingBytes bytes(1);
    bytes.post(1).add({.time_ns = 0,
                       .id = 0,
                       .bytes = 0,
                       .queue_pair = 17,
                       .device = 1,
                       .kind = file::Kind::kQueuePairEnded,
                       .code = 0,
                       .status = 0,
                       .flags = 0});
    bytes.complete(1);
    const Requests requests = requests_of(*bytes.read());
    assert_true(requests.all[0].ending == Ending::kDestroyed);
    assert_int_equal(requests.unmatched, 1);
}

TEST(timeline__times_as_large_as_can_be__exact) {
    RecordingBytes bytes(1);
    bytes.post(1).post(2);
    bytes.event(0, 1).time_ns = 0;
    bytes.event(0, 2).time_ns = ~std::uint64_t{0};
    const Recording recording = *bytes.read();
    const Requests requests = requests_of(recording);
    const std::vector<TracedProcess> processes = {{.recording = recording, .requests = requests}};
    std::ostringstream out;
    write_timeline(out, processes, "a \xff command");
    assert_true(Json::accept(out.str()));
    assert_contains(out.str(), "\"ts\":18446744073709551.615,");
}

// ---- the page

TEST(picture__text_of_strangers__stays_text) {
    RecordingBytes bytes(1);
    std::memcpy(bytes.header().program.data(), "/bin/</script>", 15);
    std::memcpy(bytes.thread(0).name.data(), "<img src=x>", 12);
    bytes.post(~std::uint64_t{0});
    const Recording recording = *bytes.read();
    const Requests requests = requests_of(recording);
    const std::vector<TracedProcess> processes = {{.recording = recording, .requests = requests}};
    std::ostringstream out;
    write_picture(out, processes, "a <b>command</b>");
    assert_lacks(out.str(), "<img");
    assert_lacks(out.str(), "<b>command");
    assert_contains(out.str(), "\"18446744073709551615\""); // no number of a script's is as large
}

TEST(picture__more_than_can_be_drawn__said) {
    const std::uint32_t blocks = file::blocks_for(kMostPictured + 5);
    RecordingBytes bytes(blocks);
    for (std::uint32_t block = 0; block < blocks; ++block) {
        bytes.begin_block(block, 0);
        for (std::uint32_t i = 1; i < file::kBlockEvents; ++i) {
            bytes.event(block, i).kind = file::Kind::kPost;
        }
    }
    const Recording recording = *bytes.read(blocks);
    const Requests requests = requests_of(recording);
    const std::vector<TracedProcess> processes = {{.recording = recording, .requests = requests}};
    std::ostringstream out;
    write_picture(out, processes, "command");
    const std::size_t all = std::size_t{blocks} * (file::kBlockEvents - 1);
    assert_contains(out.str(), std::to_string(all - kMostPictured) + " of " + std::to_string(all) +
                                   " requests, calls and instants are left out");
}

TEST(trace__page__and_trace_events_only_when_asked_for) {
    const Machine scratch;
    const std::string page = scratch.root() + "/page.html", events = scratch.root() + "/events.json";
    assert_status(run({"trace", "--html", page, "--", "true"}), 0);
    assert_contains(content_of(page), "<!DOCTYPE html>");
    assert_int_equal(access((scratch.root() + "/sluice-trace.json").c_str(), F_OK), -1);
    assert_status(run({"trace", "--html", page, "-o", events, "--", "true"}), 0);
    assert_true(Json::accept(content_of(events)));
    assert_status(run({"trace", "--html", "-", "-o", "-", "--", "true"}), 2);
}

} // namespace

int main() {
    return run_all_tests();
}
