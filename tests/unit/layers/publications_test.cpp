// SPDX-License-Identifier: BSD-3-Clause
//
// What hosts have published over dirty lines: which looks are a mistake of the publisher's, and which aren't.
#include "layers/hosts/publications.hpp"

#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "tests/cmocka.hpp"

using sluice::layers::hosts::Publications;

namespace {

constexpr unsigned kWriter = 0;
constexpr Publications::Where kFlag{7, 0};
constexpr Publications::Where kRecord{7, 64};

// The processes of two hosts; a thread observes what was published in its own run alone, so that each test
// has a thread.
struct Run {
    Run() {
        char path[] = "/tmp/sluice-published-XXXXXX";
        assert_non_null(mkdtemp(path));
        directory = path;
        writer.emplace(*Publications::open(directory));
        reader.emplace(*Publications::open(directory));
    }
    ~Run() {
        unlink((directory + "/published").c_str());
        rmdir(directory.c_str());
    }
    // Publishes VALUE, while the record is dirty and holds HASH; 0: it isn't dirty.
    void publish(std::uint64_t value, std::uint64_t hash) {
        const Publications::Publication now = writer->begin_locked(kWriter, "frame 0x1 main writer\n");
        if (hash != 0) {
            writer->note_dirty_locked(now, kRecord, hash);
        }
        writer->end_locked(now, kFlag, value);
    }
    void observe(std::uint64_t value, bool is_in_memory = true) {
        reader->observe_locked(kFlag, value, is_in_memory);
    }
    bool is_missed(std::uint64_t hash) { return reader->is_missed_locked(kWriter, kRecord, hash); }

    std::string directory;
    std::optional<Publications> writer;
    std::optional<Publications> reader;
};

template<typename Body>
void in_a_thread(Body body) {
    std::thread([&] {
        Run run;
        body(run);
    }).join();
}

TEST(record__dirty_when_published_and_observed__missed_once) {
    in_a_thread([](Run& run) {
        run.publish(1, 5);
        assert_false(run.is_missed(5)); // nothing was observed
        run.observe(1);
        assert_true(run.is_missed(5));
        assert_string_equal(run.reader->frames_locked(kWriter, kRecord).c_str(), "frame 0x1 main writer\n");
        assert_false(run.is_missed(5));
    });
}

TEST(record__dirty_behind_the_publication__not_missed) {
    in_a_thread([](Run& run) {
        run.publish(1, 0);
        run.observe(1);
        assert_false(run.is_missed(5));
        run.publish(2, 5); // which isn't observed
        run.observe(1);
        assert_false(run.is_missed(5));
        run.observe(2);
        assert_true(run.is_missed(5));
    });
}

TEST(record__still_being_built__not_missed) {
    in_a_thread([](Run& run) {
        run.publish(1, 5);
        run.observe(1);
        assert_false(run.is_missed(6)); // stored to since
    });
}

TEST(record__cleaned_and_stored_again__not_missed) {
    in_a_thread([](Run& run) {
        run.publish(1, 5);
        run.writer->note_clean_locked(kWriter, kRecord);
        run.observe(1);
        assert_false(run.is_missed(5));
    });
}

TEST(record__dirty_since_an_earlier_publication__known_by_a_later_one) {
    in_a_thread([](Run& run) {
        run.publish(1, 5);
        run.publish(2, 5);
        run.observe(2);
        assert_true(run.is_missed(5));
    });
}

// Of a flag that goes up and down it isn't known which time was observed.
TEST(value__published_before__the_older_one_counts) {
    in_a_thread([](Run& run) {
        run.publish(1, 0);
        run.publish(0, 0);
        run.publish(1, 5);
        run.observe(1);
        assert_false(run.is_missed(5));
    });
}

TEST(publication__observed_by_another_thread__not_this_ones) {
    in_a_thread([](Run& run) {
        run.publish(1, 5);
        std::thread([&] { run.observe(1); }).join();
        assert_false(run.is_missed(5));
    });
}

TEST(processes_of_a_host__joined_and_left__all_have_left_when_the_last_has) {
    in_a_thread([](Run& run) {
        assert_false(run.reader->have_left_locked(kWriter)); // none was there
        run.writer->join_locked(kWriter);
        run.writer->join_locked(kWriter);
        run.writer->leave_locked(kWriter);
        assert_false(run.reader->have_left_locked(kWriter));
        run.writer->leave_locked(kWriter);
        assert_true(run.reader->have_left_locked(kWriter));
        assert_false(run.reader->have_left_locked(kWriter + 1));
    });
}

// The flag is in memory, and the writer isn't back from its call.
TEST(record__observed_while_it_is_published__missed) {
    in_a_thread([](Run& run) {
        run.publish(1, 5);
        const Publications::Publication now = run.writer->begin_locked(kWriter, "frame 0x1 main writer\n");
        run.writer->note_dirty_locked(now, kRecord, 6);
        run.writer->note_pending_locked(now, kFlag);
        run.observe(2, false); // of one that nobody remembers
        assert_false(run.is_missed(6));
        run.observe(2, true);
        assert_true(run.is_missed(6));
    });
}

// The writer is ahead of the reader, who looks late.
TEST(record__published_many_times_since__missed) {
    in_a_thread([](Run& run) {
        run.publish(1, 5);
        for (std::uint64_t value = 2; value <= 40; ++value) {
            run.publish(value, 5);
        }
        run.observe(1);
        assert_true(run.is_missed(5));
    });
}

TEST(line__cleaned_before_the_observed_publication__published) {
    in_a_thread([](Run& run) {
        run.writer->note_written_locked(kWriter, kRecord, 5);
        run.publish(1, 0);
        assert_false(run.reader->is_published_locked(kRecord, 5)); // nothing was observed
        assert_true(run.reader->observe_locked(kFlag, 1, true));
        assert_true(run.reader->is_published_locked(kRecord, 5));
        assert_false(run.reader->is_published_locked(kRecord, 6)); // it was evicted since
        assert_false(run.reader->observe_locked(kFlag, 1, true));  // that is known
    });
}

TEST(line__cleaned_behind_the_observed_publication__not_published) {
    in_a_thread([](Run& run) {
        run.publish(1, 0);
        run.writer->note_written_locked(kWriter, kRecord, 5);
        run.observe(1);
        assert_false(run.reader->is_published_locked(kRecord, 5));
        run.publish(2, 0);
        assert_false(run.reader->is_published_locked(kRecord, 5));
        run.observe(2);
        assert_true(run.reader->is_published_locked(kRecord, 5));
    });
}

TEST(line__with_a_flag__not_published) {
    in_a_thread([](Run& run) {
        constexpr Publications::Where kLineOfFlag{7, 0};
        run.writer->note_written_locked(kWriter, kLineOfFlag, 5);
        run.publish(1, 0);
        run.observe(1);
        assert_false(run.reader->is_published_locked(kLineOfFlag, 5));
    });
}

TEST(observations__of_one_host__counted_for_that_host_alone) {
    in_a_thread([](Run& run) {
        run.writer->count_observation_locked(kWriter);
        run.writer->count_observation_locked(kWriter);
        assert_int_equal(run.reader->observations_locked(kWriter), 2);
        assert_int_equal(run.reader->observations_locked(kWriter + 1), 0);
    });
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
