// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice dat`, with recorded machines, and on this one with the providers that the registry's tests use.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "tests/loopback.hpp"
#include "tests/tools/run_command.hpp"

using namespace sluice::test;

namespace {

constexpr const char* kOwnFile = "/etc/dat.conf.d/sluice.conf";
const std::string kConf = std::string("plain u1.2 nonthreadsafe default ") + TEST_FOREIGN +
                          " test.1.0 \"\" \"\"\n" + "absent u1.2 threadsafe default " + TEST_FOREIGN +
                          " test.1.0 \"absent\" \"\"\n" +
                          "v2 u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"eth0 0\" \"\"\n";

// Lets programs on this machine see CONF and nothing else.
class Override {
  public:
    explicit Override(const std::string& conf) {
        machine_.write("/dat.conf", conf);
        chmod(machine_.root().c_str(), 0755); // for programs that run as somebody else
        setenv("DAT_OVERRIDE", path().c_str(), 1);
    }
    ~Override() { unsetenv("DAT_OVERRIDE"); }
    Override(const Override&) = delete;
    Override& operator=(const Override&) = delete;
    std::string path() const { return machine_.root() + "/dat.conf"; }

  private:
    Machine machine_;
};

int clean_environment(void**) {
    for (const char* name : {"SLUICE_LOG", "SLUICE_COHERENCE", "DAT_OVERRIDE"}) {
        unsetenv(name);
    }
    return 0;
}

TEST(list__entries_that_count__one_row_each_with_their_origin) {
    const Override conf(kConf);
    const Ran ran = run({"dat", "list"});
    assert_status(ran, 0);
    const auto plain = row(ran.out, "plain");
    assert_string_equal(plain[1].c_str(), "1.2");
    assert_string_equal(plain[2].c_str(), "no");
    assert_string_equal(plain[3].c_str(), (conf.path() + ":1").c_str());
    assert_string_equal(plain[4].c_str(), TEST_FOREIGN);
    assert_string_equal(row(ran.out, "absent")[2].c_str(), "yes");
    assert_lacks(ran.out, "libdaplofa.so.2"); // not "v2", which the random name of the directory may contain
    assert_string_equal(ran.err.c_str(), "");
}

TEST(list__json__has_the_documented_members) {
    const Override conf(kConf);
    const Ran ran = run({"dat", "list", "--json"});
    assert_status(ran, 0);
    const Json adapters = json_of(ran).at("adapters");
    assert_int_equal(adapters.size(), 2);
    assert_true(adapters[0] == Json({{"name", "plain"},
                                     {"api", "1.2"},
                                     {"thread-safe", false},
                                     {"library", TEST_FOREIGN},
                                     {"origin", conf.path() + ":1"}}));
}

#ifdef TEST_LATE_PROVIDER
TEST(list__provider_appears_meanwhile__is_listed_too) {
    const Override conf(kConf);
    setenv("LD_PRELOAD", TEST_LATE_PROVIDER, 1);
    const Ran ran = run({"dat", "list"});
    unsetenv("LD_PRELOAD");
    assert_status(ran, 0);
    assert_string_equal(row(ran.out, "plain")[1].c_str(), "1.2");
    assert_string_equal(row(ran.out, "absent")[1].c_str(), "1.2");
}
#endif

TEST(list__nothing__says_so_and_ends_with_3) {
    const Override conf("# nothing\n");
    const Ran ran = run({"dat", "list"});
    assert_status(ran, 3);
    assert_contains(ran.out, "No dat.conf names a provider");
    assert_contains(ran.out, "`unset DAT_OVERRIDE`");
    assert_int_equal(json_of(run({"dat", "list", "--json"})).at("adapters").size(), 0);
}

TEST(list__recorded_machine__its_files_alone) {
    const Override conf(kConf);
    const Machine machine;
    machine.write("/etc/dat.conf", "there u1.2 threadsafe default lib.so v.1.0 \"\" \"\"\n");
    const Ran ran = run({"dat", "list", "--root", machine.root()});
    assert_status(ran, 0);
    assert_string_equal(row(ran.out, "there")[3].c_str(), "/etc/dat.conf:1");
    assert_lacks(ran.out, "plain");
}

TEST(check__tells_what_is_wrong_and_what_opening_gives) {
    const Override conf(kConf + "nonsense\n");
    const Ran ran = run({"dat", "check"});
    assert_status(ran, 1);
    assert_contains(ran.out, conf.path() + ":3: passed over: it is for API 2");
    assert_contains(ran.out, conf.path() + ":4: wrong: the API version is missing; an entry has 8 fields");
    assert_string_equal(row(ran.out, "plain")[2].c_str(), "opens");
    assert_contains(ran.out, "DAT_INSUFFICIENT_RESOURCES DAT_RESOURCE_DEVICE");
    assert_string_equal(ran.err.c_str(), "");
}

TEST(check__one_adapter__is_judged_alone) {
    const Override conf(kConf + "nonsense\n");
    const Ran good = run({"dat", "check", "plain"});
    assert_status(good, 0);
    assert_lacks(good.out, "nonsense");
    assert_lacks(good.out, "absent");
    assert_status(run({"dat", "check", "absent"}), 1);
    const Ran unknown = run({"dat", "check", "nobody"});
    assert_status(unknown, 3);
    assert_contains(unknown.err, "there is no 'nobody'; see `sluice dat list`");
}

// As Debian's libdat2 once brought it.
TEST(check__library_that_isnt_there__is_named_and_what_to_do) {
    const Override conf("OpenIB-cma u1.2 nonthreadsafe default libdaplcma.so.99 dapl.1.2 \"ib0 0\" \"\"\n"
                        "ofa-v2-ib0 u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"ib0 0\" \"\"\n");
    const Ran ran = run({"dat", "check"});
    assert_status(ran, 1);
    assert_contains(ran.out, "libdaplcma.so.99: cannot open shared object file");
    assert_contains(ran.out, "take the entry out of " + conf.path() + ":1");
    const Json document = json_of(run({"dat", "check", "--json"}));
    assert_contains(document.at("adapters")[0].at("why").get<std::string>(), "libdaplcma.so.99");
    const Ran other = run({"dat", "check", "ofa-v2-ib0"});
    assert_status(other, 3);
    assert_contains(other.err, conf.path() + ":2 is passed over, as it is for API 2");
    const Ran device = run({"dat", "check", "uroce0"});
    assert_status(device, 3);
    assert_contains(device.err, "`unset DAT_OVERRIDE`, or add an entry there");
}

#ifndef SLUICE_UNDER_SANITIZER // whose runtime our provider would need
// An own /etc, in which no dat.conf names another provider.
std::optional<Ran> run_in_empty_etc(const std::string& arguments) {
    const auto apart = [](const std::string& command) {
        return run_program("/usr/bin/unshare", {"-rm", "sh", "-c", "mount -t tmpfs none /etc && " + command});
    };
    setenv("LD_LIBRARY_PATH", TEST_OWN_PROVIDER_DIRECTORY, 1);
    std::optional<Ran> ran;
    if (apart("true").status == 0) { // otherwise this user has no namespaces
        ran = apart(std::string(TEST_COMMAND) + " " + arguments);
    }
    unsetenv("LD_LIBRARY_PATH");
    return ran;
}

TEST(check__device_by_its_address__opens) {
    const std::string address = Loopback::instance().next_address();
    const std::optional<Ran> ran = run_in_empty_etc("dat check " + address);
    if (!ran) {
        skip();
    }
    assert_status(*ran, 0);
    assert_string_equal(row(ran->out, address)[2].c_str(), "opens");
    assert_status(*run_in_empty_etc("dat check 192.0.2.77"), 3);
}

TEST(check__dat_conf_of_others__tells_how_a_device_gets_a_name) {
    const std::optional<Ran> ran = run_in_empty_etc(
        "dat list; echo 'x u1.2 threadsafe default lib.so v.1.0 \"\" \"\"' >/etc/dat.conf; " +
        std::string(TEST_COMMAND) + " dat check uroce0");
    if (!ran) {
        skip();
    }
    assert_status(*ran, 3);
    assert_contains(ran->err, "`sudo sluice dat register uroce0` names one");
}

TEST(check__address_that_is_taken__names_who_has_it) {
    const std::string address = Loopback::instance().next_address();
    const int holder = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(4791);
    assert_int_equal(inet_pton(AF_INET, address.c_str(), &name.sin_addr), 1);
    assert_int_equal(bind(holder, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    const Override conf("house u1.2 threadsafe default libdapl-sluice.so.1 sluice.0.1 \"uroce7\" \"\"\n");
    setenv("SLUICE_UROCE", ("uroce7=" + address).c_str(), 1);
    setenv("LD_LIBRARY_PATH", TEST_OWN_PROVIDER_DIRECTORY, 1);
    const Ran ran = run({"dat", "check", "house"});
    unsetenv("SLUICE_UROCE");
    unsetenv("LD_LIBRARY_PATH");
    close(holder);
    assert_status(ran, 1);
    assert_contains(ran.out,
                    "UDP port 4791 of " + address + " belongs to process " + std::to_string(getpid()));
    assert_contains(ran.out, "`sluice devices` lists them");
}
#endif

TEST(check__json__has_the_documented_members) {
    const Override conf(kConf + "nonsense\n");
    const Ran ran = run({"dat", "check", "--json"});
    assert_status(ran, 1);
    const Json document = json_of(ran);
    assert_int_equal(document.at("passed-over").size(), 2);
    assert_true(document.at("passed-over")[0].at("entry") == true &&
                document.at("passed-over")[1].at("entry") == false);
    assert_true(document.at("passed-over")[1].at("line") == 4 &&
                document.at("passed-over")[1].at("file") == conf.path());
    assert_true(document.at("adapters")[0].at("result") == "opens");
    assert_true(document.at("adapters")[1].at("result") == "DAT_INSUFFICIENT_RESOURCES DAT_RESOURCE_DEVICE");
}

TEST(check__file_can_t_be_read__is_wrong) {
    setenv("DAT_OVERRIDE", "/no/such/dat.conf", 1);
    const Ran ran = run({"dat", "check"});
    unsetenv("DAT_OVERRIDE");
    assert_status(ran, 1);
    assert_contains(ran.out, "/no/such/dat.conf: wrong: ");
}

TEST(register__device__is_named_in_a_file_of_its_own) {
    Machine machine("x86-server");
    machine.add("/etc/");
    const std::string file = machine.root() + kOwnFile;
    Ran ran = run({"dat", "register", "mlx5_0", "--root", machine.root()});
    assert_status(ran, 0);
    assert_string_equal(row(ran.out, "mlx5_0")[3].c_str(), "/etc/dat.conf.d/sluice.conf:2");
    ran = run({"dat", "register", "mlx5_0", "--name", "my \"ia\" \\", "--root", machine.root(), "--json"});
    assert_status(ran, 0);
    assert_true(json_of(ran).at("adapters")[1].at("name") == "my \"ia\" \\");
    assert_contains(content_of(file), "\"mlx5_0\" u1.2 threadsafe default libdapl-sluice.so.1 sluice.0.");
    assert_contains(content_of(file), " \"mlx5_0\" \"\"\n");
    ran = run({"dat", "unregister", "mlx5_0", "--root", machine.root()});
    assert_status(ran, 0);
    assert_contains(ran.out, "my \"ia\"");
    assert_lacks(ran.out, "mlx5_0 ");
    ran = run({"dat", "unregister", "my \"ia\" \\", "--root", machine.root()});
    assert_status(ran, 0);
    assert_false(std::filesystem::exists(file));
    assert_status(run({"dat", "unregister", "mlx5_0", "--root", machine.root()}), 3);
}

TEST(register__name_of_another_device__is_refused) {
    Machine machine("x86-server");
    machine.add("/etc/");
    const std::string ports = "/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0/infiniband/irdma0/ports/1/";
    machine.write(ports + "gid_attrs/ndevs/0", "eth7\n");
    machine.write(ports + "gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
    machine.write(ports + "gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0007\n");
    for (const char* const name :
         {"irdma0", "eth7", "10.0.0.7", "fe80::1", "uroce0", "uroce_eth7", "127.0.0.9"}) {
        const Ran ran = run({"dat", "register", "mlx5_0", "--name", name, "--root", machine.root()});
        assert_status(ran, 1);
        assert_contains(ran.err, std::string("'") + name + "' means the device ");
        assert_false(std::filesystem::exists(machine.root() + kOwnFile));
    }
    // Its own names hide nothing.
    assert_status(run({"dat", "register", "irdma0", "--name", "eth7", "--root", machine.root()}), 0);
    assert_status(run({"dat", "register", "mlx5_0", "--name", "uroce-main", "--root", machine.root()}), 0);
}

TEST(register__by_interface_or_address__is_named_so) {
    Machine machine("x86-server");
    machine.add("/etc/");
    const std::string ports = "/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0/infiniband/irdma0/ports/1/";
    machine.write(ports + "gid_attrs/ndevs/0", "eth7\n");
    machine.write(ports + "gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0007\n");
    for (const std::string device : {"eth7", "10.0.0.7", "127.0.0.9"}) {
        assert_status(run({"dat", "register", device, "--name", "by " + device, "--root", machine.root()}),
                      0);
        assert_contains(content_of(machine.root() + kOwnFile), " \"" + device + "\" \"\"\n");
    }
    const Ran ran = run({"dat", "register", "eth7", "--name", "mlx5_0", "--root", machine.root()});
    assert_status(ran, 1);
    assert_contains(ran.err, "'mlx5_0' means the device mlx5_0");
    assert_status(run({"dat", "register", "eth7", "--name", "irdma0", "--root", machine.root()}), 0);
}

// Where a file named by DAT_OVERRIDE is alone, what was written is in another.
TEST(register__override__ends_with_what_programs_see) {
    const Override conf(kConf);
    const std::string in_empty_etc =
        "mount -t tmpfs none /etc && exec \"$0\" dat register uroce0 --name house";
    const auto run_apart = [](const std::string& command) {
        return run_program("/usr/bin/unshare", {"-rm", "sh", "-c", command, TEST_COMMAND});
    };
    if (run_apart("mount -t tmpfs none /etc").status != 0) {
        skip(); // no namespaces for this user
    }
    const Ran ran = run_apart(in_empty_etc);
    assert_status(ran, 0);
    assert_string_equal(row(ran.out, "plain")[3].c_str(), (conf.path() + ":1").c_str());
    assert_lacks(ran.out, "house");
}

TEST(register__wrong__changes_nothing_and_says_why) {
    const Machine machine("x86-server");
    machine.write("/etc/dat.conf", "taken u1.2 threadsafe default lib.so v.1.0 \"\" \"\"\n");
    const auto assert_refused = [&machine](std::vector<std::string> arguments, int status, const char* why) {
        arguments.insert(arguments.end(), {"--root", machine.root()});
        const Ran ran = run(std::move(arguments));
        assert_status(ran, status);
        assert_contains(ran.err, why);
        assert_false(std::filesystem::exists(machine.root() + kOwnFile));
    };
    assert_refused({"dat", "register", "nobody"}, 3, "nobody");
    assert_refused({"dat", "register", "mlx5_0", "--name", "taken"}, 1,
                   "'taken' is named already, in /etc/dat.conf:1");
    assert_refused({"dat", "register", "mlx5_0", "--name", std::string(256, 'n')}, 2, "1 to 255 characters");
    assert_refused({"dat", "register", "mlx5_0", "--name", ""}, 2, "1 to 255 characters");
    assert_refused({"dat", "register", "mlx5_0", "--name", "a\nb"}, 2, "control character");
    assert_refused({"dat", "unregister", "taken"}, 3, "has not named a 'taken'");
    assert_refused({"dat", "register"}, 2, "DEV");
}

// libdat2 reads no other file.
TEST(register__api_2__adds_a_line_to_libdat2s_file) {
    const Machine machine("x86-server");
    const std::string others =
        "# of libdapl2\nofa u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"eth2 0\" \"\"";
    machine.write("/etc/dat.conf", others); // its last line doesn't end
    Ran ran = run({"dat", "register", "mlx5_0", "--name", "mine", "--api", "2", "--root", machine.root()});
    assert_status(ran, 0);
    assert_string_equal(row(ran.out, "mine")[1].c_str(), "2.0");
    assert_lacks(ran.out, "ofa");
    const std::string file = machine.root() + "/etc/dat.conf";
    assert_contains(content_of(file),
                    others + "\n\"mine\" u2.0 nonthreadsafe default libdapl-sluice2.so.2 sluice.");
    assert_true(content_of(file).ends_with(" \"mlx5_0\" \"\""));
    assert_false(std::filesystem::exists(machine.root() + kOwnFile));
    for (const char* const name : {"mine", "ofa"}) {
        ran = run({"dat", "register", "mlx5_0", "--name", name, "--api", "2", "--root", machine.root()});
        assert_status(ran, 1);
        assert_contains(ran.err, std::string("'") + name + "' is named already, in /etc/dat.conf:");
    }
    assert_status(run({"dat", "unregister", "mine", "--root", machine.root()}), 3);
    assert_status(run({"dat", "unregister", "ofa", "--api", "2", "--root", machine.root()}), 3);
    ran = run({"dat", "unregister", "mine", "--api", "2", "--root", machine.root()});
    assert_status(ran, 0);
    assert_contains(ran.out, "No line of /etc/dat.conf");
    assert_string_equal(content_of(file).c_str(), others.c_str()); // as its package has it
    assert_status(run({"dat", "register", "mlx5_0", "--api", "3", "--root", machine.root()}), 2);
}

TEST(register__api_2_without_libdat2s_file__makes_one_and_removes_it) {
    Machine machine("x86-server");
    machine.add("/etc/");
    const std::string file = machine.root() + "/etc/dat.conf";
    for (const char* const name : {"mine", "yours"}) {
        assert_status(
            run({"dat", "register", "mlx5_0", "--name", name, "--api", "2", "--root", machine.root()}), 0);
    }
    assert_contains(content_of(file), " \"mlx5_0\" \"\"\n\"yours\" ");
    assert_status(run({"dat", "unregister", "mine", "--api", "2", "--root", machine.root()}), 0);
    assert_true(content_of(file).starts_with("\"yours\" ") && content_of(file).ends_with("\n"));
    assert_status(run({"dat", "unregister", "yours", "--api", "2", "--root", machine.root()}), 0);
    assert_false(std::filesystem::exists(file));
}

TEST(register__file_of_somebody_else__is_left_alone) {
    const Machine machine("x86-server");
    machine.write(kOwnFile, "mine u1.2 threadsafe default lib.so v.1.0 \"\" \"\"\n");
    for (const char* command : {"register", "unregister"}) {
        const Ran ran = run({"dat", command, "mlx5_0", "--root", machine.root()});
        assert_status(ran, 1);
        assert_contains(ran.err, "was not written by `sluice dat register`");
    }
    assert_contains(content_of(machine.root() + kOwnFile), "mine u1.2");
}

#ifndef SLUICE_UNDER_SANITIZER
TEST(list__setuid__override_is_not_heard) {
    const Override conf("private u1.2 threadsafe default lib.so v.1.0 \"\" \"\"\n");
    const std::optional<Ran> ran = run_setuid({"dat", "list"});
    if (!ran) {
        skip();
    }
    assert_true(ran->status == 0 || ran->status == 3); // whether this machine has an /etc/dat.conf
    assert_lacks(ran->out, "private");
    assert_contains(run({"dat", "list"}).out, "private");
}
#endif

TEST(unregister__mistyped__says_what_may_have_been_meant) {
    Machine machine("x86-server");
    machine.add("/etc/");
    assert_contains(run({"--root", machine.root(), "dat", "unregister", "ia0"}).err,
                    "nothing is named so far");
    assert_status(run({"--root", machine.root(), "dat", "register", "mlx5_0", "--name", "first"}), 0);
    const Ran ran = run({"--root", machine.root(), "dat", "unregister", "frist"});
    assert_status(ran, 3);
    assert_contains(ran.err, "(did you mean 'first'?)");
    assert_contains(run({"--root", machine.root(), "dat", "check", "firts"}).err, "(did you mean 'first'?)");
}

TEST(usage__wrong__names_the_commands) {
    assert_status(run({"dat"}), 2);
    assert_contains(run({"dat", "frobnicate"}).err,
                    "unknown command 'frobnicate'; commands: list check register unregister");
}

} // namespace

int main() {
    return sluice::test::run_all_tests("tools.dat", clean_environment);
}
