// SPDX-License-Identifier: BSD-3-Clause
//
// The text of /etc/sluice/sluice.conf and of SLUICE_COHERENCE, turned into what it means.
//
// A text that can't be understood is an error, never half a configuration: the line that was
// lost may be the one that keeps data intact. Errors name the line and what is valid.
//
// The text is hostile. Its length, its lines and the number of its sections are bounded, and it
// may hold any byte.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace sluice::config {

constexpr std::size_t kMaxFileBytes = std::size_t{64} * 1024;

// What a device's memory shall be taken for.
enum class Coherence { kAuto, kCoherent, kNoncoherent, kSimulated };

// A value, and where it was said: the line of the file, or 0 for nowhere.
template<typename T>
struct Said {
    T value{};
    int line = 0;
    bool is_said() const noexcept { return line != 0; }
};

struct DeviceSection {
    std::string name; // empty for what stands above all sections
    Said<Coherence> coherence{};
    Said<Coherence> io_coherence{}; // never kSimulated
    Said<std::string> address{};    // of uroceN only: IPv4 or IPv6, in numbers
    int line = 0;
};

// The kernel drivers whose devices the plugin takes.
struct Claim {
    bool rxe = false;
    bool siw = false;
};

struct File {
    DeviceSection general;
    std::vector<DeviceSection> devices;
    Said<Claim> claim;

    const DeviceSection* find(std::string_view device) const noexcept;
};

// Something in the file that can't be understood.
struct Problem {
    int line = 0;
    std::string name;   // of the key, as "coherence" or "coherence of mlx5_0"; of another line, its text
    std::string value;  // as it stands there
    std::string values; // what may stand there; where is_unknown, the names that may
    std::string text;
    bool is_unknown = false; // there is no key or section of that name
};

// PATH is for the texts of errors.
Result<File> parse_file(std::string_view text, std::string_view path);

// All that is right, and each line that isn't, so that a person sees all mistakes at once. No more than
// kMaxProblems are kept.
constexpr std::size_t kMaxProblems = 64;
struct Understood {
    File file;
    std::vector<Problem> problems;
};
Understood understand_file(std::string_view text);

// What may stand there, in the words that are parsed.
std::string coherence_values(bool may_be_simulated, const char* separator = "|");
constexpr const char* kClaimValues = "none, or one or both of rxe and siw";
constexpr const char* kAddressValues = "an IPv4 or IPv6 address of this machine";

// The value of SLUICE_COHERENCE for DEVICE: "VALUE" is for every device, "DEV=VALUE,..." for
// single ones; both may stand together. kAuto when nothing is said about the device.
Result<Coherence> parse_environment(std::string_view text, std::string_view device);

const char* to_string(Coherence coherence) noexcept;
std::string to_string(const Claim& claim);

} // namespace sluice::config
