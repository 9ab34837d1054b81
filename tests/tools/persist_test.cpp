// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice persist run` with programs that store by the shell's means: sync(1) is an fsync().
#include <fstream>
#include <string>

// Last: its macros are common words.
#include "tests/tools/run_command.hpp"

using namespace sluice::test;

namespace {

using Words = std::vector<std::string>;

// A file to be simulated, which isn't there yet.
class Simulated {
  public:
    std::string file() const { return scratch_.root() + "/file"; }
    std::string other() const { return scratch_.root() + "/other"; }
    std::string left() const { return content_of(file()); }
    // With files F and G, which stand for these two.
    Ran run(Words options, const std::string& script) const {
        Words arguments = {"persist", "run", "--timeout", "60", "--seed", "1", "--file", file()};
        arguments.insert(arguments.end(), options.begin(), options.end());
        arguments.insert(arguments.end(), {"--", "sh", "-c", names() + script});
        return sluice::test::run(std::move(arguments));
    }
    std::string names() const { return "F=" + file() + "; G=" + other() + "; "; }

  private:
    const Machine scratch_;
};

void expect(const Ran& ran, int status) {
    if (ran.status != status) {
        fail_msg("exit status %d instead of %d: %s%s", ran.status, status, ran.out.c_str(), ran.err.c_str());
    }
}

TEST(synced__cut_at_the_end__is_there) {
    const Simulated memory;
    const Ran ran = memory.run({"--check", "grep -q hello " + memory.file()}, "printf hello > $F; sync $F");
    expect(ran, 0);
    assert_contains(ran.err, "power cut behind the last of 1 step: the check passed for 1 outcome");
}

TEST(not_synced__cut_at_the_end__may_be_lost) {
    const Simulated memory;
    const Ran ran = memory.run({"--check", "grep -q hello " + memory.file()}, "printf hello > $F");
    expect(ran, 66);
    assert_contains(ran.err, "power cut behind the last of 0 steps, outcome 0: what wasn't flushed is lost");
    assert_contains(ran.err, "stored, not flushed and lost: bytes 0 to 4 of " + memory.file());
    assert_contains(ran.err, "again: sluice persist run --seed 1 --outcome 0 --file " + memory.file());
    assert_int_equal(memory.left().size(), 5);
    assert_int_equal(memory.left()[0], '\0');
}

Ran run_two(const std::string& script) {
    const Simulated memory;
    const std::string check = memory.names() + "! grep -q b $G || grep -q a $F";
    return memory.run({"--file", memory.other(), "--every-step", "--check", check}, script);
}

TEST(two_files__in_the_order_of_their_syncs__pass) {
    expect(run_two("printf a > $F; sync $F; printf b > $G; sync $G"), 0);
    const Ran ran = run_two("printf b > $G; sync $G; printf a > $F; sync $F");
    expect(ran, 66);
    assert_contains(ran.err, "power cut before step 1 (fsync, process ");
}

TEST(each_run__begins_with_the_first_contents) {
    const Simulated memory;
    std::ofstream(memory.file()) << "first";
    const std::string script = "grep -q '^first$' $F || exit 7; test ! -e $G || exit 8; "
                               "printf other > $F; sync $F; printf x > $G; sync $F $G";
    expect(memory.run({"--file", memory.other(), "--every-step", "--check", "true"}, script), 0);
}

TEST(no_check__leaves_what_was_drawn) {
    const Simulated memory;
    const Ran ran = memory.run({"--cut", "2"}, "printf one > $F; sync $F; printf two 1<> $F; sync $F");
    expect(ran, 0);
    assert_contains(ran.err, "power cut before step 2 (fsync), seed 1");
    assert_true(memory.left() == "one" || memory.left() == "two");
}

TEST(one_outcome__is_that_one) {
    const Simulated memory;
    const std::string script = "printf one > $F; sync $F; printf two 1<> $F; sync $F";
    expect(memory.run({"--cut", "2", "--outcome", "0"}, script), 0);
    assert_string_equal(memory.left().c_str(), "one");
    expect(memory.run({"--cut", "2", "--outcome", "1"}, script), 0);
    assert_string_equal(memory.left().c_str(), "two");
    const Ran ran = memory.run({"--cut", "2", "--outcome", "2"}, script);
    expect(ran, 1);
    assert_contains(ran.err, "there is no outcome 2 here");
}

TEST(cut__ends_all_processes_of_the_run) {
    const Simulated memory;
    // The child holds the pipe as long as it lives.
    const std::string script = "printf x > $F; (sleep 1000 & echo $! > $G.pid); sync $F; exit 5";
    expect(memory.run({"--cut", "1"}, script), 0);
    const std::string pid = content_of(memory.other() + ".pid");
    assert_false(std::filesystem::exists("/proc/" + pid.substr(0, pid.find('\n'))));
}

// One has stopped, and the others see it: they tell the world, after some work.
const std::string kStopped = "printf x > $F; sync $F & P=$!; until read -r S < /proc/$P/stat && [ \"${S#*) "
                             "S}\" != \"$S\" ]; do :; done; ";

TEST(others__go_on_until_they_wait) {
    const Simulated memory;
    const std::string script =
        kStopped + "for i in 1 2 3 4 5; do /bin/true; done; echo told > $G.world; wait";
    const std::string world = memory.other() + ".world";
    expect(memory.run({"--cut", "1", "--check", "! grep told " + world}, script), 66);
}

TEST(others__make_files_while_one_has_stopped) {
    const Simulated memory;
    expect(memory.run({"--file", memory.other(), "--cut", "1", "--check", "! grep told " + memory.other()},
                      kStopped + "printf told > $G; wait"),
           66);
}

// Readers are started before and behind the process that holds the pipe: in any order of killing, some of
// them would see that it is dead. It and the sleepers live until they are killed.
TEST(others__at_the_end__see_nobody_s_death) {
    const Simulated memory;
    const std::string readers =
        "for i in 1 2 3 4 5 6 7 8 9 10; do (read never < $F.pipe; echo dead > $F.told) & done; ";
    const std::string sleepers = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 & done; ";
    const std::string script = "mkfifo $F.pipe; " + readers + sleepers +
                               "exec 3> $F.pipe; sleep 1000 & exec 3>&-; " + sleepers + readers +
                               "printf x > $F; sync $F";
    const std::string check = memory.names() + "rm $F.pipe; [ ! -e $F.told ]";
    for (int i = 0; i < 10; ++i) {
        expect(memory.run({"--cut", "1", "--check", check}, script), 0);
    }
}

TEST(output__of_repeated_runs__only_where_the_check_fails) {
    const Simulated memory;
    const std::string script = "echo from the program; printf x > $F; sync $F";
    const Ran right = memory.run({"--every-step", "--check", "echo from the check"}, script);
    expect(right, 0);
    assert_lacks(right.out + right.err, "from the");
    const Ran wrong = memory.run({"--every-step", "--check", "echo from the check; false"}, script);
    expect(wrong, 66);
    assert_contains(wrong.err, "from the program");
    assert_contains(wrong.err, "from the check");
}

TEST(program__that_ends_with_124__is_not_late) {
    const Simulated memory;
    const Ran ran = memory.run({"--check", "true"}, "exit 124");
    expect(ran, 124);
    assert_contains(ran.err, "the command ended with status 124");
}

TEST(program__that_fails__its_status) {
    const Simulated memory;
    const Ran ran = memory.run({"--every-step", "--check", "true"}, "printf x > $F; sync $F; exit 9");
    expect(ran, 9);
    assert_contains(ran.err, "the command ended with status 9 before the power was cut, behind 1 step");
}

// It may close ours, too, and have its own files in their place.
TEST(program__that_closes_all_descriptors__keeps_its_files) {
    const Simulated memory;
    const std::string rough = TEST_ROUGH " closes $F";
    const Ran all = memory.run({"--every-step", "--check", "true"}, rough);
    expect(all, 0);
    assert_contains(all.err, "before each of 2 steps");
    for (int i = 0; i < 8; ++i) {
        assert_string_equal(content_of(memory.file() + "." + std::to_string(i)).c_str(), "precious");
    }
}

TEST(program__that_syncs_in_a_handler__ends) {
    const Simulated memory;
    std::ofstream(memory.other()) << std::string(8192, 'a');
    const std::string check = "! grep -q a " + memory.other(); // it was cut off there
    expect(memory.run({"--file", memory.other(), "--check", check}, TEST_ROUGH " handles $F $G"), 0);
}

TEST(program__that_cancels_threads__ends) {
    const Simulated memory;
    expect(memory.run({"--check", "true"}, TEST_ROUGH " cancels $F"), 0);
}

TEST(program__without_another_descriptor__syncs) {
    const Simulated memory;
    expect(memory.run({"--check", "grep -q b " + memory.file()}, TEST_ROUGH " lacks $F"), 0);
}

TEST(program__that_can_t_have_another_descriptor__is_told) {
    const Simulated memory;
    const Ran ran = memory.run({"--check", "true"}, "ulimit -n 64; " TEST_ROUGH " lacks $F; :");
    expect(ran, 1);
    assert_contains(ran.err, "what survives isn't known");
}

TEST(file__that_is_made__has_its_mode_for_each_outcome) {
    const Simulated memory;
    const std::string check = memory.names() + "[ \"$(stat -c %a $F)\" = 600 ] && rm $F";
    expect(memory.run({"--check", check}, "umask 077; printf x > $F"), 0);
}

TEST(program__that_has_locked_its_file__has_it_locked_behind_a_sync) {
    const Simulated memory;
    expect(memory.run({"--check", "true"}, TEST_ROUGH " locks $F"), 0);
}

TEST(program__that_opens_streams__has_them_as_without_us) {
    const Simulated memory;
    expect(memory.run({"--check", "true"}, TEST_ROUGH " appends $F"), 0);
}

TEST(program__that_is_killed_in_the_middle__leaves_the_others_going) {
    const Simulated memory;
    const std::string script =
        "for i in 1 2 3 4 5 6 7 8; do " TEST_ROUGH " writes $F & P=$!; sync $F; sync $F; "
        "kill -9 $P; wait $P; done; printf last > $F; sync $F";
    expect(memory.run({"--check", "grep -q last " + memory.file()}, script), 0);
}

// In this directory, which a disk has: memory's files take any read.
TEST(program__that_writes_past_the_caches__syncs) {
    const Simulated memory;
    const std::string direct = "persist-test-direct." + std::to_string(getpid());
    const Ran ran = memory.run({"--file", direct, "--check", "grep -q direct " + direct},
                               TEST_ROUGH " writes_past " + direct);
    std::filesystem::remove(direct);
    if (ran.status == 77) {
        skip(); // this file system has no O_DIRECT
    }
    expect(ran, 0);
}

TEST(file__that_something_else_is_made_of__is_a_file_in_the_next_run) {
    const Simulated memory;
    std::ofstream(memory.file()) << "first";
    std::filesystem::permissions(memory.file(), std::filesystem::perms(0640));
    const std::string script = "[ \"$(stat -c %a:%F $F)\" = '640:regular file' ] || exit 9; sync $F; sync $F";
    for (const char* const check :
         {"rm $F; mkfifo $F", "ln -s elsewhere $F.new; mv $F.new $F", "rm $F; mkdir $F", "chmod 400 $F"}) {
        const Ran ran = memory.run({"--every-step", "--check", memory.names() + check}, script);
        if (ran.status != 0) {
            fail_msg("%s: %s", check, ran.err.c_str());
        }
        std::filesystem::remove(memory.file());
        std::ofstream(memory.file()) << "first";
        std::filesystem::permissions(memory.file(), std::filesystem::perms(0640));
    }
    const Ran ran = memory.run({"--check", "true"}, "rm $F; mkfifo $F");
    expect(ran, 1);
    assert_contains(ran.err, "the command has made something else of it");
}

TEST(file__that_shm_open_cuts_off__is_cut_off) {
    const Simulated memory;
    const std::string shared = "/dev/shm/sluice-persist-test." + std::to_string(getpid());
    std::ofstream(shared) << std::string(8192, 'a');
    const Ran ran = memory.run({"--file", shared, "--every-step", "--check", "! grep -q a " + shared},
                               TEST_ROUGH " shares " + shared);
    std::filesystem::remove(shared);
    expect(ran, 0);
}

// What survives goes with its file. Each check is for what is never found on a disk.
TEST(names__that_change__take_what_survives_along) {
    const Simulated memory;
    const std::pair<const char*, const char*> cases[] = {
        {"head -c 8192 /dev/zero | tr '\\0' b > $F.new; sync $F.new; mv $F.new $F", "! grep -q a $F"},
        {"rm $F; printf b > $F", "! grep -q a $F"},
        {"truncate -s 0 $F; truncate -s 8192 $F", "! grep -q a $F"},
        {"truncate -s 100 $F; truncate -s 8192 $F; sync $F",
         "[ \"$(tr -d '\\0' < $F)\" = \"$(printf %100s | tr ' ' a)\" ]"},
        {TEST_ROUGH " cuts $F", "! grep -q a $F"},
        {TEST_ROUGH " empties $F", "! grep -q a $F"},
        {TEST_ROUGH " streams $F", "! grep -q a $F"},
        {": > $F; printf b >> $F", "! grep -q a $F"},
        {"rm $F", "[ ! -e $F ]"},
        {"rm $F; sync; :", "[ ! -e $F ]"},
    };
    for (const auto& [script, check] : cases) {
        std::ofstream(memory.file()) << std::string(8192, 'a');
        const Ran ran = memory.run({"--every-step", "--check", memory.names() + check}, script);
        if (ran.status != 0) {
            fail_msg("%s: %s", script, ran.err.c_str());
        }
    }
}

TEST(names__of_two_simulated_files__are_exchanged_with_what_survives) {
    const Simulated memory;
    const std::string write_and_rename = "printf b > $G; sync $G; mv $G $F";
    expect(memory.run({"--file", memory.other(), "--check", memory.names() + "[ \"$(cat $F)\" = b ]"},
                      write_and_rename),
           0);
    const std::string unsynced = "printf b > $G; mv $G $F";
    expect(
        memory.run({"--file", memory.other(), "--check", memory.names() + "[ \"$(cat $F)\" = b ]"}, unsynced),
        66);
}

TEST(names__exchanged_in_one_call__keep_what_survives) {
    const Simulated memory;
    std::ofstream(memory.file()) << std::string(8192, 'a');
    std::ofstream(memory.other()) << std::string(8192, 'b');
    const std::string check = memory.names() + "grep -q b $F && ! grep -q a $F && grep -q a $G";
    expect(memory.run({"--file", memory.other(), "--check", check}, TEST_ROUGH " exchanges $F $G"), 0);
}

// Looked at while names change, each file has its own bytes.
TEST(names__that_others_exchange_at_the_cut__take_what_survives_along) {
    const Simulated memory;
    std::ofstream(memory.file()) << std::string(8192, 'a');
    std::ofstream(memory.other()) << std::string(8192, 'b');
    const std::string check = memory.names() + "for each in $F $G; do [ ! -e $each ] || ! grep -q a $each || "
                                               "! grep -q b $each || exit 1; done; ! cmp -s $F $G";
    const std::string script = "T=$F.aside; (while :; do mv $F $T; mv $G $F; mv $T $G; done) & P=$!; "
                               "for i in 1 2 3 4; do sync $F; done 2>/dev/null; kill $P; wait; :";
    expect(memory.run({"--file", memory.other(), "--every-step", "--check", check}, script), 0);
}

// Where paths mean other files, nothing happens to ours; mounts alone change nothing.
TEST(process__with_other_mounts__is_followed_where_it_sees_the_file) {
    const Simulated memory;
    if (memory.run({}, "unshare -rm true").status != 0) {
        skip(); // no namespaces for this user
    }
    const std::string begin = "D=$(dirname $F); export D F; printf stored 1<> $F; unshare -rm sh -c ";
    const std::pair<const char*, const char*> cases[] = {
        {"'mount -t tmpfs none $D; : > $D/other'", "synced"},
        {"'mount -t tmpfs none $D; printf foreign > $F; sync; sync $F'", "synced"},
        {"'printf renamed > $D/other; mv $D/other $F'", "renamed"},
    };
    for (const auto& [script, left] : cases) {
        std::ofstream(memory.file()) << "synced";
        expect(memory.run({"--outcome", "0"}, begin + script), 0);
        assert_string_equal(memory.left().c_str(), left);
    }
}

TEST(names__that_a_run_makes_one_file__are_two_in_the_next) {
    const Simulated memory;
    std::ofstream(memory.file()) << "aaa";
    std::ofstream(memory.other()) << "bbb";
    const std::string script = "grep -q a $F && grep -q b $G || exit 9; ln -f $F $G; sync $F";
    expect(memory.run({"--file", memory.other(), "--every-step", "--check", "true"}, script), 0);
}

TEST(file__that_is_never_made__is_not_there) {
    const Simulated memory;
    const std::string check = "[ ! -e " + memory.other() + " ]";
    expect(memory.run({"--file", memory.other(), "--check", check}, "printf a > $F; sync $F"), 0);
}

TEST(check__that_ends_by_a_signal__has_failed) {
    const Simulated memory;
    for (const char* const check : {"exit 143", "kill -TERM $$", "exit 130"}) {
        const Ran ran = memory.run({"--check", check}, "printf a > $F; sync $F");
        expect(ran, 66);
        assert_contains(ran.err, "again: sluice persist run");
    }
}

TEST(check__over_its_time__124) {
    const Simulated memory;
    const std::string check = "echo $$ > " + memory.other() + "; exec sleep 1000";
    const Ran ran =
        run({"persist", "run", "--timeout", "1", "--file", memory.file(), "--check", check, "--", "true"});
    expect(ran, 124);
    assert_contains(ran.err, "the check has not ended in time");
    const std::string pid = content_of(memory.other());
    assert_true(pid.size() > 1);
    assert_false(std::filesystem::exists("/proc/" + pid.substr(0, pid.size() - 1)));
}

TEST(check__that_is_not_there__is_told) {
    const Simulated memory;
    const Ran ran = memory.run({"--check", "no-such-check"}, "printf a > $F; sync $F");
    expect(ran, 127);
    assert_contains(ran.err, "the check can't be run: no-such-check");
}

// What the cut has taken away may be what the check runs.
TEST(check__whose_last_command_is_gone_later__has_failed) {
    const Simulated memory;
    const std::string check = memory.names() + "[ -e $G ] && exec no-such-check; : > $G";
    const Ran ran = memory.run({"--every-step", "--check", check}, "printf a > $F; sync $F");
    expect(ran, 66);
    assert_contains(ran.err, "no-such-check");
    assert_contains(ran.err, "again: sluice persist run");
}

TEST(told_to_end__by_each_signal__ends_with_its_number) {
    const Simulated memory;
    const std::string script = "printf a > $F; sync $F";
    expect(memory.run({"--check", "kill -INT $PPID"}, script), 130);
    expect(memory.run({"--check", "kill -HUP $PPID"}, script), 129);
    expect(memory.run({"--every-step", "--check", "true"}, script + "; trap '' TERM; kill -TERM $PPID"), 143);
}

TEST(command__shown_uroce_s_devices__finds_them) {
    const Simulated memory;
    const Ran ran =
        memory.run({}, TEST_COMMAND " run --device uroce -- find /sys/class/infiniband -name 'uroce*'");
    expect(ran, 0);
    assert_contains(ran.out, "/sys/class/infiniband/uroce");
}

TEST(no_step__is_told) {
    const Simulated memory;
    const Ran ran = memory.run({"--every-step", "--check", "true"}, ":");
    expect(ran, 0);
    assert_contains(ran.err, "no call that makes the files durable was seen");
}

TEST(time__over__124) {
    const Simulated memory;
    const Ran ran = run({"persist", "run", "--timeout", "1", "--file", memory.file(), "--", "sleep", "1000"});
    expect(ran, 124);
    assert_contains(ran.err, "has not ended in time");
}

TEST(command__that_cant_be_simulated__is_told) {
    const Simulated memory;
    const Ran missing = run({"persist", "run", "--file", memory.file(), "--", "no-such-program"});
    expect(missing, 127);
    assert_contains(missing.err, "behind 0 steps");
    const Ran ran = run({"persist", "run", "--file", memory.file(), "--", TEST_STATIC});
    assert_contains(ran.err, TEST_STATIC " is linked statically");
    assert_contains(ran.err, "lose what isn't durable");
}

TEST(files__that_cant_be__are_told) {
    const Simulated memory;
    const Ran nowhere = run({"persist", "run", "--file", memory.file() + "/in/it", "--", "true"});
    expect(nowhere, 1);
    assert_contains(nowhere.err, "its directory is not there");
    const Ran nothing = run({"persist", "run", "--file", "", "--", "true"});
    expect(nothing, 1);
    assert_contains(nothing.err, "its directory is not there");
    const Ran directory = run({"persist", "run", "--file", "/tmp", "--", "true"});
    expect(directory, 1);
    assert_contains(directory.err, "it is a directory");
    const std::string link = memory.file() + ".link";
    assert_int_equal(symlink("nowhere", link.c_str()), 0);
    const Ran dangling = run({"persist", "run", "--file", link, "--", "true"});
    expect(dangling, 1);
    assert_contains(dangling.err, "it is a link to a file that isn't there");
    assert_true(std::filesystem::is_symlink(link));
    const Ran device = run({"persist", "run", "--file", "/dev/null", "--", "true"});
    expect(device, 1);
    assert_contains(device.err, "only a regular file can be simulated");
    const Ran twice = memory.run({"--file", memory.file()}, "true");
    expect(twice, 2);
    assert_contains(twice.err, "is named twice");
}

TEST(command_line__wrong__2) {
    const Simulated memory;
    const Ran unchecked = memory.run({"--every-step"}, "true");
    expect(unchecked, 2);
    assert_contains(unchecked.err, "--every-step needs --check");
    expect(memory.run({"--every-step", "--check", "true", "--cut", "1"}, "true"), 2);
    expect(memory.run({"--every-step", "--check", "true", "--outcome", "1"}, "true"), 2);
    expect(memory.run({"--cut", "0"}, "true"), 2);
    expect(run({"persist", "run", "--", "true"}), 2);
    expect(run({"persist", "run", "--file", memory.file()}), 2);
    expect(run({"--json", "persist", "run", "--file", memory.file(), "--", "true"}), 2);
}

} // namespace

int main() {
    return run_all_tests();
}
