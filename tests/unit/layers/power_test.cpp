// SPDX-License-Identifier: BSD-3-Clause
//
// What survives a simulated cut of the power, in a directory as `sluice persist run` makes it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "layers/power/device_writes.hpp"
#include "layers/power/pending.hpp"
#include "layers/power/simulation.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

using namespace sluice;
using namespace sluice::layers::power;

namespace {

constexpr std::size_t kLine = file::kLineBytes;
constexpr std::size_t kBytes = 8192;

// One for all tests, as a process has one simulation.
class Run {
  public:
    Run() {
        char folder[] = "/tmp/sluice-power-XXXXXX";
        if (mkdtemp(folder) == nullptr) {
            std::abort();
        }
        folder_ = folder;
        path_ = folder_ + "/memory";
        file::Control control{};
        control.magic = file::kMagic;
        control.next_survivor = 1;
        write(file::kFiles, folder_ + "/memory\n");
        write("memory", std::string(kBytes, 'a'));
        const file::State state{identity_of(path()), 1, 0, kBytes, identity_of(folder_)};
        std::string shared(reinterpret_cast<const char*>(&control), sizeof control);
        shared.append(reinterpret_cast<const char*>(&state), sizeof state);
        shared.resize(file::control_bytes(1)); // the other table isn't written yet
        write(file::kControl, shared);
        write(file::durable_name(0), std::string(kBytes, 'a'));
        write(file::numbers_name(0), std::string(sizeof(file::Age), '\0'));
        mkfifo((folder_ + "/" + file::kCut).c_str(), S_IRUSR | S_IWUSR);
        // NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread
        setenv("SLUICE_PERSISTENCE", ("simulated:" + folder_).c_str(), 1);
    }
    ~Run() { std::filesystem::remove_all(folder_); }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    const std::string& path() const { return path_; }
    std::string durable() const {
        const std::string shared = read(file::kControl);
        file::Control control{};
        std::memcpy(&control, shared.data(), sizeof control);
        file::State state{};
        std::memcpy(&state, shared.data() + file::table_offset(control.table, 1), sizeof state);
        return state.exists != 0 ? read(file::durable_name(state.survivor)) : "";
    }
    std::uint64_t steps() const {
        file::Control control{};
        std::memcpy(&control, read(file::kControl).data(), sizeof control);
        return control.steps;
    }

    // As the command does when it looks at what is left.
    void set_ended(std::uint32_t is_ended) const {
        const Descriptor control(open((folder_ + "/" + file::kControl).c_str(), O_WRONLY | O_CLOEXEC));
        assert_int_equal(pwrite(control.get(), &is_ended, sizeof is_ended, offsetof(file::Control, is_ended)),
                         sizeof is_ended);
    }

  private:
    static file::Identity identity_of(const std::string& path) {
        struct statx status {};
        assert_int_equal(file::look_at(path.c_str(), status), 0);
        return file::identity_of(status);
    }
    void write(const std::string& name, const std::string& content) const {
        std::ofstream(folder_ + "/" + name, std::ios::binary) << content;
    }
    std::string read(const std::string& name) const {
        std::ostringstream content;
        content << std::ifstream(folder_ + "/" + name, std::ios::binary).rdbuf();
        return content.str();
    }

    std::string folder_;
    std::string path_;
};

const Run& the_run() {
    static const Run run;
    return run;
}

// All of the file, which holds what survives.
class Mapped {
  public:
    explicit Mapped(int flags = MAP_SHARED, bool is_filled = true)
        : file_(open(the_run().path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
        assert_int_equal(ftruncate(file_.get(), kBytes), 0);
        first_ = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags, file_.get(), 0));
        assert_ptr_not_equal(first_, MAP_FAILED);
        assert_non_null(Simulation::find());
        if (!is_filled) {
            return;
        }
        std::memset(first_, 'a', kBytes);
        persist_range(range(0, kBytes), "reset");
    }
    ~Mapped() { munmap(first_, kBytes); }
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;

    void fill(std::size_t line, char c) const { std::memset(first_ + line * kLine, c, kLine); }
    coherence::Range range(std::size_t offset, std::size_t length) const {
        return {reinterpret_cast<std::uintptr_t>(first_) + offset, length};
    }
    coherence::Range line(std::size_t index) const { return range(index * kLine, kLine); }
    int fd() const { return file_.get(); }

  private:
    const Descriptor file_;
    char* first_ = nullptr;
};

char survivor(std::size_t line) {
    const std::string all = the_run().durable();
    const char first = all.at(line * kLine);
    assert_true(all.substr(line * kLine, kLine) == std::string(kLine, first));
    return first;
}

TEST(persist__one_byte__its_line_and_no_other_survives) {
    const Mapped memory;
    memory.fill(0, 'b');
    memory.fill(1, 'b');
    memory.fill(2, 'b');
    const std::uint64_t before = the_run().steps();
    assert_true(persist_range(memory.range(kLine + 5, 1), "test"));
    assert_int_equal(the_run().steps(), before + 1);
    assert_int_equal(survivor(0), 'a');
    assert_int_equal(survivor(1), 'b');
    assert_int_equal(survivor(2), 'a');
}

TEST(flush__without_drain__nothing_survives) {
    const Mapped memory;
    memory.fill(0, 'b');
    const std::uint64_t before = the_run().steps();
    assert_true(flush_range(memory.line(0)));
    assert_int_equal(survivor(0), 'a');
    assert_int_equal(the_run().steps(), before);
    assert_true(drain("test"));
    assert_int_equal(survivor(0), 'b');
    assert_false(drain("test"));
    assert_int_equal(the_run().steps(), before + 1);
}

TEST(drain__behind_another_store__what_was_flushed_survives) {
    const Mapped memory;
    memory.fill(0, 'b');
    flush_range(memory.line(0));
    memory.fill(0, 'c');
    drain("test");
    assert_int_equal(survivor(0), 'b');
}

TEST(looks__made_durable_in_the_other_order__the_later_stays) {
    const Mapped memory;
    memory.fill(0, 'b');
    const Looks early = Simulation::find()->look_at({memory.line(0)});
    memory.fill(0, 'c');
    const Looks late = Simulation::find()->look_at({memory.line(0)});
    Simulation::find()->persist(late, "test");
    Simulation::find()->persist(early, "test");
    assert_int_equal(survivor(0), 'c');
}

TEST(look__over_newer_and_older_lines__older_ones_are_replaced) {
    const Mapped memory;
    memory.fill(0, 'b');
    memory.fill(1, 'b');
    memory.fill(2, 'b');
    const Looks early = Simulation::find()->look_at({memory.range(0, 3 * kLine)});
    memory.fill(1, 'c');
    persist_range(memory.line(1), "test");
    Simulation::find()->persist(early, "test");
    assert_int_equal(survivor(0), 'b');
    assert_int_equal(survivor(1), 'c');
    assert_int_equal(survivor(2), 'b');
}

TEST(memory__of_its_own__is_not_simulated) {
    const Mapped shared;
    const Mapped own(MAP_PRIVATE);
    std::vector<char> heap(kLine);
    assert_false(persist_range(own.line(0), "test"));
    assert_false(flush_range({reinterpret_cast<std::uintptr_t>(heap.data()), heap.size()}));
    assert_false(Simulation::find()->covers(own.line(0)));
    assert_true(Simulation::find()->covers(shared.line(0)));
}

TEST(covers__beyond_the_mapping__false) {
    const Mapped memory;
    assert_true(Simulation::find()->covers(memory.range(0, kBytes)));
    assert_true(Simulation::find()->covers(memory.range(1, 1)));
    assert_false(Simulation::find()->covers(memory.range(0, 0)));
    assert_false(Simulation::find()->covers(memory.range(kBytes - 1, kBytes)));
}

TEST(file__that_became_shorter__no_step_fails) {
    const Mapped memory;
    memory.fill(0, 'b');
    assert_int_equal(ftruncate(memory.fd(), kLine / 2), 0);
    assert_true(persist_range(memory.range(0, kBytes), "test"));
    assert_true(the_run().durable() == std::string(kLine / 2, 'b'));
}

TEST(descriptor__all_of_its_file) {
    const Mapped memory;
    memory.fill(kBytes / kLine - 1, 'b');
    const std::uint64_t before = the_run().steps();
    Simulation::find()->persist_file(memory.fd(), "test");
    assert_int_equal(survivor(kBytes / kLine - 1), 'b');
    assert_int_equal(the_run().steps(), before + 1);
    const Descriptor other(open("/dev/null", O_RDONLY | O_CLOEXEC));
    Simulation::find()->persist_file(other.get(), "test");
    assert_int_equal(the_run().steps(), before + 1);
}

TEST(descriptor__for_writing_only__all_of_its_file) {
    const Mapped memory;
    memory.fill(3, 'b');
    const Descriptor writer(open(the_run().path().c_str(), O_WRONLY | O_CLOEXEC));
    Simulation::find()->persist_file(writer.get(), "test");
    assert_int_equal(survivor(3), 'b');
}

// What follows CHANGE, as when the program makes it.
void change(const std::function<int()>& change) {
    assert_int_equal(Simulation::find()->follow("test", change), 0);
}

int write_file(const std::string& path, const std::string& content) {
    const Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    return write(file.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()) ? 0 : -1;
}

TEST(file__removed_and_made_anew__nothing_of_the_former_survives) {
    const Mapped memory;
    const std::string& path = the_run().path();
    change([&] { return unlink(path.c_str()); });
    assert_string_equal(the_run().durable().c_str(), "");
    change([&] { return write_file(path, ""); });
    assert_string_equal(the_run().durable().c_str(), "");
    assert_int_equal(write_file(path, "bb"), 0);
    assert_string_equal(the_run().durable().c_str(), "");
    Simulation::find()->persist_all("test");
    assert_string_equal(the_run().durable().c_str(), "bb");
}

TEST(file__that_comes_from_elsewhere__survives_as_it_is) {
    const Mapped memory;
    const std::string& path = the_run().path();
    const std::string other = path + ".other";
    assert_int_equal(write_file(other, "new"), 0);
    change([&] { return rename(other.c_str(), path.c_str()); });
    assert_string_equal(the_run().durable().c_str(), "new");
}

TEST(file__cut_off_and_as_long_again__zeros_survive) {
    const Mapped memory;
    change([&] { return ftruncate(memory.fd(), kLine); });
    change([&] { return ftruncate(memory.fd(), kBytes); });
    assert_true(the_run().durable() == std::string(kLine, 'a'));
}

TEST(flush__of_lines_that_are_cut_off_before_the_drain__nothing_of_them_survives) {
    const Mapped memory;
    memory.fill(0, 'b');
    memory.fill(9, 'b');
    flush_range(memory.line(0));
    flush_range(memory.line(9));
    change([&] { return ftruncate(memory.fd(), 5 * kLine); });
    change([&] { return ftruncate(memory.fd(), kBytes); });
    drain("test");
    assert_true(the_run().durable() == std::string(kLine, 'b') + std::string(4 * kLine, 'a'));
}

TEST(flush__of_lines_that_never_survived_and_are_cut_off__nothing_of_them_survives) {
    const Mapped memory;
    const std::string& path = the_run().path();
    change([&] { return unlink(path.c_str()); });
    change([&] { return write_file(path, ""); });
    const Mapped fresh(MAP_SHARED, false);
    fresh.fill(64, 'b');
    flush_range(fresh.line(64));
    change([&] { return ftruncate(fresh.fd(), 0); });
    change([&] { return ftruncate(fresh.fd(), kBytes); });
    drain("test");
    assert_true(the_run().durable().empty());
}

TEST(flush__between_two_cuts__survives_before_the_second) {
    const Mapped memory;
    change([&] { return ftruncate(memory.fd(), 5 * kLine); });
    change([&] { return ftruncate(memory.fd(), kBytes); });
    memory.fill(20, 'c');
    persist_range(memory.line(20), "test");
    memory.fill(7, 'b');
    flush_range(memory.line(7));
    change([&] { return ftruncate(memory.fd(), 9 * kLine); });
    drain("test");
    assert_true(the_run().durable() == std::string(5 * kLine, 'a') + std::string(2 * kLine, '\0') +
                                           std::string(kLine, 'b') + std::string(kLine, '\0'));
}

TEST(flush__of_a_line_that_is_cut_in_two__the_first_part_survives) {
    const Mapped memory;
    memory.fill(1, 'b');
    flush_range(memory.line(1));
    change([&] { return ftruncate(memory.fd(), kLine + 16); });
    change([&] { return ftruncate(memory.fd(), kBytes); });
    drain("test");
    assert_true(the_run().durable() == std::string(kLine, 'a') + std::string(16, 'b'));
}

TEST(flush__of_a_file_that_is_replaced_before_the_drain__the_new_one_survives) {
    const Mapped memory;
    const std::string& path = the_run().path();
    memory.fill(0, 'b');
    flush_range(memory.line(0));
    change([&] { return unlink(path.c_str()); });
    change([&] { return write_file(path, std::string(kLine, 'c')); });
    Simulation::find()->persist_all("test");
    drain("test");
    assert_true(the_run().durable() == std::string(kLine, 'c'));
}

TEST(follow__gives_what_the_change_does_and_its_errno) {
    const Mapped memory;
    errno = 0;
    assert_int_equal(Simulation::find()->follow("test", [] { return unlink("/no/such/file"); }), -1);
    assert_int_equal(errno, ENOENT);
}

bool is_asleep(pid_t process) {
    std::ostringstream stat;
    stat << std::ifstream("/proc/" + std::to_string(process) + "/stat").rdbuf();
    return stat.str().find(") S ") != std::string::npos;
}

// The command looks at what is left. Looks, steps and changes of names stop for ever.
TEST(run__that_has_ended__nothing_changes_any_more) {
    const Mapped memory;
    memory.fill(0, 'b');
    const std::function<void()> changes[] = {
        [&] { flush_range(memory.line(0)); },
        [&] { persist_range(memory.line(0), "test"); },
        [&] { Simulation::find()->persist_file(memory.fd(), "test"); },
        [&] { change([] { return unlink(the_run().path().c_str()); }); },
    };
    the_run().set_ended(1);
    for (const auto& each : changes) {
        const pid_t child = fork();
        if (child == 0) {
            each();
            _exit(0);
        }
        int status = 0;
        pid_t ended = 0;
        while (ended == 0 && !is_asleep(child)) {
            ended = waitpid(child, &status, WNOHANG);
        }
        kill(child, SIGKILL);
        assert_int_equal(ended, 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    the_run().set_ended(0);
    assert_int_equal(survivor(0), 'a');
}

TEST(device_writes__survive_once_they_are_pushed) {
    const Mapped memory;
    memory.fill(0, 'b');
    memory.fill(1, 'b');
    memory.fill(5, 'b');
    const std::uint64_t before = the_run().steps();
    note_device_write(memory.line(0));
    note_device_write(memory.line(1));
    note_device_write(memory.line(5));
    assert_int_equal(survivor(0), 'a');
    push_device_writes();
    assert_int_equal(survivor(0), 'b');
    assert_int_equal(survivor(1), 'b');
    assert_int_equal(survivor(2), 'a');
    assert_int_equal(survivor(5), 'b');
    push_device_writes();
    assert_int_equal(the_run().steps(), before + 1);
}

} // namespace

int main() {
    (void)the_run();
    return sluice::test::run_all_tests();
}
