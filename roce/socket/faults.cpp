// SPDX-License-Identifier: BSD-3-Clause
#include "roce/socket/faults.hpp"

#include <array>

#include "roce/socket/words.hpp"
#include "roce/wire/mad.hpp"
#include "roce/wire/syndrome.hpp"

namespace sluice::roce::socket {
namespace {

// What a packet is, as rules know it. One packet is several of these at once.
enum Kind : std::uint8_t {
    kAny = 1,
    kRequest = 2,
    kResponse = 4, // carries data: of a read or an atomic operation
    kAck = 8,
    kNak = 16, // "not ready" included
    kDatagram = 32,
    kManagement = 64,
    kMessage = 128, // needs a receive: the first packet of a send, a write's with immediate data
};

// splitmix64, upper half: the same seed gives the same faults. Nothing here is secret.
std::uint32_t draw(std::uint64_t& state) noexcept {
    state += 0x9e3779b97f4a7c15;
    std::uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return static_cast<std::uint32_t>((z ^ z >> 31) >> 32);
}

std::uint8_t kinds_of(const wire::Bth& bth, std::uint8_t syndrome) noexcept {
    const wire::OpcodeInfo& info = wire::opcode_info(bth.opcode);
    if (bth.dest_qpn == wire::kGsiQpn) {
        return kAny | kManagement;
    }
    if (info.transport == wire::Transport::kUd) {
        return kAny | kDatagram;
    }
    if (info.operation == wire::Operation::kAcknowledge) {
        return kAny | (wire::ack_kind(syndrome) == wire::AckKind::kAck ? kAck : kNak);
    }
    if (info.is_response()) {
        return kAny | kResponse;
    }
    const bool takes_receive = (info.operation == wire::Operation::kSend && info.starts()) ||
                               (info.operation == wire::Operation::kWrite && info.has(wire::kHasImmDt));
    return static_cast<std::uint8_t>(kAny | kRequest | (takes_receive ? kMessage : 0));
}

} // namespace

// One word after the other; the first that it can't read ends it.
class FaultParser {
  public:
    Result<FaultSchedule> run(std::string_view text) {
        while (!text.empty()) {
            Result<void> taken = take(take_word(text, ','));
            if (!taken) {
                return std::move(taken).error();
            }
        }
        // The seed may stand anywhere, and holds for all.
        for (std::size_t i = 0; i < schedule_.rules_.size(); ++i) {
            schedule_.rules_[i].random = schedule_.seed_ * 0x9e3779b97f4a7c15 + i;
        }
        return std::move(schedule_);
    }

  private:
    using Action = FaultSchedule::Action;
    struct Verb {
        std::string_view name;
        Action action;
        bool of_kinds;      // "-ack" and the like may follow
        bool has_time;      // must
        std::uint8_t kinds; // without a suffix
    };
    static constexpr std::array kVerbs{
        Verb{"drop", Action::kDrop, true, false, kAny},
        Verb{"duplicate", Action::kDuplicate, true, false, kAny},
        Verb{"flip-icrc", Action::kFlipIcrc, true, false, kAny},
        Verb{"delay", Action::kDelay, true, true, kAny},
        Verb{"recv-drop", Action::kReceiveDrop, true, false, kAny},
        Verb{"recv-duplicate", Action::kReceiveDuplicate, true, false, kAny},
        Verb{"rnr", Action::kRnr, false, false, kMessage},
        // Of queue pairs that have a state to lose: not of those that serve management.
        Verb{"kill-qp", Action::kKillQp, false, false, kRequest},
        Verb{"stall-completions", Action::kStall, false, true, 0},
    };
    struct Suffix {
        std::string_view name;
        std::uint8_t kind;
    };
    static constexpr std::array kSuffixes{Suffix{"request", kRequest},   Suffix{"response", kResponse},
                                          Suffix{"ack", kAck},           Suffix{"nak", kNak},
                                          Suffix{"datagram", kDatagram}, Suffix{"cm", kManagement}};

    static std::string all_words() {
        std::string words = "seed";
        for (const Verb& verb : kVerbs) {
            words.append(", ").append(verb.name);
        }
        words.append("; after drop, duplicate, flip-icrc, delay, recv-drop and recv-duplicate may follow ");
        for (const Suffix& suffix : kSuffixes) {
            words.append(&suffix == kSuffixes.data() ? "-" : ", -").append(suffix.name);
        }
        return words;
    }

    static Error fail(std::string_view item, const std::string& why) {
        return Error::format(ErrorKind::kInvalidArgument, 0, "SLUICE_UROCE_FAULTS: %s: %s",
                             in_quotes(item).c_str(), why.c_str());
    }

    Result<void> take(std::string_view item) {
        const std::size_t equals = std::min(item.find('='), item.size());
        const std::string_view word = item.substr(0, equals);
        if (equals == item.size()) {
            return fail(item, "a fault is WORD=WHEN; the words are " + all_words());
        }
        const std::string_view value = item.substr(equals + 1);
        if (word == "seed") {
            const auto seed = whole_number<std::uint64_t>(value);
            schedule_.seed_ = seed.value_or(0);
            return seed ? Result<void>() : fail(item, "a seed is a whole number");
        }
        FaultSchedule::Rule rule;
        const Verb* const verb = find_verb(word, rule);
        if (verb == nullptr) {
            return fail(item, "there is no such fault; the words are " + all_words());
        }
        if (schedule_.rules_.size() == kMostRules) {
            return fail(item, "more than 64 faults");
        }
        const std::size_t colon = std::min(value.find(':'), value.size());
        if (!read_when(value.substr(0, colon), rule)) {
            return fail(item,
                        "when is N (the N-th, once), N+ (and all later), N/M (and each M-th after it) or P% "
                        "(each with this chance)");
        }
        if (verb->has_time != (colon != value.size()) ||
            (verb->has_time && !read_time(value.substr(colon + 1), rule))) {
            return fail(item, verb->has_time
                                  ? "needs how long: WHEN:TIME, a time with us, ms or s, at most 60s"
                                  : "takes no time");
        }
        schedule_.rules_.push_back(rule);
        return {};
    }

    static const Verb* find_verb(std::string_view word, FaultSchedule::Rule& rule) {
        for (const Verb& verb : kVerbs) {
            if (!word.starts_with(verb.name)) {
                continue;
            }
            const std::string_view rest = word.substr(verb.name.size());
            rule.action = verb.action;
            rule.kinds = verb.kinds;
            if (rest.empty()) {
                return &verb;
            }
            for (const Suffix& suffix : kSuffixes) {
                if (verb.of_kinds && rest.starts_with('-') && rest.substr(1) == suffix.name) {
                    rule.kinds = suffix.kind;
                    return &verb;
                }
            }
        }
        return nullptr;
    }

    static bool read_when(std::string_view when, FaultSchedule::Rule& rule) {
        if (when.ends_with('%')) {
            return read_chance(when.substr(0, when.size() - 1), rule);
        }
        const std::size_t slash = when.find('/');
        const bool all_later = when.ends_with('+');
        rule.period = all_later ? 1 : 0;
        if (slash != std::string_view::npos) {
            const auto period = whole_number<std::uint64_t>(when.substr(slash + 1));
            rule.period = period.value_or(0);
            if (rule.period == 0) {
                return false;
            }
        }
        const auto first = whole_number<std::uint64_t>(
            when.substr(0, all_later ? when.size() - 1 : std::min(slash, when.size())));
        rule.first = first.value_or(0);
        return rule.first != 0;
    }

    // Up to four digits behind the point: no floating point decides what a run does.
    static bool read_chance(std::string_view percent, FaultSchedule::Rule& rule) {
        constexpr std::uint64_t kWhole = 1000000; // 100 %
        constexpr std::size_t kDigits = 4;
        const std::size_t point = std::min(percent.find('.'), percent.size());
        std::string_view fraction = percent.substr(std::min(point + 1, percent.size()));
        if (fraction.size() > kDigits || (point != percent.size() && fraction.empty())) {
            return false;
        }
        std::string digits(fraction);
        digits.resize(kDigits, '0');
        const auto whole = whole_number<std::uint32_t>(percent.substr(0, point));
        const auto part = whole_number<std::uint32_t>(digits);
        if (!whole || !part || *whole > 100) {
            return false;
        }
        const std::uint64_t parts = *whole * std::uint64_t{10000} + *part;
        if (parts > kWhole) {
            return false;
        }
        rule.chance =
            static_cast<std::uint32_t>(std::min<std::uint64_t>((parts << 32) / kWhole, ~std::uint32_t{0}));
        return true;
    }

    static bool read_time(std::string_view text, FaultSchedule::Rule& rule) {
        struct Unit {
            std::string_view name;
            engine::Nanoseconds nanoseconds;
        };
        constexpr std::array kUnits{Unit{"us", 1000}, Unit{"ms", 1000000}, Unit{"s", 1000000000}};
        constexpr engine::Nanoseconds kMost = 60 * kUnits[2].nanoseconds;
        for (const Unit& unit : kUnits) {
            if (text.ends_with(unit.name)) {
                const auto number =
                    whole_number<std::uint32_t>(text.substr(0, text.size() - unit.name.size()));
                rule.time = number.value_or(0) * unit.nanoseconds;
                return number && rule.time <= kMost;
            }
        }
        return false;
    }

    static constexpr std::size_t kMostRules = 64;
    FaultSchedule schedule_;
};

Result<FaultSchedule> FaultSchedule::parse(const char* text) {
    return FaultParser().run(text == nullptr ? "" : text);
}

bool FaultSchedule::strikes(Rule& rule) noexcept {
    ++rule.seen;
    const bool hit = rule.first == 0 ? draw(rule.random) < rule.chance || rule.chance == ~std::uint32_t{0}
                     : rule.period == 0
                         ? rule.seen == rule.first
                         : rule.seen >= rule.first && (rule.seen - rule.first) % rule.period == 0;
    happened_ += hit ? 1 : 0;
    return hit;
}

SendVerdict FaultSchedule::on_send(wire::ConstBytes header) noexcept {
    SendVerdict verdict;
    if (header.size() < wire::Bth::kBytes) {
        return verdict;
    }
    const auto bth = wire::decode<wire::Bth>(header.first<wire::Bth::kBytes>());
    // An acknowledgement's AETH follows at once, and begins with the syndrome.
    const std::uint8_t kinds =
        kinds_of(bth, header.size() > wire::Bth::kBytes ? header[wire::Bth::kBytes] : 0);
    for (Rule& rule : rules_) {
        if (rule.action > Action::kKillQp || (rule.kinds & kinds) == 0 || !strikes(rule)) {
            continue;
        }
        verdict.drop = verdict.drop || rule.action == Action::kDrop;
        verdict.duplicate = verdict.duplicate || rule.action == Action::kDuplicate;
        verdict.flip_icrc = verdict.flip_icrc || rule.action == Action::kFlipIcrc;
        verdict.kill_qp = verdict.kill_qp || rule.action == Action::kKillQp;
        verdict.delay = std::max(verdict.delay, rule.action == Action::kDelay ? rule.time : 0);
    }
    return verdict;
}

ReceiveVerdict FaultSchedule::on_receive(const wire::Packet& packet) noexcept {
    ReceiveVerdict verdict;
    const std::uint8_t kinds = kinds_of(packet.bth, packet.aeth.syndrome);
    for (Rule& rule : rules_) {
        const bool receives = rule.action >= Action::kReceiveDrop && rule.action <= Action::kRnr;
        if (!receives || (rule.kinds & kinds) == 0 || !strikes(rule)) {
            continue;
        }
        verdict.drop = verdict.drop || rule.action == Action::kReceiveDrop;
        verdict.duplicate = verdict.duplicate || rule.action == Action::kReceiveDuplicate;
        verdict.rnr = verdict.rnr || rule.action == Action::kRnr;
    }
    return verdict;
}

CompletionVerdict FaultSchedule::on_completion() noexcept {
    CompletionVerdict verdict;
    for (Rule& rule : rules_) {
        if (rule.action == Action::kStall && strikes(rule)) {
            verdict.stall = std::max(verdict.stall, rule.time);
        }
    }
    return verdict;
}

} // namespace sluice::roce::socket
