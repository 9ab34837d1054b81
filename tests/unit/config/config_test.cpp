// SPDX-License-Identifier: BSD-3-Clause
#include "provider/config/config.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/log.hpp"
#include "core/settings.hpp"
#include "provider/attributes/query.hpp"
#include "tests/cmocka.hpp"
#include "tests/machine.hpp"

using sluice::FileTree;
using sluice::test::Machine;
namespace config = sluice::config;

namespace {

std::string last_message;

sluice::Result<void> any_text_will_do(sluice::Setting, const char*) {
    return {};
}

int setup(void**) {
    unsetenv("SLUICE_COHERENCE");
    last_message.clear();
    sluice::set_log_sink([](void*, int, const char*, const char* message) { last_message = message; },
                         nullptr);
    return 0;
}

int teardown(void**) {
    unsetenv("SLUICE_COHERENCE");
    sluice::set_log_sink(nullptr, nullptr);
    return 0;
}

sluice_device_attributes ask(const Machine& machine, const char* name) {
    auto result = sluice::attributes::query(FileTree(machine.root()), name, nullptr, nullptr);
    if (!result) {
        fail_msg("%s", result.error().text());
    }
    return *result;
}

TEST(override__in_the_file__wins_over_discovery, setup, teardown) {
    Machine machine("x86-server");
    machine.write(
        config::kPath,
        "coherence = coherent\n[device mlx5_0]\ncoherence = noncoherent\nio-coherence = noncoherent\n");
    const auto mlx5 = ask(machine, "mlx5_0");
    assert_int_equal(mlx5.cpu_coherence.value, SLUICE_COHERENCE_NONCOHERENT);
    assert_int_equal(mlx5.cpu_coherence.source, SLUICE_SOURCE_CONFIG);
    assert_int_equal(mlx5.cpu_coherence.confidence, SLUICE_CONFIDENCE_CERTAIN);
    assert_string_equal(mlx5.coherence_evidence, "/etc/sluice/sluice.conf:3");
    assert_int_equal(mlx5.io_coherence.value, SLUICE_COHERENCE_NONCOHERENT);
    const auto irdma = ask(machine, "irdma0");
    assert_int_equal(irdma.cpu_coherence.source, SLUICE_SOURCE_CONFIG);
    assert_int_equal(irdma.io_coherence.source, SLUICE_SOURCE_ARCHITECTURE);
}

TEST(override__auto_for_a_device__finds_out_again, setup, teardown) {
    Machine machine("x86-server");
    machine.write(config::kPath, "coherence = noncoherent\n[device mlx5_0]\ncoherence = auto\n");
    assert_int_equal(ask(machine, "mlx5_0").cpu_coherence.source, SLUICE_SOURCE_ARCHITECTURE);
    assert_int_equal(ask(machine, "irdma0").cpu_coherence.source, SLUICE_SOURCE_CONFIG);
}

TEST(override__in_the_environment__wins_over_the_file, setup, teardown) {
    Machine machine("x86-server");
    machine.write(config::kPath, "[device mlx5_0]\ncoherence = noncoherent\n");
    setenv("SLUICE_COHERENCE", "mlx5_0=simulated", 1);
    const auto device = ask(machine, "mlx5_0");
    assert_int_equal(device.cpu_coherence.value, SLUICE_COHERENCE_SIMULATED);
    assert_int_equal(device.cpu_coherence.source, SLUICE_SOURCE_ENVIRONMENT);
    assert_string_equal(device.coherence_evidence, "SLUICE_COHERENCE");
    assert_int_equal(ask(machine, "irdma0").cpu_coherence.source, SLUICE_SOURCE_ARCHITECTURE);
}

TEST(override__that_can_t_be_understood__fails_the_query, setup, teardown) {
    Machine machine("x86-server");
    const FileTree tree(machine.root());
    machine.write(config::kPath, "coherence = noncoherent\ncoherance = x\n");
    auto result = sluice::attributes::query(tree, "mlx5_0", nullptr, nullptr);
    assert_false(result.ok());
    assert_int_equal(result.error().to_errno(), EPROTO);
    assert_non_null(std::strstr(result.error().text(), "sluice.conf:2"));
    machine.remove(config::kPath);
    setenv("SLUICE_COHERENCE", "perhaps", 1);
    result = sluice::attributes::query(tree, "mlx5_0", nullptr, nullptr);
    assert_int_equal(result.error().to_errno(), EINVAL);
}

TEST(file__that_is_a_directory_a_loop_or_huge__fails_the_query, setup, teardown) {
    Machine machine("x86-server");
    const FileTree tree(machine.root());
    machine.add(std::string(config::kPath) + "/");
    assert_true(config::load(tree).ok() == false);
    machine.remove(config::kPath);
    machine.add(std::string(config::kPath) + " -> sluice.conf");
    assert_false(config::load(tree).ok());
    machine.remove(config::kPath);
    machine.write(config::kPath, std::string(1 << 20, '#'));
    assert_false(config::load(tree).ok());
}

TEST(trust__only_root_may_have_written_it) {
    assert_true(sluice::is_trustworthy({0, 0100644}));
    assert_true(sluice::is_trustworthy({0, 0100600}));
    assert_false(sluice::is_trustworthy({1000, 0100644}));
    assert_false(sluice::is_trustworthy({0, 0100664}));
    assert_false(sluice::is_trustworthy({0, 0100646}));
}

// As the kernel writes them, in columns.
TEST(root__of_a_namespace_with_one_ordinary_user__has_no_privileges) {
    assert_true(sluice::holds_one_ordinary_user("         0       1000          1\n"));
    assert_false(sluice::holds_one_ordinary_user("         0          0          1\n"));
    assert_false(sluice::holds_one_ordinary_user("         0       1000          2\n"));
    assert_false(sluice::holds_one_ordinary_user("         0          0 4294967295\n"));
    // A user's container, with further numbers for those in it.
    assert_false(sluice::holds_one_ordinary_user(
        "         0       1000          1\n         1     100000      65536\n"));
    assert_false(sluice::holds_one_ordinary_user(""));
    assert_false(sluice::holds_one_ordinary_user("0 1000"));
    assert_false(sluice::holds_one_ordinary_user("0 1000 1x"));
    assert_false(sluice::holds_one_ordinary_user("0 99999999999 1"));
}

TEST(file__that_others_may_write__is_ignored_by_root_with_a_line, setup, teardown) {
    Machine machine("x86-server");
    machine.write(config::kPath, "coherence = noncoherent\nclaim = rxe\n");
    const std::string outside = machine.root() + config::kPath;
    assert_int_equal(chmod(outside.c_str(), 0666), 0);
    auto file = config::load(FileTree(machine.root()));
    assert_true(file.ok());
    const bool root = geteuid() == 0;
    assert_int_equal(file->general.coherence.is_said(), !root);
    if (root) {
        assert_non_null(std::strstr(last_message.c_str(), "ignored"));
        assert_false(config::claimed_drivers(FileTree(machine.root())).rxe);
        assert_int_equal(chmod(outside.c_str(), 0644), 0);
        assert_int_equal(chown(outside.c_str(), 12345, 0), 0);
        assert_false(config::load(FileTree(machine.root()))->general.coherence.is_said());
    }
}

TEST(claim__default__follows_provider_enable, setup, teardown) {
    Machine machine;
    const FileTree tree(machine.root());
    assert_false(config::claimed_drivers(tree).rxe || config::claimed_drivers(tree).siw);
    machine.write(config::kDriverFile, "driver sluice\n");
    assert_true(config::claimed_drivers(tree).rxe && config::claimed_drivers(tree).siw);
    machine.write(config::kPath, "claim = siw\n");
    assert_false(config::claimed_drivers(tree).rxe);
    assert_true(config::claimed_drivers(tree).siw);
    machine.write(config::kPath, "claim = none\n");
    assert_false(config::claimed_drivers(tree).siw);
}

TEST(claim__file_not_understood__claims_nothing_with_a_line, setup, teardown) {
    Machine machine;
    machine.write(config::kDriverFile, "driver sluice\n");
    machine.write(config::kPath, "claim = everything\n");
    assert_false(config::claimed_drivers(FileTree(machine.root())).rxe);
    assert_non_null(std::strstr(last_message.c_str(), "sluice.conf:1"));
}

TEST(list__names_every_variable_and_key_with_its_origin, setup, teardown) {
    Machine machine;
    machine.write(config::kPath, "claim = rxe\n[device rxe0]\ncoherence = simulated\n");
    setenv("SLUICE_COHERENCE", "coherent", 1);
    auto all = config::list(FileTree(machine.root()), any_text_will_do);
    assert_true(all.ok());
    const auto find = [&](const std::string& name) {
        const auto found = std::ranges::find(*all, name, &config::Listed::name);
        if (found == all->end()) {
            fail_msg("'%s' is missing", name.c_str());
        }
        return *found;
    };
    for (const sluice::SettingInfo& info : sluice::all_settings()) {
        assert_true(info.setting == sluice::Setting::kCoherence || find(info.name).values == info.values);
    }
    assert_string_equal(find("SLUICE_COHERENCE").value.c_str(), "coherent");
    assert_string_equal(find("SLUICE_COHERENCE").origin.c_str(), "environment");
    assert_string_equal(find("SLUICE_LOG").value.c_str(), "warning");
    assert_string_equal(find("SLUICE_LOG").origin.c_str(), "default");
    assert_string_equal(find("claim").value.c_str(), "rxe");
    assert_string_equal(find("claim").origin.c_str(), "/etc/sluice/sluice.conf:1");
    assert_string_equal(find("coherence").value.c_str(), "auto");
    assert_string_equal(find("coherence").origin.c_str(), "default");
    assert_string_equal(find("coherence of rxe0").value.c_str(), "simulated");
    assert_string_equal(find("coherence of rxe0").origin.c_str(), "/etc/sluice/sluice.conf:3");
}

const config::Listed& only(const std::vector<config::Listed>& all, const std::string& name) {
    assert_int_equal(std::ranges::count(all, name, &config::Listed::name), 1);
    return *std::ranges::find(all, name, &config::Listed::name);
}

TEST(list__file_with_mistakes__tells_each_with_its_line_and_what_may_stand_there, setup, teardown) {
    Machine machine;
    machine.write(config::kPath, "coherence = maybe\nclam = rxe\n[device rxe0]\nio-coherence = coherent\n"
                                 "cohrence = auto\n[devices mlx5_0]\ncoherence = simulated\nnonsense\n");
    const auto all = config::list(FileTree(machine.root()), any_text_will_do);
    assert_true(all.ok());
    const config::Listed& wrong = only(*all, "coherence");
    assert_string_equal(wrong.value.c_str(), "maybe");
    assert_string_equal(wrong.origin.c_str(), "/etc/sluice/sluice.conf:1");
    assert_string_equal(wrong.values.c_str(), "auto|coherent|noncoherent|simulated");
    assert_non_null(std::strstr(wrong.problem.c_str(), "'maybe' is no value for coherence"));
    assert_false(wrong.is_unknown);
    assert_true(only(*all, "clam").is_unknown);
    assert_string_equal(only(*all, "clam").values.c_str(), "claim|coherence|io-coherence");
    assert_string_equal(only(*all, "cohrence of rxe0").values.c_str(), "address|coherence|io-coherence");
    assert_true(only(*all, "[devices mlx5_0]").is_unknown);
    assert_string_equal(only(*all, "nonsense").origin.c_str(), "/etc/sluice/sluice.conf:8");
    // What is right stays; what stands in a section that isn't understood is nobody's.
    assert_string_equal(only(*all, "io-coherence of rxe0").problem.c_str(), "");
    assert_int_equal(std::ranges::count(*all, "coherence of rxe0", &config::Listed::name), 0);
}

TEST(list__value_that_its_reader_refuses__has_the_readers_reason, setup, teardown) {
    const Machine machine;
    setenv("SLUICE_COHERENCE", "maybe", 1);
    const auto all = config::list(FileTree(machine.root()), [](sluice::Setting setting, const char* text) {
        return setting == sluice::Setting::kCoherence && std::strcmp(text, "maybe") == 0
                   ? sluice::Result<void>(sluice::Error(sluice::ErrorKind::kInvalidArgument, "it's not"))
                   : sluice::Result<void>();
    });
    assert_true(all.ok());
    assert_string_equal(only(*all, "SLUICE_COHERENCE").problem.c_str(), "it's not");
    assert_string_equal(only(*all, "SLUICE_LOG").problem.c_str(), "");
}

TEST(list__thousands_of_mistakes__are_bounded, setup, teardown) {
    Machine machine;
    std::string text;
    for (int i = 0; i < 9000; ++i) {
        text += "a = b\n";
    }
    machine.write(config::kPath, text);
    const auto all = config::list(FileTree(machine.root()), any_text_will_do);
    assert_true(all.ok());
    assert_int_equal(std::ranges::count(*all, true, &config::Listed::is_unknown), config::kMaxProblems);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("config.config");
}
