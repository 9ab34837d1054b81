// SPDX-License-Identifier: BSD-3-Clause
#include "provider/config/parser.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <optional>
#include <span>

namespace sluice::config {

namespace {

constexpr std::size_t kMaxDevices = 256;
constexpr std::size_t kMaxName = 63;
constexpr int kMaxShown = 40; // of a wrong word, in an error
constexpr std::array kCoherenceNames{"auto", "coherent", "noncoherent", "simulated"};

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlanks = " \t\r";
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Takes what stands before SEPARATOR off TEXT.
std::string_view take(std::string_view& text, char separator) {
    const std::size_t end = std::min(text.find(separator), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return part;
}

// A word of the text for an error, in quotes: short, and nothing that moves a terminal's cursor.
std::string in_quotes(std::string_view word) {
    std::string text("'");
    text.append(word.substr(0, kMaxShown));
    std::ranges::replace_if(
        text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
    return text.append(word.size() > kMaxShown ? "...'" : "'");
}

std::optional<Coherence> find_coherence(std::string_view word) {
    for (std::size_t i = 0; i < kCoherenceNames.size(); ++i) {
        if (word == kCoherenceNames[i]) {
            return static_cast<Coherence>(i);
        }
    }
    return std::nullopt;
}

bool is_device_name(std::string_view name) {
    return !name.empty() && name.size() <= kMaxName && std::ranges::all_of(name, [](char c) {
        return static_cast<unsigned char>(c) > ' ' && c != '\x7f' && c != '/' && c != '=' && c != ',';
    });
}

class Parser {
  public:
    explicit Parser(std::string_view text) : rest_(text) {}

    // Ends behind the MOST_PROBLEMS-th.
    Understood run(std::size_t most_problems) {
        if (rest_.size() > kMaxFileBytes) {
            (void)fail("longer than the 65536 bytes that a configuration may have");
            rest_ = {};
        }
        while (!rest_.empty() && problems_.size() < most_problems) {
            ++line_;
            const std::string_view line = trimmed(take(rest_, '\n'));
            if (line.empty() || line.front() == '#') {
                continue;
            }
            now_ = Problem();
            now_.line = line_;
            now_.name = line.substr(0, kMaxText);
            (void)(line.front() == '[' ? take_section(line) : take_setting(line));
        }
        return {std::move(file_), std::move(problems_)};
    }

  private:
    static constexpr std::size_t kMaxText = 1024;

    // Whether a line was understood. False comes from fail() alone, which has noted why.
    using Done = bool;

    Done fail(const std::string& what) {
        now_.text = what;
        problems_.push_back(now_);
        return false;
    }

    // The names that may stand there.
    Done fail_unknown(const std::string& what, std::string names) {
        now_.values = std::move(names);
        now_.is_unknown = true;
        return fail(what);
    }

    DeviceSection& section() {
        return is_lost_ ? lost_ : file_.devices.empty() ? file_.general : file_.devices.back();
    }

    Done take_section(std::string_view line) {
        // Until a section can be understood, what follows belongs to none that is used.
        is_lost_ = true;
        lost_ = {};
        if (line.back() != ']') {
            return fail("no ']' at the end of " + in_quotes(line) + "; valid: [device NAME]");
        }
        line = trimmed(line.substr(1, line.size() - 2));
        const std::string_view kind = line.substr(0, line.find_first_of(" \t"));
        const std::string_view name = trimmed(line.substr(kind.size()));
        if (kind != "device" || !is_device_name(name)) {
            return fail_unknown("unknown section " + in_quotes(line) + "; valid: [device NAME]",
                                "[device NAME]");
        }
        if (const DeviceSection* earlier = file_.find(name)) {
            return fail("device " + in_quotes(name) + " has a section in line " +
                        std::to_string(earlier->line));
        }
        if (file_.devices.size() == kMaxDevices) {
            return fail("more than " + std::to_string(kMaxDevices) + " sections");
        }
        file_.devices.push_back(DeviceSection{.name = std::string(name), .line = line_});
        is_lost_ = false;
        return true;
    }

    Done take_setting(std::string_view line) {
        if (line.find('=') == std::string_view::npos) {
            return fail("no '=' in " + in_quotes(line) + "; valid: KEY = VALUE, [device NAME], # comment");
        }
        const std::string_view key = trimmed(take(line, '='));
        const std::string_view value = trimmed(line);
        const bool in_device = is_lost_ || !file_.devices.empty();
        now_.name = std::string(key.substr(0, kMaxText));
        if (in_device) {
            now_.name += " of " + (is_lost_ ? "an unknown section" : section().name);
        }
        now_.value = std::string(value.substr(0, kMaxText));
        if (key == "coherence") {
            return take_coherence(section().coherence, key, value, true);
        }
        if (key == "io-coherence") {
            return take_coherence(section().io_coherence, key, value, false);
        }
        if (key == "claim" && !in_device) {
            return take_claim(value);
        }
        if (key == "address" && in_device) {
            return take_address(section(), value);
        }
        if (key == "claim") {
            return fail("'claim' is for all devices: it stands above the first section");
        }
        return fail_unknown("unknown key " + in_quotes(key) + "; valid: " + (in_device ? "" : "claim, ") +
                                "coherence, io-coherence" + (in_device ? ", address" : ""),
                            std::string(in_device ? "address" : "claim") + "|coherence|io-coherence");
    }

    Done check_first(int earlier_line, std::string_view key) {
        if (earlier_line == 0) {
            return true;
        }
        return fail(std::string(key) + " was set in line " + std::to_string(earlier_line));
    }

    Done take_coherence(Said<Coherence>& to, std::string_view key, std::string_view value,
                        bool may_be_simulated) {
        now_.values = coherence_values(may_be_simulated);
        if (!check_first(to.line, key)) {
            return false;
        }
        const std::optional<Coherence> coherence = find_coherence(value);
        if (!coherence || (*coherence == Coherence::kSimulated && !may_be_simulated)) {
            return fail(in_quotes(value) + " is no value for " + std::string(key) +
                        "; valid: " + coherence_values(may_be_simulated, ", "));
        }
        to = {*coherence, line_};
        return true;
    }

    Done take_address(DeviceSection& device, std::string_view value) {
        now_.values = kAddressValues;
        if (!check_first(device.address.line, "address")) {
            return false;
        }
        if (!is_lost_ && !device.name.starts_with("uroce")) {
            return fail("only uroce devices get an address here; " + in_quotes(device.name) + " has its own");
        }
        in6_addr bytes{}; // room for either kind
        const std::string text(value);
        if (inet_pton(AF_INET, text.c_str(), &bytes) != 1 && inet_pton(AF_INET6, text.c_str(), &bytes) != 1) {
            return fail(in_quotes(value) + " is no IPv4 or IPv6 address; names are not looked up");
        }
        device.address = {text, line_};
        return true;
    }

    Done take_claim(std::string_view value) {
        now_.values = kClaimValues;
        if (!check_first(file_.claim.line, "claim")) {
            return false;
        }
        Claim claim;
        int words = 0;
        bool none = false;
        for (value = trimmed(value); !value.empty(); value = trimmed(value), ++words) {
            const std::string_view word = value.substr(0, value.find_first_of(" \t"));
            value.remove_prefix(word.size());
            if (word == "rxe") {
                claim.rxe = true;
            } else if (word == "siw") {
                claim.siw = true;
            } else if (word == "none") {
                none = true;
            } else {
                return fail(in_quotes(word) + " can't be claimed; valid: rxe, siw, none");
            }
        }
        if (words == 0 || (none && words > 1)) {
            return fail("claim needs 'none', or one or both of rxe and siw");
        }
        file_.claim = {claim, line_};
        return true;
    }

    std::string_view rest_;
    int line_ = 0;
    File file_;
    Problem now_; // what a problem of this line would be
    std::vector<Problem> problems_;
    DeviceSection lost_; // what stands in a section that wasn't understood
    bool is_lost_ = false;
};

} // namespace

const DeviceSection* File::find(std::string_view device) const noexcept {
    const auto found = std::ranges::find(devices, device, &DeviceSection::name);
    return found == devices.end() ? nullptr : &*found;
}

Result<File> parse_file(std::string_view text, std::string_view path) {
    Understood understood = Parser(text).run(1);
    if (!understood.problems.empty()) {
        const Problem& first = understood.problems.front();
        return Error::format(ErrorKind::kProtocol, 0, "%s:%d: %s", std::string(path.substr(0, 200)).c_str(),
                             first.line, first.text.c_str());
    }
    return std::move(understood.file);
}

Understood understand_file(std::string_view text) {
    return Parser(text).run(kMaxProblems);
}

std::string coherence_values(bool may_be_simulated, const char* separator) {
    std::string values;
    for (const char* name : std::span(kCoherenceNames).first(may_be_simulated ? 4 : 3)) {
        values += (values.empty() ? "" : separator) + std::string(name);
    }
    return values;
}

// Every part is checked, not only those about DEVICE: a misspelt one would otherwise show only
// where it matters.
Result<Coherence> parse_environment(std::string_view text, std::string_view device) {
    std::optional<Coherence> general;
    std::optional<Coherence> special;
    while (!text.empty()) {
        const std::string_view part = take(text, ',');
        const std::size_t equals = part.find('=');
        const std::string_view name = part.substr(0, equals == std::string_view::npos ? 0 : equals);
        const std::string_view word = part.substr(equals == std::string_view::npos ? 0 : equals + 1);
        const std::optional<Coherence> value = find_coherence(word);
        if (!value || (equals != std::string_view::npos && !is_device_name(name))) {
            return Error::format(ErrorKind::kInvalidArgument, 0,
                                 "SLUICE_COHERENCE: %s is neither VALUE nor DEV=VALUE; values: %s",
                                 in_quotes(part).c_str(), coherence_values(true, ", ").c_str());
        }
        if (equals == std::string_view::npos) {
            general = value;
        } else if (name == device) {
            special = value;
        }
    }
    return special.value_or(general.value_or(Coherence::kAuto));
}

const char* to_string(Coherence coherence) noexcept {
    return kCoherenceNames[static_cast<std::size_t>(coherence)];
}

std::string to_string(const Claim& claim) {
    if (!claim.rxe && !claim.siw) {
        return "none";
    }
    return std::string(claim.rxe ? "rxe" : "") + (claim.rxe && claim.siw ? " " : "") +
           (claim.siw ? "siw" : "");
}

} // namespace sluice::config
