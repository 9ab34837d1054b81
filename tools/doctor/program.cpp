// SPDX-License-Identifier: BSD-3-Clause
//
// `sluice doctor -- COMMAND`: what stands in the program's way, and what the error means with which it ended.
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/child.hpp"
#include "tools/doctor/checks.hpp"
#include "tools/doctor/trial.hpp"
#include "tools/executable.hpp"
#include "tools/library.hpp"

namespace sluice::tools::doctor {

namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

std::string command_line(const Words& words, std::size_t from = 0) {
    std::string line;
    for (std::size_t i = from; i < words.size(); ++i) {
        line += (line.empty() ? "" : " ") + shell_word(words[i]);
    }
    return line;
}

bool has_apt() {
    return access("/usr/bin/apt-get", X_OK) == 0;
}

Remedy installation(const char* package) {
    return as_root(std::string("apt-get install -y ") + package);
}

struct ProgramPackage {
    const char* name;
    std::string_view programs; // each between two spaces
};

// Debian's, of programs that people look for when they try RDMA.
constexpr std::array kProgramPackages{
    ProgramPackage{"ibverbs-utils",
                   " ibv_asyncwatch ibv_devices ibv_devinfo ibv_rc_pingpong ibv_srq_pingpong ibv_uc_pingpong"
                   " ibv_ud_pingpong ibv_xsrq_pingpong "},
    ProgramPackage{
        "rdmacm-utils",
        " cmtime mckey rcopy rdma_client rdma_server rdma_xclient rdma_xserver riostream rping rstream"
        " ucmatose udaddy udpong "},
    ProgramPackage{"perftest",
                   " ib_atomic_bw ib_atomic_lat ib_read_bw ib_read_lat ib_send_bw ib_send_lat ib_write_bw"
                   " ib_write_lat raw_ethernet_bw raw_ethernet_lat "},
    ProgramPackage{"qperf", " qperf "},
    ProgramPackage{"ibacm", " ib_acme ibacm "},
    ProgramPackage{"dapl2-utils", " dapltest dtest dtestcm dtestx "},
    ProgramPackage{"ucx-utils", " ucx_info ucx_perftest "},
    ProgramPackage{"libfabric-bin", " fi_info fi_pingpong "},
    ProgramPackage{"openmpi-bin", " mpiexec mpirun "},
    ProgramPackage{"fio", " fio "},
};

Remedy remedy_for_absence(const std::string& command) {
    const auto* const package =
        std::ranges::find_if(kProgramPackages, [word = " " + command + " "](const ProgramPackage& one) {
            return one.programs.find(word) != std::string_view::npos;
        });
    return package != kProgramPackages.end() && has_apt() ? installation(package->name)
                                                          : Remedy{"", "whoever installs it"};
}

// Whether it can be started at all.
bool check_file(const std::string& command, const std::string& file, Report& report) {
    if (file.empty() || access(file.c_str(), F_OK) != 0) {
        report.problem("there is no program '" + command + "'", remedy_for_absence(command));
        return false;
    }
    if (access(file.c_str(), X_OK) != 0) {
        report.problem(file + " may not be executed", {"chmod +x " + shell_word(file), ""});
        return false;
    }
    return true;
}

// A copy has its caller's rights, and no others.
Remedy remedy_for_rights(const std::string& file, const Words& command) {
    const std::string copy = "./" + fs::path(file).filename().string() + ".copy";
    const std::string arguments = command.size() > 1 ? " " + command_line(command, 1) : "";
    return {"cp " + shell_word(file) + " " + shell_word(copy) + " && sluice doctor -- " + shell_word(copy) +
                arguments,
            ""};
}

void check_preloading(const std::string& file, const Words& command, Report& report) {
    const Obstacle obstacle = obstacle_to_preloading(command.front(), kShowsUroce);
    if (obstacle.why.empty()) {
        report.ok("`sluice run` can show uroce's devices to " + file);
    } else if (obstacle.is_by_rights) {
        report.problem(obstacle.why, remedy_for_rights(file, command));
    } else {
        report.warn(obstacle.why, {"", "whoever builds it"});
    }
}

bool is_program(const std::string& file) {
    std::ifstream content(file, std::ios::binary);
    std::array<char, SELFMAG> magic{};
    return content.read(magic.data(), magic.size()) && std::equal(magic.begin(), magic.end(), ELFMAG);
}

// "libibverbs.so.1 => not found": the libraries that the loader doesn't find. It lists them without starting
// the program.
Words missing_libraries(const std::string& file) {
    constexpr std::string_view kMissing = " => not found";
    Words missing;
    std::istringstream lines(try_command({"ldd", file}, {}, Echo::kNone).out);
    for (std::string line; std::getline(lines, line);) {
        if (const std::size_t end = line.find(kMissing); end != std::string::npos) {
            missing.push_back(
                line.substr(line.find_first_not_of(" \t"), end - line.find_first_not_of(" \t")));
        }
    }
    return missing;
}

struct Package {
    const char* library;
    const char* name;
};

constexpr std::array kPackages{
    Package{"libibverbs.so.1", "libibverbs1"},
    Package{"librdmacm.so.1", "librdmacm1"},
    Package{"libibumad.so.3", "libibumad3"},
};

// LIBRARY lies beside FILE, or in a directory for libraries beside that.
std::string directory_near(const std::string& file, const std::string& library) {
    const fs::path here = fs::absolute(file).parent_path();
    for (const fs::path& candidate :
         {here, here / "lib", here.parent_path() / "lib", here.parent_path() / "lib64"}) {
        if (fs::exists(candidate / library)) {
            return candidate.string();
        }
    }
    return {};
}

Remedy remedy_for_library(const std::string& file, const std::string& library) {
    if (const std::string directory = directory_near(file, library); !directory.empty()) {
        return {"export LD_LIBRARY_PATH=" + shell_word(directory) + "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",
                ""};
    }
    const auto* const package = std::ranges::find(kPackages, library, &Package::library);
    if (package != kPackages.end() && has_apt()) {
        return installation(package->name);
    }
    return {"", "whoever installs " + library};
}

void report_missing(const std::string& file, const std::string& library, Report& report) {
    report.problem(file + " needs " + library + ", which the loader doesn't find",
                   remedy_for_library(file, library));
}

bool check_libraries(const std::string& file, Report& report) {
    const Words missing = is_program(file) ? missing_libraries(file) : Words{};
    for (const std::string& library : missing) {
        report_missing(file, library, report);
    }
    return missing.empty();
}

enum class Cure { kUroce, kGid, kDescriptors, kMemory };

// What programs for verbs say when they end, and where that is from.
struct Symptom {
    const char* said;
    const char* meaning;
    Cure cure;
};

constexpr std::array kSymptoms{
    Symptom{"No IB devices found", "libibverbs shows it no device", Cure::kUroce},
    Symptom{"No RDMA devices", "librdmacm finds no device", Cure::kUroce},
    Symptom{"Failed to get IB devices list", "libibverbs can't list devices", Cure::kUroce},
    Symptom{"No IB device", "libibverbs shows it no device", Cure::kUroce},
    Symptom{"rdma_create_event_channel", "librdmacm finds no device", Cure::kUroce},
    Symptom{
        "Failed to modify QP to RTR",
        "the peer's address is missing: RoCE needs a GID, and programs without rdma_cm take one only by -g",
        Cure::kGid},
    Symptom{"Couldn't register MR", "memory can't be registered: the limit of locked memory", Cure::kMemory},
    Symptom{"Couldn't allocate MR", "memory can't be registered: the limit of locked memory", Cure::kMemory},
    Symptom{"Too many open files", "it may not open more files", Cure::kDescriptors},
};

Remedy remedy_for(Cure cure, const Words& command) {
    switch (cure) {
    case Cure::kUroce:
        return {"sluice run --device uroce -- " + command_line(command), ""};
    case Cure::kGid:
        // The kernel's devices have their RoCEv2 GIDs at different indices; uroce's is always the first.
        return device_names({}).empty() ? Remedy{command_line(command) + " -g 0", ""}
                                        : Remedy{"", "its caller, with -g and the index that is told above"};
    case Cure::kDescriptors:
        return {"ulimit -S -n $(ulimit -H -n)", ""};
    case Cure::kMemory:
        return as_root("ulimit -l unlimited");
    }
    return {};
}

std::string last_line_of(const std::string& text) {
    std::istringstream lines(text);
    std::string last;
    for (std::string line; std::getline(lines, line);) {
        last = line.empty() ? last : line;
    }
    return last;
}

void explain(const Trial& trial, const Words& command, Report& report) {
    const std::string said = trial.out + "\n" + trial.err;
    const std::string ended = command.front() + " ended with status " + std::to_string(trial.status);
    for (const Symptom& symptom : kSymptoms) {
        if (said.find(symptom.said) != std::string::npos) {
            report.problem(ended + ", and said '" + symptom.said + "': " + symptom.meaning,
                           remedy_for(symptom.cure, command));
            return;
        }
    }
    const std::string last = last_line_of(trial.err.empty() ? trial.out : trial.err);
    report.problem(ended + (last.empty() ? "" : "; its last words: " + last), {});
}

void run_it(const Words& command, Report& report) {
    const Trial trial = try_command(command, {}, Echo::kBoth);
    if (trial.status == 0) {
        report.ok(command.front() + " ended with status 0");
    } else {
        explain(trial, command, report);
    }
}

} // namespace

void check_program(const std::vector<std::string>& command, Report& report) {
    const std::string file = file_of_command(command.front());
    if (!check_file(command.front(), file, report)) {
        return;
    }
    check_preloading(file, command, report);
    if (check_libraries(file, report)) {
        run_it(command, report);
    }
}

} // namespace sluice::tools::doctor
