// SPDX-License-Identifier: BSD-3-Clause
#include "core/report/finding.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "core/boundary.hpp"
#include "core/file_tree.hpp"
#include "core/mappings.hpp"
#include "core/report/file/words.hpp"
#include "core/report/record.hpp"
#include "core/settings.hpp"
#include "core/sync.hpp"

namespace sluice::report {

namespace {

using file::add_line;

// Never destroyed: what is left is told when libraries have ended already.
struct Wish {
    Depth depth = Depth::kNothing;
    const char* file = "";
};

// SLUICE_CHECK is DEPTH:FILE.
Wish read_wish() noexcept {
    // As the setting's values.
    constexpr std::array kDepths{Depth::kQuick, Depth::kFull, Depth::kEveryRequest, Depth::kPedantic};
    const char* const value = setting_value(Setting::kCheck);
    const Result<Choice> wanted = parse_choice(Setting::kCheck, value != nullptr ? value : "");
    if (!wanted) {
        return {};
    }
    const char* const file = strdup(wanted->rest.data()); // it reaches to the end of VALUE
    return file != nullptr ? Wish{.depth = kDepths[wanted->index], .file = file} : Wish();
}

// As it was when the program began, as programs change their environment.
const Wish& wish() noexcept {
    static const Wish read = read_wish();
    return read;
}

struct Place {
    std::uintptr_t offset = 0;
    std::string function;
    std::string file;
};

std::string program_path() {
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : "?";
}

// The file that ADDRESS is in, as the kernel knows it: the loader has the path by which somebody opened it,
// maybe from a working directory that is another now.
std::string mapped_file(std::uintptr_t address) {
    const Result<std::string> maps = FileTree().read("/proc/self/maps", kLargestMappings);
    std::string_view rest = maps ? std::string_view(*maps) : std::string_view();
    for (Mapping mapping; take_mapping(rest, mapping);) {
        if (address >= mapping.first && address < mapping.end) {
            return std::string(mapping.path);
        }
    }
    return {};
}

std::string path_of(const link_map& library, std::uintptr_t address) {
    const std::string_view name = library.l_name;
    if (name.empty()) {
        return program_path();
    }
    const std::string mapped = name.starts_with('/') ? std::string() : mapped_file(address);
    return mapped.starts_with('/') ? mapped : std::string(name);
}

Place place_of(const void* address) {
    Dl_info info{};
    link_map* library = nullptr;
    const auto number = reinterpret_cast<std::uintptr_t>(address);
    // A call at a function's end returns behind it.
    if (dladdr1(static_cast<const char*>(address) - 1, &info, reinterpret_cast<void**>(&library),
                RTLD_DL_LINKMAP) == 0 ||
        library == nullptr) {
        return {.offset = number, .function = "?", .file = "?"};
    }
    return {.offset = number - library->l_addr,
            .function = info.dli_sname != nullptr ? info.dli_sname : "?",
            .file = path_of(*library, number)};
}

// The library that this code is in: its own frames tell a program's author nothing.
const void* own_library() noexcept {
    Dl_info info{};
    return dladdr(reinterpret_cast<const void*>(&own_library), &info) != 0 ? info.dli_fbase : nullptr;
}

bool is_ours(const void* address) noexcept {
    Dl_info info{};
    return dladdr(address, &info) != 0 && info.dli_fbase == own_library();
}

// From the first frame that isn't ours.
std::span<const void* const> frames_of_program(const Stack& stack) noexcept {
    const std::span<const void* const> all = stack.frames();
    const auto first = std::ranges::find_if_not(all, is_ours);
    return first == all.end() ? all : all.subspan(static_cast<std::size_t>(first - all.begin()));
}

void add_frames(std::string& to, const Stack& stack) {
    for (const void* address : frames_of_program(stack)) {
        const Place place = place_of(address);
        char offset[24];
        (void)std::snprintf(offset, sizeof offset, "0x%zx", static_cast<std::size_t>(place.offset));
        add_line(to, "frame", std::string(offset) + " " + place.function + " " + place.file);
    }
}

void add_side(std::string& to, const Side& side) {
    if (!side.frames.empty() || (side.stack != nullptr && side.stack->count != 0)) {
        add_line(to, "side", side.title);
        to.append(side.frames);
    }
    if (side.frames.empty() && side.stack != nullptr) {
        add_frames(to, *side.stack);
    }
}

std::string text_of(const Finding& finding) {
    std::string text;
    add_line(text, "finding", "1");
    add_line(text, "pid", std::to_string(getpid()));
    add_line(text, "rule", finding.rule);
    add_line(text, "object", finding.object);
    add_line(text, "what", finding.what);
    add_line(text, "remedy", finding.remedy);
    for (const Side& side : finding.sides) {
        add_side(text, side);
    }
    return text + "end\n";
}

// Of what was written already.
class Written {
  public:
    static Written& instance() {
        static auto* const written = new Written; // never destroyed: destructors of programs call us
        return *written;
    }

    bool add(std::string key) {
        const LockGuard lock(mutex_);
        return keys_.size() < kMost && keys_.insert(std::move(key)).second;
    }

  private:
    static constexpr std::size_t kMost = 10'000; // more than anybody reads

    Mutex mutex_;
    std::set<std::string> keys_ SLUICE_TSA(guarded_by(mutex_));
};

std::string key_of(const Finding& finding) {
    std::string key(finding.rule);
    for (const Side& side : finding.sides) {
        const std::span<const void* const> frames =
            side.stack != nullptr ? frames_of_program(*side.stack) : std::span<const void* const>();
        key += ' ' + std::to_string(reinterpret_cast<std::uintptr_t>(frames.empty() ? nullptr : frames[0]));
        key += side.frames.substr(0, side.frames.find('\n'));
    }
    return key;
}

} // namespace

Depth depth() noexcept {
    return wish().depth;
}

const char* findings_file() noexcept {
    return wish().file;
}

std::string frames_of(const Stack& stack) {
    std::string text;
    add_frames(text, stack);
    return text;
}

std::string entry_of(const Stack& stack) {
    Dl_info last{};
    for (const void* address : stack.frames()) {
        if (!is_ours(address)) {
            break;
        }
        (void)dladdr(static_cast<const char*>(address) - 1, &last);
    }
    return last.dli_sname != nullptr ? last.dli_sname : "";
}

void write(const Finding& finding) noexcept {
    if (depth() == Depth::kNothing) {
        return;
    }
    const int former_errno = errno;
    (void)at_boundary("write", [&]() -> Result<void> {
        if (Written::instance().add(key_of(finding))) {
            append(wish().file, text_of(finding));
        }
        return {};
    });
    errno = former_errno;
}

void write_blind_spot(std::string_view text) noexcept {
    if (depth() == Depth::kNothing) {
        return;
    }
    const int former_errno = errno;
    (void)at_boundary("write_blind_spot", [&]() -> Result<void> {
        if (Written::instance().add("blind " + std::string(text))) {
            std::string line;
            add_line(line, "blind", text);
            append(wish().file, line);
        }
        return {};
    });
    errno = former_errno;
}

} // namespace sluice::report
