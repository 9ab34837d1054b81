// SPDX-License-Identifier: BSD-3-Clause
#include "tools/executable.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace sluice::tools {

std::string file_of_command(const std::string& command) {
    if (command.find('/') != std::string::npos) {
        return command;
    }
    const char* const path = std::getenv("PATH");
    std::istringstream folders(path != nullptr ? path : "/bin:/usr/bin");
    for (std::string folder; std::getline(folders, folder, ':');) {
        std::string candidate = (folder.empty() ? "." : folder) + "/" + command;
        struct stat status {};
        if (stat(candidate.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
            access(candidate.c_str(), X_OK) == 0) {
            return candidate;
        }
    }
    return {};
}

namespace {

constexpr int kScripts = 4; // that a kernel follows, one the interpreter of the other

std::string_view name_of_file(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

// "#!/bin/sh -e" and "#!/usr/bin/env python3": what is started in the script's place.
std::string interpreter_of(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (name_of_file(word) != "env") {
        return word;
    }
    while (words >> word) {
        if (word[0] != '-' && word.find('=') == std::string::npos) {
            return file_of_command(word);
        }
    }
    return {};
}

// The loader clears the environment of such a program.
const char* privileges_of(const std::string& path) {
    struct stat status {};
    struct statvfs system {};
    if (stat(path.c_str(), &status) != 0 || statvfs(path.c_str(), &system) != 0 ||
        (system.f_flag & ST_NOSUID) != 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
        return nullptr;
    }
    if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) {
        return "runs as its file's owner (setuid)";
    }
    if ((status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && status.st_gid != getgid()) {
        return "runs as its file's group (setgid)";
    }
    if (getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0) {
        return "has capabilities of its file";
    }
    return nullptr;
}

template<typename Value>
bool read_at(std::ifstream& file, std::uint64_t offset, Value& value) {
    file.clear();
    file.seekg(static_cast<std::streamoff>(offset));
    return static_cast<bool>(file.read(reinterpret_cast<char*>(&value), sizeof value));
}

// Ours is the one that the command itself has: it is of the architecture of what is preloaded.
std::optional<Elf64_Ehdr> header_of(std::ifstream& file) {
    Elf64_Ehdr header{};
    if (!read_at(file, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        return std::nullopt;
    }
    return header;
}

bool is_of_our_architecture(const Elf64_Ehdr& header) {
    std::ifstream self("/proc/self/exe", std::ios::binary);
    const std::optional<Elf64_Ehdr> ours = header_of(self);
    return !ours || (std::memcmp(header.e_ident + EI_CLASS, ours->e_ident + EI_CLASS, 2) == 0 &&
                     header.e_machine == ours->e_machine);
}

// The loader that the program names; empty: none.
std::string loader_of(std::ifstream& file, const Elf64_Ehdr& header) {
    constexpr std::size_t kLongest = 4096;
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr part{};
        if (!read_at(file, header.e_phoff + std::uint64_t{i} * header.e_phentsize, part)) {
            return {};
        }
        if (part.p_type == PT_INTERP && part.p_filesz < kLongest) {
            std::string name(part.p_filesz, '\0');
            file.seekg(static_cast<std::streamoff>(part.p_offset));
            file.read(name.data(), static_cast<std::streamsize>(name.size()));
            return name.substr(0, name.find('\0'));
        }
    }
    return {};
}

bool is_loader(std::string_view path) {
    const std::string_view name = name_of_file(path);
    return name.starts_with("ld-") || name.starts_with("ld.so") || name.starts_with("ld64");
}

Obstacle obstacle_in_program(const std::string& path, std::ifstream& file, const Elf64_Ehdr& header,
                             const Preloaded& preloaded) {
    const char* const privileges = privileges_of(path);
    if (privileges != nullptr) {
        return {path + " " + privileges +
                    ", so that the loader preloads nothing: run it as a user who has these rights already, "
                    "or a copy of it without them",
                true, true};
    }
    if (!is_of_our_architecture(header)) {
        return {path +
                    " is built for another architecture, and the loader passes over our library: only "
                    "programs that it starts may " +
                    preloaded.effect,
                false};
    }
    const std::string loader = loader_of(file, header);
    if (loader.find("musl") != std::string::npos) {
        return {path + " is built with musl, and our library with glibc: build the program with glibc", true};
    }
    if (loader.empty() && !is_loader(path)) {
        return {path +
                    " is linked statically, and has no loader that could preload our library: only "
                    "programs that it starts may " +
                    preloaded.effect + "; " + preloaded.remedy,
                false};
    }
    return {};
}

} // namespace

Obstacle obstacle_to_preloading(const std::string& command, const Preloaded& preloaded) {
    std::string path = file_of_command(command);
    for (int i = 0; i < kScripts && !path.empty(); ++i) {
        std::ifstream file(path, std::ios::binary);
        const std::optional<Elf64_Ehdr> header = header_of(file);
        if (header) {
            return obstacle_in_program(path, file, *header, preloaded);
        }
        file.clear();
        file.seekg(0);
        std::string line;
        std::getline(file, line);
        if (!line.starts_with("#!")) {
            return {};
        }
        path = interpreter_of(line.substr(2));
    }
    return {};
}

} // namespace sluice::tools
