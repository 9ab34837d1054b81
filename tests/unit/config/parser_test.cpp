// SPDX-License-Identifier: BSD-3-Clause
#include "provider/config/parser.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/cmocka.hpp"

using sluice::config::Coherence;
using sluice::config::parse_environment;
using sluice::config::parse_file;

namespace {

constexpr const char* kPath = "/etc/sluice/sluice.conf";

void assert_refused(std::string_view text, const char* where, const char* what) {
    auto file = parse_file(text, kPath);
    if (file) {
        fail_msg("accepted: %.*s", static_cast<int>(text.size()), text.data());
    }
    const std::string prefix = std::string(kPath) + ":" + where + ": ";
    if (std::strncmp(file.error().text(), prefix.c_str(), prefix.size()) != 0 ||
        std::strstr(file.error().text(), what) == nullptr) {
        fail_msg("expected '%s...%s', got '%s'", prefix.c_str(), what, file.error().text());
    }
}

TEST(file__empty_or_comments__says_nothing) {
    for (const char* text : {"", "\n\n", "# comment", "  # comment\n\t\n", "\r\n"}) {
        auto file = parse_file(text, kPath);
        assert_true(file.ok());
        assert_false(file->claim.is_said() || file->general.coherence.is_said());
        assert_int_equal(file->devices.size(), 0);
    }
}

TEST(file__keys_and_sections__are_taken_with_their_lines) {
    auto file = parse_file("claim = siw rxe\r\n"
                           "coherence=coherent\n"
                           "\n"
                           "[device mlx5_0]\n"
                           "  coherence =\tnoncoherent  \n"
                           "io-coherence = noncoherent\n"
                           "[ device  rxe0 ]\n"
                           "coherence = simulated",
                           kPath);
    assert_true(file.ok());
    assert_true(file->claim.value.rxe && file->claim.value.siw);
    assert_int_equal(file->claim.line, 1);
    assert_int_equal(file->general.coherence.value, Coherence::kCoherent);
    assert_int_equal(file->general.coherence.line, 2);
    assert_int_equal(file->devices.size(), 2);
    const auto* mlx5 = file->find("mlx5_0");
    assert_non_null(mlx5);
    assert_int_equal(mlx5->coherence.value, Coherence::kNoncoherent);
    assert_int_equal(mlx5->coherence.line, 5);
    assert_int_equal(mlx5->io_coherence.line, 6);
    assert_int_equal(file->find("rxe0")->coherence.value, Coherence::kSimulated);
    assert_null(file->find("rxe"));
}

TEST(claim__none__is_said_and_claims_nothing) {
    auto file = parse_file("claim = none", kPath);
    assert_true(file->claim.is_said());
    assert_false(file->claim.value.rxe || file->claim.value.siw);
    assert_string_equal(to_string(file->claim.value).c_str(), "none");
}

TEST(error__names_line_and_what_is_valid) {
    assert_refused("\ncoherence", "2", "KEY = VALUE");
    assert_refused("coherance = auto", "1", "valid: claim, coherence, io-coherence");
    assert_refused("[device a]\nx = 1", "2", "valid: coherence, io-coherence, address");
    assert_refused("address = 10.0.0.1", "1", "valid: claim, coherence, io-coherence");
    assert_refused("[device rxe0]\naddress = 10.0.0.1", "2", "only uroce devices");
    assert_refused("[device uroce0]\naddress = host", "2", "names are not looked up");
    assert_refused("[device uroce0]\naddress = 1.2.3.4\naddress = ::1", "3", "line 2");
    assert_refused("coherence = yes", "1", "auto, coherent, noncoherent, simulated");
    assert_refused("coherence =", "1", "valid: auto");
    assert_refused("io-coherence = simulated", "1", "valid: auto, coherent, noncoherent");
    assert_refused("claim = mlx5", "1", "valid: rxe, siw, none");
    assert_refused("claim =", "1", "claim needs");
    assert_refused("claim = none rxe", "1", "claim needs");
    assert_refused("[device a]\nclaim = rxe", "2", "above the first section");
    assert_refused("[device]", "1", "[device NAME]");
    assert_refused("[device a b]", "1", "[device NAME]");
    assert_refused("[devices a]", "1", "[device NAME]");
    assert_refused("[device a", "1", "no ']'");
    assert_refused("[", "1", "no ']'");
    assert_refused("[]", "1", "[device NAME]");
    assert_refused("[device a/b]", "1", "[device NAME]");
    assert_refused(("[device " + std::string(64, 'x') + "]"), "1", "[device NAME]");
}

TEST(error__second_setting_of_a_key__names_the_first) {
    assert_refused("coherence = auto\n\ncoherence = auto", "3", "line 1");
    assert_refused("claim = rxe\nclaim = siw", "2", "line 1");
    assert_refused("\n[device a]\n[device b]\n[device a]", "4", "line 2");
    assert_refused("[device a]\nio-coherence=auto\nio-coherence=auto", "3", "line 2");
}

TEST(hostile__too_long_or_too_many__is_refused) {
    assert_refused(std::string(65537, '\n'), "0", "65536");
    assert_true(parse_file(std::string(65536, '\n'), kPath).ok());
    std::string sections;
    for (int i = 0; i < 257; ++i) {
        sections += "[device d" + std::to_string(i) + "]\n";
    }
    assert_refused(sections, "257", "more than 256");
}

TEST(hostile__bytes_that_move_a_cursor__are_not_repeated) {
    const std::string text("a\x1b[2J\0\x7f = 1", 11);
    auto file = parse_file(text, kPath);
    assert_false(file.ok());
    assert_null(std::strchr(file.error().text(), '\x1b'));
    assert_non_null(std::strstr(file.error().text(), "'a?[2J?"
                                                     "?'"));
    assert_refused(std::string(50000, 'x') + " = 1", "1", "xxx...");
}

TEST(environment__value_for_all_or_single_devices) {
    assert_int_equal(*parse_environment("", "rxe0"), Coherence::kAuto);
    assert_int_equal(*parse_environment("noncoherent", "rxe0"), Coherence::kNoncoherent);
    assert_int_equal(*parse_environment("rxe0=simulated,mlx5_0=coherent", "rxe0"), Coherence::kSimulated);
    assert_int_equal(*parse_environment("rxe0=simulated,mlx5_0=coherent", "mlx5_0"), Coherence::kCoherent);
    assert_int_equal(*parse_environment("rxe0=simulated", "rxe1"), Coherence::kAuto);
    assert_int_equal(*parse_environment("rxe0=auto,noncoherent", "rxe0"), Coherence::kAuto);
    assert_int_equal(*parse_environment("noncoherent,rxe0=coherent", "rxe0"), Coherence::kCoherent);
    assert_int_equal(*parse_environment("noncoherent,rxe0=coherent", "siw0"), Coherence::kNoncoherent);
}

TEST(environment__wrong__error_names_values_even_for_other_devices) {
    for (const char* text : {"yes", "rxe0=", "=coherent", "rxe0=maybe", "siw0=maybe", "coherent,,coherent",
                             ",", "rxe0=coherent=coherent", "Coherent", " coherent", "a/b=coherent"}) {
        auto value = parse_environment(text, "rxe0");
        if (value) {
            fail_msg("accepted: '%s'", text);
        }
        assert_non_null(std::strstr(value.error().text(), "auto, coherent, noncoherent, simulated"));
    }
}

// What the packages install must change nothing, with or without its comments' advice.
TEST(file__as_packages_install_it__says_nothing_and_its_examples_hold) {
    std::ifstream shipped(TEST_SHIPPED_CONFIG);
    std::string text{std::istreambuf_iterator<char>(shipped), {}};
    assert_true(text.size() > 100);
    auto silent = parse_file(text, kPath);
    assert_true(silent.ok());
    assert_false(silent->claim.is_said() || silent->general.coherence.is_said());
    assert_int_equal(silent->devices.size(), 0);

    for (std::size_t at = 0; (at = text.find("\n#", at)) != std::string::npos; ++at) {
        if (text[at + 2] != ' ') {
            text.erase(at + 1, 1);
        }
    }
    auto followed = parse_file(text, kPath);
    assert_true(followed.ok());
    assert_true(followed->claim.value.rxe && followed->claim.value.siw);
    assert_int_equal(followed->devices.size(), 1);
    assert_int_equal(followed->devices[0].coherence.value, Coherence::kNoncoherent);
}

} // namespace

int main() {
    return sluice::test::run_all_tests("config.parser");
}
