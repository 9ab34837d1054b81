// SPDX-License-Identifier: BSD-3-Clause
//
// What survives a simulated cut of the power, in a directory as `sluice persist run` makes it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
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
        file::Control control{};
        control.magic = file::kMagic;
        write(file::kFiles, folder_ + "/memory\n");
        write("memory", std::string(kBytes, 'a'));
        struct stat status {};
        stat(path().c_str(), &status);
        const file::State state = file::state_of(status);
        write(file::kControl, std::string(reinterpret_cast<const char*>(&control), sizeof control) +
                                  std::string(reinterpret_cast<const char*>(&state), sizeof state));
        write(file::durable_name(0), std::string(kBytes, 'a'));
        mkfifo((folder_ + "/" + file::kCut).c_str(), S_IRUSR | S_IWUSR);
        // NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread
        setenv("SLUICE_PERSISTENCE", ("simulated:" + folder_).c_str(), 1);
    }
    ~Run() { std::filesystem::remove_all(folder_); }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    std::string path() const { return folder_ + "/memory"; }
    std::string durable() const { return read(file::durable_name(0)); }
    std::uint64_t steps() const {
        file::Control control{};
        std::memcpy(&control, read(file::kControl).data(), sizeof control);
        return control.steps;
    }

  private:
    void write(const std::string& name, const std::string& content) const {
        std::ofstream(folder_ + "/" + name, std::ios::binary) << content;
    }
    std::string read(const std::string& name) const {
        std::ostringstream content;
        content << std::ifstream(folder_ + "/" + name, std::ios::binary).rdbuf();
        return content.str();
    }

    std::string folder_;
};

const Run& the_run() {
    static const Run run;
    return run;
}

// All of the file, which holds what survives.
class Mapped {
  public:
    explicit Mapped(int flags = MAP_SHARED) : file_(open(the_run().path().c_str(), O_RDWR | O_CLOEXEC)) {
        assert_int_equal(ftruncate(file_.get(), kBytes), 0);
        first_ = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags, file_.get(), 0));
        assert_ptr_not_equal(first_, MAP_FAILED);
        std::memset(first_, 'a', kBytes);
        assert_non_null(Simulation::find());
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
    Parts parts(std::size_t index) const {
        const coherence::Range one = line(index);
        return Simulation::find()->parts_at(&one, 1);
    }
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
    const Looks early = Simulation::find()->look_at(memory.parts(0));
    memory.fill(0, 'c');
    const Looks late = Simulation::find()->look_at(memory.parts(0));
    Simulation::find()->persist(late, "test");
    Simulation::find()->persist(early, "test");
    assert_int_equal(survivor(0), 'c');
}

TEST(look__over_newer_and_older_lines__older_ones_are_replaced) {
    const Mapped memory;
    memory.fill(0, 'b');
    memory.fill(1, 'b');
    memory.fill(2, 'b');
    const coherence::Range all = memory.range(0, 3 * kLine);
    const Looks early = Simulation::find()->look_at(Simulation::find()->parts_at(&all, 1));
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
    assert_int_equal(the_run().durable()[0], 'b');
    assert_int_equal(the_run().durable()[kLine / 2], 'a');
}

TEST(descriptor__all_of_its_file) {
    const Mapped memory;
    memory.fill(kBytes / kLine - 1, 'b');
    const std::optional<Part> all = Simulation::find()->part_of(memory.fd());
    assert_true(all.has_value());
    Simulation::find()->persist({&*all, 1}, "test");
    assert_int_equal(survivor(kBytes / kLine - 1), 'b');
    const Descriptor other(open("/dev/null", O_RDONLY | O_CLOEXEC));
    assert_false(Simulation::find()->part_of(other.get()).has_value());
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
