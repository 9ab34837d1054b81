// SPDX-License-Identifier: BSD-3-Clause
//
// The probes of what this process has loaded, as a tracing program sees them: it reads the notes, puts a
// breakpoint in the place of each instruction that does nothing, and reads the arguments where the notes say
// that they are. Without the kernel's uprobes, which few containers allow.
#pragma once

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <ucontext.h>

namespace sluice::test {

struct ProbeNote {
    std::string provider;
    std::string name;
    std::vector<std::string> arguments; // as "4@-12(%rbp)"
    std::uint64_t address = 0;          // in the file's numbering
};

// The notes of the ELF file at PATH. Their addresses are right after prelinking, too.
inline std::vector<ProbeNote> read_probe_notes(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string file{std::istreambuf_iterator<char>(in), {}};
    std::vector<ProbeNote> notes;
    if (file.size() < sizeof(Elf64_Ehdr)) {
        return notes;
    }
    Elf64_Ehdr head{};
    std::memcpy(&head, file.data(), sizeof head);
    std::vector<Elf64_Shdr> sections(head.e_shnum);
    std::memcpy(sections.data(), file.data() + head.e_shoff, sections.size() * sizeof(Elf64_Shdr));
    const char* const names = file.data() + sections.at(head.e_shstrndx).sh_offset;
    std::uint64_t base = 0;
    for (const Elf64_Shdr& section : sections) {
        base = std::string_view(names + section.sh_name) == ".stapsdt.base" ? section.sh_addr : base;
    }
    for (const Elf64_Shdr& section : sections) {
        if (std::string_view(names + section.sh_name) != ".note.stapsdt") {
            continue;
        }
        const std::size_t end = section.sh_offset + section.sh_size;
        for (std::size_t at = section.sh_offset; at + sizeof(Elf64_Nhdr) < end;) {
            Elf64_Nhdr note{};
            std::memcpy(&note, file.data() + at, sizeof note);
            const auto padded = [](std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; };
            const char* const body = file.data() + at + sizeof note + padded(note.n_namesz);
            std::array<std::uint64_t, 3> addresses{}; // the instruction, the base, the semaphore
            std::memcpy(addresses.data(), body, sizeof addresses);
            ProbeNote made;
            made.address = addresses[0] + base - addresses[1];
            const char* text = body + sizeof addresses;
            made.provider = text;
            text += made.provider.size() + 1;
            made.name = text;
            text += made.name.size() + 1;
            for (std::string_view left = text; !left.empty();) {
                const std::size_t space = std::min(left.find(' '), left.size());
                made.arguments.emplace_back(left.substr(0, space));
                left.remove_prefix(std::min(space + 1, left.size()));
            }
            notes.push_back(std::move(made));
            at += sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
        }
    }
    return notes;
}

#if defined(__x86_64__)

// An argument's place: a number, a register, or memory at registers.
class ProbeOperand {
  public:
    ProbeOperand() = default;
    explicit ProbeOperand(std::string_view text) {
        const std::size_t at = text.find('@');
        int size = 0;
        (void)std::from_chars(text.data(), text.data() + at, size);
        is_signed_ = size < 0;
        bytes_ = static_cast<std::size_t>(size < 0 ? -size : size);
        text.remove_prefix(at + 1);
        if (text.front() == '$') {
            is_known_ = take_number(text.substr(1)).empty();
        } else if (text.front() == '%') {
            base_ = register_of(text);
            is_known_ = base_ >= 0;
        } else {
            take_memory(take_number(text));
        }
    }
    bool is_known() const { return is_known_; }
    // In a signal's handler.
    std::uint64_t value(const greg_t* registers) const {
        std::uint64_t found = number_;
        found += base_ >= 0 ? static_cast<std::uint64_t>(registers[base_]) : 0;
        found += index_ >= 0 ? static_cast<std::uint64_t>(registers[index_]) * scale_ : 0;
        if (in_memory_) {
            std::uint64_t read = 0;
            std::memcpy(&read, reinterpret_cast<const void*>(found), bytes_); // NOLINT
            found = read;
        }
        const unsigned spare = 64 - 8 * static_cast<unsigned>(bytes_);
        return is_signed_ ? static_cast<std::uint64_t>(static_cast<std::int64_t>(found << spare) >> spare)
                          : found << spare >> spare;
    }

  private:
    static int register_of(std::string_view name) {
        static const std::map<std::string_view, int> names = {
            {"ax", REG_RAX}, {"bx", REG_RBX}, {"cx", REG_RCX}, {"dx", REG_RDX},
            {"si", REG_RSI}, {"di", REG_RDI}, {"bp", REG_RBP}, {"sp", REG_RSP}};
        name.remove_prefix(1); // %
        if (name.size() > 1 && name[0] == 'r' && name[1] >= '0' && name[1] <= '9') {
            int number = 0;
            (void)std::from_chars(name.data() + 1, name.data() + name.size(), number); // up to r15d
            return number == 8 ? REG_R8 : number == 9 ? REG_R9 : REG_R10 + number - 10;
        }
        if (name.size() == 3) {
            name.remove_prefix(1); // rax, eax, sil
            if (name.back() == 'l') {
                return -1;
            }
        }
        const auto found = names.find(name);
        if (found != names.end()) {
            return found->second;
        }
        const std::string whole = std::string(1, name.front()) + 'x'; // al
        const auto byte = names.find(whole);
        return name.size() == 2 && name.back() == 'l' && byte != names.end() ? byte->second : -1;
    }
    // What is behind it.
    std::string_view take_number(std::string_view text) {
        std::int64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        number_ = error == std::errc() ? static_cast<std::uint64_t>(number) : 0;
        return {end, static_cast<std::size_t>(text.data() + text.size() - end)};
    }
    // (%base), (%base,%index) or (%base,%index,scale)
    void take_memory(std::string_view text) {
        if (text.size() < 2 || text.front() != '(' || text.back() != ')') {
            return;
        }
        text = text.substr(1, text.size() - 2);
        const std::size_t comma = text.find(',');
        base_ = register_of(text.substr(0, comma));
        in_memory_ = true;
        is_known_ = base_ >= 0;
        if (comma == std::string_view::npos) {
            return;
        }
        text.remove_prefix(comma + 1);
        const std::size_t second = text.find(',');
        index_ = register_of(text.substr(0, second));
        is_known_ = is_known_ && index_ >= 0;
        if (second != std::string_view::npos) {
            (void)std::from_chars(text.data() + second + 1, text.data() + text.size(), scale_);
        }
    }

    std::size_t bytes_ = 8;
    bool is_signed_ = false;
    bool is_known_ = false;
    bool in_memory_ = false;
    int base_ = -1;
    int index_ = -1;
    std::uint64_t scale_ = 1;
    std::uint64_t number_ = 0;
};

struct ProbeHit {
    std::string_view name;
    std::array<std::uint64_t, 6> arguments{};
};

// All probes of one provider, from its construction on to the end of the process.
class ArmedProbes {
  public:
    static ArmedProbes& instance() {
        static ArmedProbes the_probes;
        return the_probes;
    }
    const std::set<std::string>& names() const { return names_; }
    // As "NAME: ARGUMENT" for what this reader can't read.
    const std::vector<std::string>& unreadable() const { return unreadable_; }
    // Of NAME, since the last forget().
    std::vector<ProbeHit> hits(std::string_view name) const {
        std::vector<ProbeHit> found;
        const std::size_t end = std::min(hit_.load(std::memory_order_acquire), hits_.size());
        std::copy_if(hits_.begin(), hits_.begin() + static_cast<std::ptrdiff_t>(end),
                     std::back_inserter(found), [&](const ProbeHit& one) { return one.name == name; });
        return found;
    }
    void forget() { hit_.store(0, std::memory_order_relaxed); }

  private:
    struct Site {
        std::string name;
        std::vector<ProbeOperand> operands;
    };

    ArmedProbes() : hits_(1 << 16) {
        dl_iterate_phdr(
            [](dl_phdr_info* module, std::size_t, void* self) {
                static_cast<ArmedProbes*>(self)->find(*module);
                return 0;
            },
            this);
        struct sigaction action {};
        action.sa_sigaction = on_trap;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGTRAP, &action, nullptr);
        the_one = this;
        for (const auto& [address, site] : sites_) {
            arm(address);
        }
    }
    void find(const dl_phdr_info& module) {
        const bool is_program = module.dlpi_name == nullptr || *module.dlpi_name == '\0';
        for (ProbeNote& note : read_probe_notes(is_program ? "/proc/self/exe" : module.dlpi_name)) {
            if (note.provider != "sluice") {
                continue;
            }
            names_.insert(note.name);
            Site site{.name = note.name, .operands = {}};
            for (const std::string& argument : note.arguments) {
                site.operands.emplace_back(argument);
                if (!site.operands.back().is_known()) {
                    unreadable_.push_back(note.name + ": " + argument);
                }
            }
            sites_.emplace(module.dlpi_addr + note.address, std::move(site));
        }
    }
    static void arm(std::uint64_t address) {
        constexpr std::uint8_t kNothing = 0x90, kBreakpoint = 0xcc;
        auto* const at = reinterpret_cast<std::uint8_t*>(address); // NOLINT(performance-no-int-to-ptr)
        const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
        auto* const first = reinterpret_cast<void*>(address & ~(page - 1)); // NOLINT
        if (mprotect(first, page, PROT_READ | PROT_WRITE | PROT_EXEC) == 0 && *at == kNothing) {
            *at = kBreakpoint;
        }
        mprotect(first, page, PROT_READ | PROT_EXEC);
    }
    static void on_trap(int /*signal*/, siginfo_t* /*info*/, void* context) {
        const greg_t* const registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
        const auto found = the_one->sites_.find(static_cast<std::uint64_t>(registers[REG_RIP]) - 1);
        if (found == the_one->sites_.end()) {
            abort(); // a breakpoint of somebody else
        }
        ProbeHit hit{.name = found->second.name, .arguments = {}};
        const std::vector<ProbeOperand>& operands = found->second.operands;
        for (std::size_t i = 0; i < operands.size() && i < hit.arguments.size(); ++i) {
            hit.arguments[i] = operands[i].value(registers);
        }
        const std::size_t at = the_one->hit_.fetch_add(1, std::memory_order_acq_rel);
        if (at < the_one->hits_.size()) {
            the_one->hits_[at] = hit;
        }
    }

    static inline ArmedProbes* the_one = nullptr;
    std::map<std::uint64_t, Site> sites_;
    std::set<std::string> names_;
    std::vector<std::string> unreadable_;
    std::vector<ProbeHit> hits_;
    std::atomic<std::size_t> hit_ = 0;
};

#endif

} // namespace sluice::test
