// SPDX-License-Identifier: BSD-3-Clause
//
// A machine of tests/fixtures, unpacked into a directory of its own for the length of a test.
#pragma once

#include <unistd.h>

#include <cstdlib>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

namespace sluice::test {

class Machine {
  public:
    // NAME is that of a file in tests/fixtures/machines; without one the machine is empty.
    explicit Machine(const std::string& name = "") {
        // In memory where that is possible: hundreds of small files are made for each run.
        const char* const memory = "/dev/shm";
        root_ = std::string(access(memory, W_OK) == 0 ? memory : "/tmp") + "/sluice-machine-XXXXXX";
        require(mkdtemp(root_.data()) != nullptr, "mkdtemp");
        if (!name.empty()) {
            std::ifstream file(std::string(TEST_MACHINES) + "/" + name + ".tree");
            require(file.good(), name);
            for (std::string line; std::getline(file, line);) {
                add(line);
            }
        }
    }
    ~Machine() { std::filesystem::remove_all(root_); }
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    const std::string& root() const { return root_; }

    // One line in the form that tests/fixtures/README.md describes.
    void add(const std::string& line) {
        std::istringstream words(line);
        std::string path;
        std::string kind;
        words >> path >> kind;
        if (path.empty() || path[0] == '#') {
            return;
        }
        const std::string outside = root_ + path;
        if (path.ends_with('/')) {
            std::filesystem::create_directories(outside);
            return;
        }
        std::filesystem::create_directories(outside.substr(0, outside.rfind('/')));
        if (kind == "->") {
            std::string target;
            words >> target;
            std::filesystem::create_symlink(target, outside);
        } else if (kind == "bytes") {
            write(path, bytes(words));
        } else {
            require(kind == "=", line);
            const std::size_t text = line.find(" = ");
            write(path, text == std::string::npos ? "" : line.substr(text + 3) + "\n");
        }
    }

    void write(const std::string& path, const std::string& content) const {
        const std::string outside = root_ + path;
        std::filesystem::create_directories(outside.substr(0, outside.rfind('/')));
        std::ofstream(outside, std::ios::binary) << content;
    }

    void remove(const std::string& path) const { std::filesystem::remove_all(root_ + path); }

  private:
    static std::string bytes(std::istringstream& words) {
        std::size_t size = 0;
        words >> std::hex >> size;
        std::string content(size, '\0');
        for (std::string word; words >> word;) {
            const std::size_t equals = word.find('=');
            content.at(std::stoul(word.substr(0, equals), nullptr, 16)) =
                static_cast<char>(std::stoul(word.substr(equals + 1), nullptr, 16));
        }
        return content;
    }

    static void require(bool good, std::string_view what) {
        if (!good) {
            std::cerr << "fixture: " << what << '\n';
            std::abort();
        }
    }

    std::string root_;
};

} // namespace sluice::test
