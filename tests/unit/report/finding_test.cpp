// SPDX-License-Identifier: BSD-3-Clause
//
// Findings as they are written, read back by the code that `sluice check` reads them with.
//
// What SLUICE_CHECK says is read once in a process, so that each test writes in a child.
#include "core/report/finding.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/report/peer_read.hpp"
#include "tools/check/record.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice::report;
namespace reader = sluice::tools::check;

namespace {

class File {
  public:
    File() {
        const int fd = mkstemp(name_.data());
        assert_true(fd >= 0);
        close(fd);
    }
    ~File() { unlink(name_.c_str()); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    const std::string& name() const noexcept { return name_; }

    std::string text() const {
        std::string found;
        FILE* const file = std::fopen(name_.c_str(), "r");
        assert_non_null(file);
        for (int each = std::fgetc(file); each != EOF; each = std::fgetc(file)) {
            found.push_back(static_cast<char>(each));
        }
        std::fclose(file);
        return found;
    }

  private:
    std::string name_ = "/tmp/finding_test.XXXXXX";
};

// BODY is run by a child with VALUE in SLUICE_CHECK. Returns the child's id.
template<typename Body>
pid_t in_child(const std::string& value, Body&& body) {
    const pid_t child = fork();
    if (child == 0) {
        setenv("SLUICE_CHECK", value.c_str(), 1);
        body();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return child;
}

template<typename Body>
reader::RecordReader::Batch written(Body&& body) {
    const File file;
    in_child("full:" + file.name(), body);
    reader::RecordReader records;
    reader::RecordReader::Batch batch = records.feed(file.text());
    assert_int_equal(records.unreadable(), 0);
    return batch;
}

// In another file than ours, behind the first byte of a function.
Stack stack_in(const char* function, int more = 0) {
    const auto* const address = static_cast<const char*>(dlsym(RTLD_DEFAULT, function));
    assert_non_null(address);
    Stack stack;
    stack.addresses[0] = address + 1 + more;
    stack.count = 1;
    return stack;
}

void write_at(const char* rule, const Stack& first, const Stack& second) {
    const std::array sides = {Side{"the request was posted", &first},
                              Side{"its completion was polled", &second}};
    write({.rule = rule, .object = "Send 3", .what = "it is wrong", .remedy = "await it", .sides = sides});
}

void assert_equal(const std::string& is, const std::string& wanted) {
    assert_string_equal(is.c_str(), wanted.c_str());
}

TEST(write__a_finding__read_back_with_all_its_fields) {
    const File file;
    const pid_t child = in_child("full:" + file.name(), [] {
        write_at("a-rule", stack_in("gnu_get_libc_version"), stack_in("gnu_get_libc_release"));
    });
    const reader::RecordReader::Batch batch = reader::RecordReader().feed(file.text());
    assert_int_equal(batch.findings.size(), 1);
    const reader::Finding& finding = batch.findings[0];
    assert_int_equal(finding.pid, child);
    assert_equal(finding.rule, "a-rule");
    assert_equal(finding.object, "Send 3");
    assert_equal(finding.what, "it is wrong");
    assert_equal(finding.remedy, "await it");
    assert_int_equal(finding.sides.size(), 2);
    assert_equal(finding.sides[0].title, "the request was posted");
    assert_equal(finding.sides[1].title, "its completion was polled");
    assert_int_equal(finding.sides[0].frames.size(), 1);
    assert_equal(finding.sides[0].frames[0].function, "gnu_get_libc_version");
    assert_equal(finding.sides[1].frames[0].function, "gnu_get_libc_release");
}

TEST(write__a_frame__its_offset_in_its_file) {
    const Stack stack = stack_in("gnu_get_libc_version");
    Dl_info info{};
    assert_true(dladdr(stack.addresses[0], &info) != 0);
    const reader::RecordReader::Batch batch = written([&] { write_at("a-rule", stack, stack); });
    const reader::Frame& frame = batch.findings.at(0).sides.at(0).frames.at(0);
    assert_int_equal(frame.offset, reinterpret_cast<std::uintptr_t>(stack.addresses[0]) -
                                       reinterpret_cast<std::uintptr_t>(info.dli_fbase));
    assert_int_equal(frame.module[0], '/');
    assert_int_equal(access(frame.module.c_str(), R_OK), 0);
}

TEST(write__an_address_in_no_file__unknown) {
    Stack stack;
    stack.addresses[0] = reinterpret_cast<const void*>(16); // NOLINT(performance-no-int-to-ptr)
    stack.count = 1;
    const reader::RecordReader::Batch batch = written([&] { write_at("a-rule", stack, stack); });
    const reader::Frame& frame = batch.findings.at(0).sides.at(0).frames.at(0);
    assert_int_equal(frame.offset, 16);
    assert_equal(frame.function, "?");
    assert_equal(frame.module, "?");
}

TEST(write__side_without_a_stack__left_out) {
    const Stack none;
    const reader::RecordReader::Batch batch =
        written([&] { write_at("a-rule", stack_in("gnu_get_libc_version"), none); });
    assert_int_equal(batch.findings.at(0).sides.size(), 1);
}

TEST(write__same_rule_and_places__once) {
    const reader::RecordReader::Batch batch = written([] {
        for (int i = 0; i < 3; ++i) {
            write_at("a-rule", stack_in("gnu_get_libc_version"), stack_in("gnu_get_libc_release"));
        }
    });
    assert_int_equal(batch.findings.size(), 1);
}

TEST(write__another_rule_or_place_of_either_side__each_once) {
    const reader::RecordReader::Batch batch = written([] {
        const Stack one = stack_in("gnu_get_libc_version");
        const Stack other = stack_in("gnu_get_libc_version", 1);
        for (int i = 0; i < 3; ++i) {
            write_at("a-rule", one, one);
            write_at("other-rule", one, one);
            write_at("a-rule", other, one);
            write_at("a-rule", one, other);
        }
    });
    assert_int_equal(batch.findings.size(), 4);
}

TEST(write__ends_of_lines_and_escapes_in_texts__blanks) {
    const reader::RecordReader::Batch batch = written([] {
        const Stack stack = stack_in("gnu_get_libc_version");
        const std::array sides = {Side{"one\nend\nfinding 1", &stack}};
        write({.rule = "a-rule",
               .object = "a\nrule other-rule",
               .what = "b\x1b[2J\r\tc\nend\n",
               .remedy = "d\x01",
               .sides = sides});
    });
    assert_int_equal(batch.findings.size(), 1);
    assert_equal(batch.findings[0].rule, "a-rule");
    assert_equal(batch.findings[0].object, "a rule other-rule");
    assert_equal(batch.findings[0].what, "b [2J  c end ");
    assert_equal(batch.findings[0].remedy, "d ");
    assert_equal(batch.findings[0].sides.at(0).title, "one end finding 1");
}

// As what is left is told of a program that ends, when some libraries have destroyed their data already.
void write_at_exit() {
    write_at("a-rule", stack_in("gnu_get_libc_version"), stack_in("gnu_get_libc_release"));
}

TEST(write__when_the_process_ends__written) {
    const File file;
    (void)in_child("full:" + file.name(), [] {
        assert_int_equal(std::atexit(write_at_exit), 0); // it runs when what is made from now on is destroyed
        assert_true(depth() == Depth::kFull);
        std::exit(0); // NOLINT(concurrency-mt-unsafe): there is one thread
    });
    assert_int_equal(reader::RecordReader().feed(file.text()).findings.size(), 1);
}

TEST(write__behind_a_record_that_was_cut_off__whole) {
    const File file;
    FILE* const cut = std::fopen(file.name().c_str(), "w");
    assert_non_null(cut);
    std::fputs("finding 1\npid 7\nrule cut-off\nobject a\nwhat b\nremedy c\nside d\nframe 0x1 e /f", cut);
    std::fclose(cut);
    in_child("full:" + file.name(),
             [] { write_at("a-rule", stack_in("gnu_get_libc_version"), stack_in("gnu_get_libc_release")); });
    const reader::RecordReader::Batch batch = reader::RecordReader().feed(file.text());
    assert_int_equal(batch.findings.size(), 1);
    assert_equal(batch.findings[0].rule, "a-rule");
    assert_int_equal(batch.findings[0].sides.size(), 2);
}

TEST(write_blind_spot__twice__once) {
    const reader::RecordReader::Batch batch = written([] {
        write_blind_spot("memory\nthat is gone");
        write_blind_spot("memory\nthat is gone");
        write_blind_spot("another");
    });
    assert_int_equal(batch.findings.size(), 0);
    assert_int_equal(batch.blind_spots.size(), 2);
    assert_equal(batch.blind_spots[0], "memory that is gone");
    assert_equal(batch.blind_spots[1], "another");
}

TEST(write__nobody_wants_it__nothing) {
    const File file;
    for (const std::string& value : {std::string(), file.name(), "fuller:" + file.name()}) {
        in_child(value, [] {
            if (depth() != Depth::kNothing) {
                _exit(1);
            }
            write_at("a-rule", stack_in("gnu_get_libc_version"), stack_in("gnu_get_libc_release"));
            write_blind_spot("a text");
        });
    }
    assert_equal(file.text(), "");
}

TEST(depth__each_word__its_own) {
    constexpr std::array kDepths = {std::pair("quick:/dev/null", Depth::kQuick),
                                    std::pair("full:/dev/null", Depth::kFull),
                                    std::pair("every:/dev/null", Depth::kEveryRequest),
                                    std::pair("pedantic:/dev/null", Depth::kPedantic)};
    for (const auto& [value, wanted] : kDepths) {
        in_child(value, [wanted = wanted] { _exit(depth() == wanted ? 0 : 1); });
    }
}

TEST(write__environment_changed_since__the_first_file) {
    const File file;
    const File other;
    in_child("full:" + file.name(), [&] {
        write_blind_spot("one");
        setenv("SLUICE_CHECK", ("full:" + other.name()).c_str(), 1);
        write_blind_spot("two");
    });
    assert_int_equal(reader::RecordReader().feed(file.text()).blind_spots.size(), 2);
    assert_equal(other.text(), "");
}

TEST(write__file_is_gone__goes_on_with_errno_as_it_was) {
    in_child("full:/nowhere/at/all", [] {
        errno = EXDEV;
        write_blind_spot("a text");
        write_at("a-rule", stack_in("gnu_get_libc_version"), stack_in("gnu_get_libc_release"));
        _exit(errno == EXDEV ? 0 : 1);
    });
}

TEST(peer_read__written__taken_once_by_others_and_by_no_reader_of_findings) {
    const File file;
    in_child("full:" + file.name(), [] {
        write(PeerRead{.number = 77,
                       .address = "192.0.2.1",
                       .first = 4096,
                       .last = 8191,
                       .posted_ns = 5,
                       .frames = {}},
              stack_in("gnu_get_libc_version"));
        assert_true(PeerReads().take().empty());
    });
    reader::RecordReader records;
    assert_true(records.feed(file.text()).findings.empty());
    assert_int_equal(records.unreadable(), 0);
    in_child("full:" + file.name(), [] {
        PeerReads reads;
        const std::vector<PeerRead> taken = reads.take();
        assert_int_equal(taken.size(), 1);
        assert_int_equal(taken[0].number, 77);
        assert_equal(taken[0].address, "192.0.2.1");
        assert_int_equal(taken[0].first, 4096);
        assert_int_equal(taken[0].last, 8191);
        assert_int_equal(taken[0].posted_ns, 5);
        assert_true(taken[0].frames.find("gnu_get_libc_version") != std::string::npos);
        assert_true(reads.take().empty());
    });
}

TEST(peer_read__of_five_thousand__the_first_and_a_blind_spot) {
    const File file;
    in_child("full:" + file.name(), [] {
        for (std::uint64_t i = 0; i < 5000; ++i) {
            write(PeerRead{.number = 1, .address = "a", .first = i, .last = i, .posted_ns = 3, .frames = {}},
                  {});
        }
    });
    const reader::RecordReader::Batch batch = reader::RecordReader().feed(file.text());
    assert_int_equal(batch.blind_spots.size(), 1);
    in_child("full:" + file.name(), [] { assert_int_equal(PeerReads().take().size(), 4096); });
}

TEST(peer_read__of_the_same_bytes__sixty_four_and_others_still) {
    const File file;
    const auto read = [](std::uint64_t at, const char* function) {
        write(PeerRead{.number = 1, .address = "a", .first = at, .last = at, .posted_ns = 3, .frames = {}},
              stack_in(function));
    };
    in_child("full:" + file.name(), [&] {
        for (int i = 0; i < 100; ++i) {
            read(1, "gnu_get_libc_version");
        }
        read(2, "gnu_get_libc_version");
        read(1, "gnu_get_libc_release");
    });
    assert_int_equal(reader::RecordReader().feed(file.text()).blind_spots.size(), 1);
    in_child("full:" + file.name(), [] { assert_int_equal(PeerReads().take().size(), 66); });
}

TEST(write__the_same_place_of_another_process__one_of_each_place_there) {
    const reader::RecordReader::Batch batch = written([] {
        const Stack own = stack_in("gnu_get_libc_version");
        for (const char* const frames : {"frame 0x1 f /a\n", "frame 0x2 f /a\n", "frame 0x1 f /a\n"}) {
            const std::array sides = {Side{"there", nullptr, frames}, Side{"here", &own}};
            write({.rule = "a-rule", .object = "a", .what = "b", .remedy = "c", .sides = sides});
        }
    });
    assert_int_equal(batch.findings.size(), 2);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
