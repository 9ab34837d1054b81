// SPDX-License-Identifier: BSD-3-Clause
//
// The `sluice` command as a person or a script calls it.
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>

#include "provider/uroce/device/counter_format.hpp"
#include "tests/tools/run_command.hpp"

using namespace sluice::test;

namespace {

constexpr const char* kDriverFile = "/etc/libibverbs.d/sluice.driver";
constexpr const char* kPlugin = "/usr/lib/x86_64-linux-gnu/libibverbs/libsluice-rdmav34.so";

int clean_environment(void**) {
    for (const char* name : {"SLUICE_LOG", "SLUICE_COHERENCE", "RDMAV_DRIVERS", "IBV_DRIVERS"}) {
        unsetenv(name);
    }
    return 0;
}

TEST(devices__recorded_server__one_row_each) {
    const Machine machine("x86-server");
    const Ran ran = run({"--root", machine.root(), "devices"});
    assert_int_equal(ran.status, 0);
    assert_string_equal(ran.err.c_str(), "");
    const auto mlx5 = row(ran.out, "mlx5_0");
    assert_string_equal(mlx5[1].c_str(), "mlx5_core");
    assert_true(std::ranges::find(mlx5, "coherent") != mlx5.end());
    assert_true(std::ranges::find(mlx5, "certain") != mlx5.end());
    assert_string_equal(row(ran.out, "irdma0")[1].c_str(), "ice");
    std::istringstream lines(ran.out);
    for (std::string line; std::getline(lines, line);) {
        assert_true(line.size() <= 100);
    }
}

TEST(devices__none__says_what_to_do_and_ends_with_3) {
    const Machine machine;
    const Ran ran = run({"--root", machine.root(), "devices"});
    assert_int_equal(ran.status, 3);
    assert_contains(ran.out, "no RDMA device");
    assert_contains(ran.out, "rdma link add rxe0 type rxe netdev");
    const Ran json = run({"--root", machine.root(), "devices", "--json"});
    assert_int_equal(json.status, 3);
    assert_true(json_of(json)["devices"].empty());
}

TEST(devices__json__has_the_documented_members) {
    const Machine machine("x86-server");
    const Json document = json_of(run({"devices", "--json", "--root", machine.root()}));
    assert_int_equal(document["devices"].size(), 2);
    const std::set<std::string> sources{
        "unknown", "environment", "config", "registration", "architecture", "device-tree", "software-device",
        "default", "device",      "pci",    "cpu",          "kernel",       "process"};
    const std::set<std::string> confidences{"unknown", "assumed", "likely", "certain"};
    for (const Json& device : document["devices"]) {
        assert_true(device["name"].is_string());
        assert_true(device["coherence-evidence"].is_string());
        for (const char* name :
             {"provider", "kernel-driver", "cpu-coherence", "io-coherence", "line", "granule", "clean",
              "invalidate", "relaxed-ordering", "no-snoop", "in-order-placement", "atomic-write", "flush",
              "on-demand-paging", "dma-bounce"}) {
            const Json& attribute = device["attributes"].at(name);
            assert_true(attribute.at("value").is_string() || attribute.at("value").is_number_unsigned());
            assert_true(sources.contains(attribute.at("source").get<std::string>()));
            assert_true(confidences.contains(attribute.at("confidence").get<std::string>()));
        }
    }
    const Json& mlx5 = document["devices"][1];
    assert_string_equal(mlx5["name"].get<std::string>().c_str(), "mlx5_0");
    assert_int_equal(mlx5["attributes"]["line"]["value"], 64);
    assert_string_equal(mlx5["attributes"]["flush"]["value"].get<std::string>().c_str(), "unknown");
}

TEST(info__one_device__tells_value_confidence_source_and_meaning) {
    const Machine machine("raspberry-pi");
    const Ran ran = run({"info", "mlx4_0", "--root", machine.root()});
    assert_int_equal(ran.status, 0);
    const auto coherence = row(ran.out, "cpu-coherence");
    assert_string_equal(coherence[1].c_str(), "noncoherent");
    assert_string_equal(coherence[2].c_str(), "likely");
    assert_string_equal(coherence[3].c_str(), "device-tree");
    assert_string_equal(row(ran.out, "flush")[2].c_str(), "-");
    assert_contains(ran.out, "neither dma-coherent nor dma-noncoherent");
}

TEST(info__unknown_coherence__says_what_it_means) {
    const Machine machine("arm64-acpi");
    const Ran ran = run({"--root", machine.root(), "info"});
    assert_int_equal(ran.status, 0);
    assert_contains(ran.out, "_CCA");
    assert_contains(ran.out, "[device efa_0]");
}

TEST(info__json__is_the_same_document_with_one_device) {
    const Machine machine("x86-server");
    const Json document = json_of(run({"--json", "info", "irdma0", "--root", machine.root()}));
    assert_int_equal(document["devices"].size(), 1);
    const Json all = json_of(run({"--json", "devices", "--root", machine.root()}));
    assert_true(document["devices"][0] == all["devices"][0]);
}

TEST(info__unknown_device__names_the_others_and_ends_with_3) {
    const Machine machine("x86-server");
    for (const char* option : {"--root", "--json"}) {
        const Ran ran = std::strcmp(option, "--json") == 0
                            ? run({"info", "mlx5_7", "--json", "--root", machine.root()})
                            : run({"info", "mlx5_7", "--root", machine.root()});
        assert_int_equal(ran.status, 3);
        assert_string_equal(ran.out.c_str(), "");
        assert_contains(ran.err, "sluice: no RDMA device 'mlx5_7'; there are: irdma0, mlx5_0");
    }
}

TEST(info__names_from_hostile_trees__give_valid_json_and_no_escapes) {
    Machine machine("x86-server");
    machine.remove("/sys/devices/pci0000:80/0000:80:03.0/0000:81:00.0/driver");
    machine.add("/sys/devices/pci0000:80/0000:80:03.0/0000:81:00.0/driver -> /\x1b[31m\xff\xfe");
    machine.add("/\x1b[31m\xff\xfe/");
    const Ran text = run({"info", "mlx5_0", "--root", machine.root()});
    assert_int_equal(text.status, 0);
    assert_lacks(text.out, "\x1b");
    json_of(run({"info", "mlx5_0", "--json", "--root", machine.root()}));
}

TEST(override__bad_file__fails_with_its_line) {
    Machine machine("x86-server");
    machine.write("/etc/sluice/sluice.conf", "coherence = maybe\n");
    for (const char* command : {"devices", "info"}) {
        const Ran ran = run({"--root", machine.root(), command});
        assert_int_equal(ran.status, 1);
        assert_string_equal(ran.out.c_str(), "");
        assert_contains(ran.err, "/etc/sluice/sluice.conf:1: 'maybe'");
    }
}

TEST(usage__wrong__ends_with_2_and_names_what_is_valid) {
    const std::vector<std::vector<std::string>> wrong{{"device"},
                                                      {"info", "a", "b"},
                                                      {"--jsn", "devices"},
                                                      {"provider", "start"},
                                                      {"--root"},
                                                      {"run"},
                                                      {"run", "--device", "tcp", "--", "true"},
                                                      {"run", "ls", "-l"},
                                                      {"--json", "run", "--", "true"},
                                                      {"--root", "/tmp", "run", "--", "true"},
                                                      {"--root", "/no/such", "devices"}};
    for (const auto& arguments : wrong) {
        const Ran ran = run(arguments);
        assert_int_equal(ran.status, 2);
        assert_string_equal(ran.out.c_str(), "");
        assert_true(ran.err.starts_with("sluice: ") && std::ranges::count(ran.err, '\n') == 1);
    }
    assert_contains(run({"device"}).err, "unknown command 'device' (did you mean 'devices'?); commands: "
                                         "devices info config doctor dat provider uroce stat top run");
    assert_contains(run({"provider", "start"}).err,
                    "unknown command 'start'; commands: status enable disable");
}

TEST(usage__no_command__prints_help_and_ends_with_2) {
    const Ran ran = run({});
    assert_int_equal(ran.status, 2);
    assert_string_equal(ran.err.c_str(), "");
    assert_contains(ran.out, "devices");
    assert_contains(ran.out, "sluice doctor  ");
    assert_contains(ran.out, "Exit status: 0 done");
    assert_true(ran.out.ends_with("\n"));
    const Ran of_group = run({"provider"});
    assert_int_equal(of_group.status, 2);
    assert_contains(of_group.out, "enable");
}

TEST(help__each_command__has_examples) {
    const std::vector<std::vector<std::string>> commands{{"devices"},
                                                         {"info"},
                                                         {"config"},
                                                         {"doctor"},
                                                         {"stat"},
                                                         {"top"},
                                                         {"run"},
                                                         {"check"},
                                                         {"sync"},
                                                         {"sync", "run"},
                                                         {"uroce"},
                                                         {"uroce", "dump"},
                                                         {"dat"},
                                                         {"dat", "list"},
                                                         {"dat", "check"},
                                                         {"dat", "register"},
                                                         {"dat", "unregister"},
                                                         {"provider"},
                                                         {"provider", "status"},
                                                         {"provider", "enable"},
                                                         {"provider", "disable"}};
    for (std::vector<std::string> words : commands) {
        const std::string command = words.back();
        words.emplace_back("--help");
        const Ran ran = run(words);
        assert_int_equal(ran.status, 0);
        const std::size_t examples = ran.out.find("Examples:\n");
        assert_true(examples != std::string::npos);
        assert_contains(ran.out.substr(examples), command);
    }
}

TEST(usage__mistyped__says_what_may_have_been_meant) {
    assert_contains(run({"provider", "stauts"}).err, "(did you mean 'status'?)");
    assert_contains(run({"devices", "--jsno"}).err, "(did you mean '--json'?)");
    assert_contains(run({"--jsno", "devices"}).err, "(did you mean '--json'?)");
    assert_contains(run({"stat", "--devcie=uroce0"}).err, "(did you mean '--device'?)");
    assert_lacks(run({"frobnicate"}).err, "did you mean");
    const Ran dat = run({"dat", "lits"});
    assert_contains(dat.err, "(did you mean 'list'?)");
    assert_contains(dat.err, "see `sluice dat --help`");
    assert_int_equal(std::ranges::count(dat.err, '\n'), 1);
}

TEST(info__mistyped_device__says_what_may_have_been_meant) {
    const Machine machine("x86-server");
    const Ran ran = run({"--root", machine.root(), "info", "mlx50"});
    assert_int_equal(ran.status, 3);
    assert_contains(ran.err, "(did you mean 'mlx5_0'?)");
    const Ran here = run({"info", "nosuch"});
    assert_int_equal(here.status, 3);
    assert_contains(here.err, "without a kernel there are: uroce0");
    assert_contains(run({"info", "127.0.0.1"}).err, "(did you mean 'uroce0', which is at 127.0.0.1?)");
}

// As the open device says of itself.
TEST(info__uroce__can_register_all_memory_without_pinning_it) {
    const Ran ran = run({"info", "uroce0", "--json"});
    assert_int_equal(ran.status, 0);
    const Json paging = json_of(ran)["devices"][0]["attributes"]["on-demand-paging"];
    assert_true(paging["value"] == "implicit" && paging["confidence"] == "certain");
}

// What is there is zero, and has room.
void put(char* to, std::string_view text) {
    to[text.copy(to, text.size())] = '\0';
}

// What a process that has ended leaves: its counters a.b and a, of which a JSON document can't have both.
void leave_counters(const Machine& place, std::int32_t pid, const char* device, std::uint64_t bytes) {
    using namespace sluice::uroce::device;
    std::vector<char> file(kRoomsAt + kRoomBytes);
    FileHeader head{
        .magic = kCounterMagic, .counters = 4, .pid = pid, .opened_ns = 1, .command = {}, .names = {}};
    put(head.command.data(), "tool\x1b[1m");
    put(head.names[0].data(), "path.udp.bytes_sent");
    put(head.names[1].data(), "drop.no_room");
    put(head.names[2].data(), "a.b");
    put(head.names[3].data(), "a");
    std::memcpy(file.data(), &head, sizeof head);
    const std::uint64_t values[] = {bytes, 2, 3, 4};
    put(file.data() + kRoomsAt, device);
    std::memcpy(file.data() + kRoomsAt + offsetof(CounterRoom, values), values, sizeof values);
    const std::string path = place.root() + "/" + kCounterFilePrefix + std::to_string(pid);
    std::ofstream(path, std::ios::binary).write(file.data(), static_cast<std::streamsize>(file.size()));
    assert_int_equal(chmod(path.c_str(), 0600), 0);
}

TEST(stat__processes_that_ended__sorted_and_chosen) {
    const Machine place;
    setenv("SLUICE_UROCE_COUNTERS", place.root().c_str(), 1);
    leave_counters(place, 3333, "uroce1", 7);
    leave_counters(place, 2222, "uroce1", 5);
    leave_counters(place, 1111, "uroce7", 9);
    const Ran all = run({"stat"});
    assert_int_equal(all.status, 0);
    assert_true(all.out.find("2222") < all.out.find("3333") && all.out.find("3333") < all.out.find("1111"));
    assert_contains(all.out, "tool?[1m");
    const auto last = row(all.out, "uroce7");
    assert_string_equal(last[1].c_str(), "1111");
    assert_string_equal(last[2].c_str(), "ended");
    assert_string_equal(last[3].c_str(), "9");
    assert_string_equal(last[6].c_str(), "2");
    const Ran json = run({"stat", "--json", "--pid", "2222"});
    assert_int_equal(json.status, 0);
    const Json document = json_of(json);
    assert_int_equal(document["schema"], 1);
    assert_int_equal(document["uses"].size(), 1);
    const Json& use = document["uses"][0];
    assert_true(use["device"] == "uroce1" && use["pid"] == 2222 && use["running"] == false);
    assert_true(use["counters"]["path"]["udp"]["bytes_sent"] == 5);
    assert_true(use["counters"]["a"]["b"] == 3);
    assert_int_equal(json_of(run({"stat", "--json", "--device", "uroce1"}))["uses"].size(), 2);
    const Ran none = run({"stat", "--json", "--device", "uroce9"});
    assert_int_equal(none.status, 3);
    assert_true(json_of(none)["uses"].empty());
    assert_contains(none.err, "has used uroce9");
    unsetenv("SLUICE_UROCE_COUNTERS");
}

TEST(stat__nothing_to_read__says_where_it_looked) {
    const Machine place;
    setenv("SLUICE_UROCE_COUNTERS", place.root().c_str(), 1);
    const Ran empty = run({"stat"});
    assert_int_equal(empty.status, 3);
    assert_string_equal(empty.out.c_str(), "");
    assert_contains(empty.err, "no process of this user has used a uroce device");
    setenv("SLUICE_UROCE_COUNTERS", (place.root() + "/none").c_str(), 1);
    const Ran absent = run({"stat"});
    assert_int_equal(absent.status, 1);
    assert_contains(absent.err, place.root() + "/none");
    setenv("SLUICE_UROCE_COUNTERS", "no", 1);
    const Ran refused = run({"stat"});
    assert_int_equal(refused.status, 1);
    assert_contains(refused.err, "SLUICE_UROCE_COUNTERS says \"no\"");
    unsetenv("SLUICE_UROCE_COUNTERS");
    assert_int_equal(run({"--root", place.root(), "stat"}).status, 2);
}

TEST(help_and_version__end_with_0) {
    assert_int_equal(run({"--help"}).status, 0);
    assert_contains(run({"--help"}).out,
                    "Exit status: 0 done, 1 it failed, 2 wrong command line, 3 no such device");
    assert_contains(run({"provider", "enable", "--help"}).out, "--force");
    assert_int_equal(run({"--version"}).status, 0);
    assert_true(run({"--version"}).out.starts_with("sluice 0."));
}

TEST(output__that_can_t_be_written__is_a_failure) {
    const Ran ran = run_program("/bin/sh", {"-c", std::string(TEST_COMMAND) + " config >/dev/full"});
    assert_int_equal(ran.status, 1);
    assert_contains(ran.err, "standard output can't be written: No space left on device");
}

TEST(log_messages__go_to_standard_error) {
    Machine machine("x86-server");
    machine.write("/etc/sluice/sluice.conf", "coherence = noncoherent\n");
    chmod((machine.root() + "/etc/sluice/sluice.conf").c_str(), 0666);
    if (geteuid() == 0) {
        const Ran ran = run({"--root", machine.root(), "devices", "--json"});
        assert_int_equal(ran.status, 0);
        json_of(ran);
        assert_contains(ran.err, "sluice: warning: config: /etc/sluice/sluice.conf is ignored");
    }
}

TEST(enable__writes_only_its_own_file_and_disable_removes_it) {
    Machine machine;
    machine.write(kPlugin, "");
    machine.write("/etc/libibverbs.d/rxe.driver", "driver rxe\n");
    const Ran enabled = run({"--root", machine.root(), "provider", "enable"});
    assert_int_equal(enabled.status, 0);
    assert_contains(enabled.out,
                    "installed and enabled; it claims rxe siw (/etc/libibverbs.d/sluice.driver)");
    assert_contains(content_of(machine.root() + kDriverFile), "\ndriver sluice\n");
    struct stat status {};
    assert_int_equal(stat((machine.root() + kDriverFile).c_str(), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0644);
    assert_string_equal(content_of(machine.root() + "/etc/libibverbs.d/rxe.driver").c_str(), "driver rxe\n");
    assert_int_equal(run({"--root", machine.root(), "provider", "enable"}).status, 0);
    const auto count =
        std::distance(std::filesystem::directory_iterator(machine.root() + "/etc/libibverbs.d"), {});
    assert_int_equal(count, 2);

    const Ran disabled = run({"--root", machine.root(), "provider", "disable"});
    assert_int_equal(disabled.status, 0);
    assert_contains(disabled.out, "not enabled; it claims none");
    assert_false(std::filesystem::exists(machine.root() + kDriverFile));
    assert_int_equal(run({"--root", machine.root(), "provider", "disable"}).status, 0);
}

TEST(enable__plugin_or_libibverbs_missing__refuses_and_says_why) {
    Machine machine;
    Ran ran = run({"--root", machine.root(), "provider", "enable"});
    assert_int_equal(ran.status, 1);
    assert_contains(ran.err, "libibverbs is not installed");
    machine.add("/etc/libibverbs.d/");
    ran = run({"--root", machine.root(), "provider", "enable"});
    assert_int_equal(ran.status, 1);
    assert_contains(ran.err, "--force");
    assert_false(std::filesystem::exists(machine.root() + kDriverFile));
    ran = run({"--root", machine.root(), "provider", "enable", "--force"});
    assert_int_equal(ran.status, 0);
    assert_contains(ran.out, "warns in every program");
}

TEST(enable_and_disable__file_of_somebody_else__is_left_alone) {
    for (const bool link : {false, true}) {
        Machine machine;
        machine.write(kPlugin, "");
        if (link) {
            machine.add("/etc/libibverbs.d/");
            assert_int_equal(run({"--root", machine.root(), "provider", "enable"}).status, 0);
            std::filesystem::rename(machine.root() + kDriverFile, machine.root() + "/precious");
            machine.add(std::string(kDriverFile) + " -> ../../precious");
        } else {
            machine.write(kDriverFile, "driver sluice\ndriver mine\n");
        }
        for (const char* action : {"enable", "disable"}) {
            const Ran ran = run({"--root", machine.root(), "provider", action});
            assert_int_equal(ran.status, 1);
            assert_contains(ran.err, "was not written by");
        }
        assert_true(std::filesystem::exists(machine.root() + kDriverFile));
        assert_int_equal(std::filesystem::is_symlink(machine.root() + kDriverFile), link);
    }
}

TEST(provider_status__not_usable_yet__says_what_to_type) {
    Machine machine;
    Ran ran = run({"provider", "status", "--root", machine.root()});
    assert_contains(ran.out, "package ibverbs-provider-sluice");
    machine.add("/etc/libibverbs.d/");
    ran = run({"provider", "enable", "--root", machine.root()});
    assert_contains(ran.err, "package ibverbs-provider-sluice");
    machine.write(kPlugin, "");
    ran = run({"provider", "status", "--root", machine.root()});
    assert_contains(ran.out, "`sudo sluice provider enable`");
    assert_lacks(ran.out, "package");
    ran = run({"provider", "enable", "--root", machine.root()});
    assert_lacks(ran.out, "To enable it");
}

TEST(stat__process_that_used_no_device__is_told_so) {
    const Machine machine;
    setenv("SLUICE_UROCE_COUNTERS", machine.root().c_str(), 1);
    const std::string pid = std::to_string(getpid());
    const Ran ran = run({"stat", "--pid", pid});
    unsetenv("SLUICE_UROCE_COUNTERS");
    assert_int_equal(ran.status, 3);
    assert_contains(ran.err, "process " + pid + " hasn't used a uroce device");
}

TEST(run__file_that_cant_be_executed__says_why) {
    Machine machine;
    const std::string script = machine.root() + "/script";
    machine.write("/script", "#!/no/such/interpreter\n");
    assert_contains(run({"run", "--local", "--", script}).err, "`chmod +x`");
    chmod(script.c_str(), 0755);
    const Ran ran = run({"run", "--local", "--", script});
    assert_int_equal(ran.status, 127);
    assert_contains(ran.err, "the interpreter that it names is not there");
    assert_contains(run({"run", "--local", "--", machine.root()}).err, "this is a directory");
    assert_contains(run({"run", "--local", "--", "no-such-program"}).err,
                    "no directory of PATH has such a program");
}

#ifndef SLUICE_UNDER_SANITIZER // whose runtime can't be preloaded into a shell
TEST(run__no_uroce_device__says_so_before_the_program_fails) {
    setenv("SLUICE_UROCE", "nosuch0", 1);
    Ran ran = run({"run", "--device", "uroce", "--", "true"});
    assert_int_equal(ran.status, 0);
    assert_contains(ran.err, "there is no uroce device to show: none that SLUICE_UROCE names can be used");
    setenv("SLUICE_UROCE", "uroce0=nowhere", 1);
    ran = run({"run", "--device", "uroce", "--", "true"});
    assert_contains(ran.err, "there is no uroce device to show: SLUICE_UROCE: 'uroce0=nowhere'");
    unsetenv("SLUICE_UROCE");
    assert_string_equal(run({"run", "--local", "--", "true"}).err.c_str(), "");
}
#endif

TEST(provider_status__json__has_the_documented_members) {
    Machine machine("rxe");
    machine.write(kPlugin, "");
    const Ran ran = run({"provider", "status", "--json", "--root", machine.root()});
    assert_int_equal(ran.status, 0);
    const Json document = json_of(ran);
    assert_true(document.at("installed") == true && document.at("enabled") == false);
    assert_string_equal(document.at("claim").get<std::string>().c_str(), "none");
    assert_string_equal(document.at("claim-origin").get<std::string>().c_str(), "default");
    assert_true(document.at("declines").is_null());
    const Json& device = document.at("devices").at(0);
    assert_string_equal(device.at("driver").get<std::string>().c_str(), "rxe");
    assert_true(device.at("provider").is_null() && device.at("sluice") == false &&
                device.at("why").is_string());
}

TEST(provider_probe__plugin_that_fits__logs_that_it_knows_libibverbs) {
    const Ran ran = run_program(TEST_PROVIDER_PROBE, {TEST_PLUGIN});
    assert_int_equal(ran.status, 0);
    assert_contains(ran.out, "libibverbs speaks provider interface");
    assert_lacks(ran.out, "no device is taken");
}

TEST(provider_probe__file_that_is_no_plugin__says_why_it_can_t_be_loaded) {
    const Ran ran = run_program(TEST_PROVIDER_PROBE, {"/etc/passwd"});
    assert_int_equal(ran.status, 0);
    assert_string_equal(ran.out.substr(0, 13).c_str(), "!/etc/passwd:");
}

TEST(provider_probe__plugin_of_another_architecture__says_so) {
    std::string program(64, '\0');
    std::ifstream("/proc/self/exe", std::ios::binary).read(program.data(), 64);
    program[18] ^= 1; // what machine it is for
    const Machine machine("x86-server");
    machine.write(kPlugin, program);
    const std::string plugin = machine.root() + kPlugin;
    const Ran ran = run_program(TEST_PROVIDER_PROBE, {plugin});
    assert_int_equal(ran.status, 0);
    assert_string_equal(ran.out.c_str(), ("!" + plugin + " is built for another architecture\n").c_str());
}

TEST(devices__this_machine__those_without_a_kernel_with_their_addresses) {
    setenv("SLUICE_UROCE", "uroce5=192.0.2.1", 1);
    const Ran ran = run({"devices"});
    const Json document = json_of(run({"devices", "--json"}));
    unsetenv("SLUICE_UROCE");
    assert_int_equal(ran.status, 0);
    assert_contains(ran.out, "127.0.0.1");
    assert_contains(ran.out, "no interface has this address");
    const auto known = row(ran.out, "uroce5");
    assert_true(std::ranges::find(known, "coherent") != known.end());
    int found = 0;
    for (const Json& device : document["devices"]) {
        if (device["name"] == "uroce0") {
            ++found;
            assert_true(device["address"] == "127.0.0.1" && device["address-origin"] == "default");
            assert_true(device["interface"] == "lo" && device["path-mtu"] == 4096);
            assert_true(device["used-by"].is_string());
        }
        if (device["name"] == "uroce5") {
            ++found;
            assert_true(device["address-origin"] == "SLUICE_UROCE" && device["path-mtu"] == 0);
        }
    }
    assert_int_equal(found, 2);
}

TEST(devices__wrong_variable__says_which_entry_and_ends_with_1) {
    setenv("SLUICE_UROCE", "uroce0=somewhere", 1);
    const Ran ran = run({"devices"});
    unsetenv("SLUICE_UROCE");
    assert_int_equal(ran.status, 1);
    assert_contains(ran.err, "somewhere");
}

TEST(info__device_without_a_kernel__coherent_because_of_this_process) {
    const Ran ran = run({"info", "uroce0"});
    assert_int_equal(ran.status, 0);
    assert_contains(ran.out, "sluice_open_uroce");
    const auto coherence = row(ran.out, "cpu-coherence");
    assert_string_equal(coherence[1].c_str(), "coherent");
    assert_string_equal(coherence[2].c_str(), "certain");
    assert_string_equal(coherence[3].c_str(), "process");
    assert_string_equal(row(ran.out, "flush")[1].c_str(), "global+persistent");
    assert_string_equal(row(ran.out, "atomic-write")[1].c_str(), "yes");
    assert_contains(row(ran.out, "provider")[1], "libsluice");
    // Not listed, but there.
    assert_int_equal(run({"info", "uroce77"}).status, 0);
}

TEST(info__reach__through_memory_unless_something_hinders_it) {
    const Json reach = json_of(run({"info", "uroce0", "--json"}))["devices"][0]["reach"];
    assert_true(reach["packets"] == "rings");
    assert_true((reach["requests"] == "memory") == reach["reason"].get<std::string>().empty());
    for (const char* variable : {"SLUICE_UROCE_PCAP", "SLUICE_UROCE_FAULTS", "SLUICE_UROCE_NEIGHBOURS"}) {
        setenv(variable, "packets", 1);
        const Ran ran = run({"info", "uroce0"});
        unsetenv(variable);
        assert_int_equal(ran.status, 0);
        assert_contains(ran.out, "everything as packets, over UDP; " + std::string(variable));
    }
}

// What a program runs with that may not look into others.
int refuse_reading_others() {
    sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{.len = std::size(code), .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
                                                       : -1;
}

TEST(info__reach__under_a_seccomp_filter__by_packets_through_rings) {
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        if (dup2(pipe_ends[1], STDOUT_FILENO) == STDOUT_FILENO && refuse_reading_others() == 0) {
            execl(TEST_COMMAND, "sluice", "info", "uroce0", nullptr);
        }
        _exit(127);
    }
    close(pipe_ends[1]);
    std::string out;
    char bytes[4096];
    for (ssize_t got = 0; (got = read(pipe_ends[0], bytes, sizeof bytes)) > 0;) {
        out.append(bytes, static_cast<std::size_t>(got));
    }
    close(pipe_ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_contains(out, "everything as packets, through rings; process_vm_readv() fails");
    assert_contains(out, "seccomp filter");
}

TEST(this_machine__is_looked_at_without_root) {
    assert_int_equal(run({"devices"}).status, 0);
    assert_int_equal(run({"provider", "status"}).status, 0);
}

// A sanitizer's runtime can't be loaded into programs that weren't built with it.
#ifndef SLUICE_UNDER_SANITIZER
// The option's value doesn't depend on the command's.
TEST(run__uroce__command_sees_a_library_behind_those_preloaded_already) {
    setenv("LD_PRELOAD", "libm.so.6", 1);
    const Ran behind = run({"run", "--device", "uroce", "--", "sh", "-c", "echo $LD_PRELOAD $0", "--device"});
    unsetenv("LD_PRELOAD");
    assert_string_equal(behind.err.c_str(), "");
    assert_true(behind.out.starts_with("libm.so.6:/"));
    assert_true(behind.out.ends_with("/libsluice-preload.so --device\n"));
    const Ran alone = run({"run", "--device", "uroce", "--", "sh", "-c", "echo $LD_PRELOAD"});
    assert_true(alone.out.starts_with("/") && alone.out.ends_with("/libsluice-preload.so\n"));
}

TEST(run__shared_heap__command_has_both_libraries_and_memory_in_a_file) {
    const std::string program = "import os; block = bytearray(1 << 20); print(os.environ['LD_PRELOAD']); "
                                "print('memfd:sluice-heap' in open('/proc/self/maps').read())";
    const Ran ran = run({"run", "--shared-heap", "--", "python3", "-c", program});
    assert_string_equal(ran.err.c_str(), "");
    assert_contains(ran.out, "/libsluice-heap.so:/");
    assert_true(ran.out.ends_with("/libsluice-preload.so\nTrue\n"));
}

TEST(run__shared_heap_and_rxe__is_refused) {
    const Ran ran = run({"run", "--shared-heap", "--device", "rxe", "--", "true"});
    assert_int_equal(ran.status, 2);
    assert_contains(ran.err, "--shared-heap is for uroce");
}

void make_program(const std::string& path, const char* content) {
    std::ofstream(path) << content;
    assert_int_equal(chmod(path.c_str(), 0755), 0);
}

TEST(run__uroce__loader_is_told_of_the_drop_ins_first) {
    const char* const print = "echo $LD_LIBRARY_PATH";
    setenv("LD_LIBRARY_PATH", "/nowhere", 1);
    const Ran others = run({"run", "--device", "uroce", "--", "sh", "-c", print});
    unsetenv("LD_LIBRARY_PATH");
    assert_true(others.out.starts_with("/") && others.out.ends_with("/drop-in:/nowhere\n"));
    const Ran alone = run({"run", "--device", "uroce", "--", "sh", "-c", print});
    assert_true(alone.out.starts_with("/") && alone.out.ends_with("/drop-in\n"));
}

// They would stand for the system's.
TEST(run__uroce__somebody_s_own_libibverbs_comes_first) {
    const Machine machine;
    make_program(machine.root() + "/libibverbs.so.1", "");
    setenv("LD_LIBRARY_PATH", machine.root().c_str(), 1);
    const Ran ran = run({"run", "--device", "uroce", "--", "sh", "-c", "echo $LD_LIBRARY_PATH"});
    unsetenv("LD_LIBRARY_PATH");
    assert_string_equal(ran.out.c_str(), (machine.root() + "\n").c_str());
}

TEST(run__static_program__runs_and_says_that_it_sees_no_device) {
    const Ran ran = run({"run", "--device", "uroce", "--", TEST_STATIC});
    assert_int_equal(ran.status, 0);
    assert_string_equal(ran.out.c_str(), "it runs\n");
    assert_contains(ran.err, "sluice: run: " TEST_STATIC " is linked statically");
    const Ran pair = run({"run", "--pair", "--", TEST_STATIC});
    assert_contains(pair.err, "is linked statically");
}

TEST(run__script_for_static_program__says_that_its_interpreter_sees_no_device) {
    const Machine machine;
    for (const char* line : {"#!" TEST_STATIC " -e\n", "#! /usr/bin/env -S " TEST_STATIC "\n"}) {
        make_program(machine.root() + "/script", line);
        const Ran ran = run({"run", "--device", "uroce", "--", machine.root() + "/script"});
        assert_string_equal(ran.out.c_str(), "it runs\n");
        assert_contains(ran.err, TEST_STATIC " is linked statically");
    }
    make_program(machine.root() + "/script", "#!/bin/sh\necho it runs\n");
    const Ran dynamic = run({"run", "--device", "uroce", "--", machine.root() + "/script"});
    assert_string_equal(dynamic.out.c_str(), "it runs\n");
    assert_string_equal(dynamic.err.c_str(), "");
}

TEST(run__setuid_program__not_started) {
    const Machine machine;
    const std::string copy = machine.root() + "/copy";
    std::filesystem::copy_file("/bin/echo", copy);
    // Its owner isn't whoever runs it.
    if (geteuid() != 0 || chown(copy.c_str(), 1, 1) != 0 || chmod(copy.c_str(), 04755) != 0) {
        skip();
    }
    const Ran ran = run({"run", "--device", "uroce", "--", copy, "it ran"});
    assert_int_equal(ran.status, 126);
    assert_string_equal(ran.out.c_str(), "");
    assert_contains(ran.err, copy + " runs as its file's owner (setuid)");
    assert_int_equal(chmod(copy.c_str(), 0755), 0);
    assert_string_equal(run({"run", "--device", "uroce", "--", copy, "it ran"}).out.c_str(), "it ran\n");
}

// As ping has them: CAP_NET_RAW, effective.
TEST(run__program_with_capabilities__not_started_by_others_than_root) {
    const Machine machine;
    const std::string copy = machine.root() + "/copy";
    std::filesystem::copy_file("/bin/echo", copy);
    const vfs_ns_cap_data capability{
        VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE, {{1U << CAP_NET_RAW, 0}, {0, 0}}, 0};
    if (geteuid() != 0 || chmod(machine.root().c_str(), 0755) != 0 ||
        setxattr(copy.c_str(), "security.capability", &capability, XATTR_CAPS_SZ_2, 0) != 0) {
        skip();
    }
    assert_string_equal(run({"run", "--device", "uroce", "--", copy, "it ran"}).out.c_str(), "it ran\n");
    if (access("/usr/bin/setpriv", X_OK) != 0 || !strangers_reach(TEST_COMMAND)) {
        skip();
    }
    const Ran ran = run_program("/usr/bin/setpriv", {"--reuid=65534", "--clear-groups", TEST_COMMAND, "run",
                                                     "--device", "uroce", "--", copy, "it ran"});
    assert_int_equal(ran.status, 126);
    assert_string_equal(ran.out.c_str(), "");
    assert_contains(ran.err, copy + " has capabilities of its file");
}

TEST(run__local__uroce_with_the_loopback_device_alone) {
    setenv("SLUICE_UROCE", "uroce0=10.0.0.1", 1);
    const Ran ran = run({"run", "--local", "--", "sh", "-c", "echo $SLUICE_UROCE $LD_PRELOAD"});
    unsetenv("SLUICE_UROCE");
    assert_true(ran.out.starts_with("lo /"));
    assert_int_equal(run({"run", "--local", "--device", "rxe", "--", "true"}).status, 2);
}

TEST(run__arguments_of_any_form__the_command_has_them_as_they_are) {
    const Ran ran = run(
        {"run", "--device", "uroce", "--", "printf", "<%s>", "[a,b]", "", "a b", "--version", "[]", "--"});
    assert_int_equal(ran.status, 0);
    assert_string_equal(ran.out.c_str(), "<[a,b]><><a b><--version><[]><-->");
}

TEST(run__uroce__status_is_the_command_s) {
    assert_int_equal(run({"run", "--device", "uroce", "--", "sh", "-c", "exit 42"}).status, 42);
    const Ran missing = run({"run", "--device", "uroce", "--", "no-such-command"});
    assert_int_equal(missing.status, 127);
    assert_contains(missing.err, "no-such-command");
    assert_int_equal(run({"run", "--device", "uroce", "--", "/etc/passwd"}).status, 126);
}
#endif

} // namespace

int main() {
    return sluice::test::run_all_tests("tools.command", clean_environment);
}
