// SPDX-License-Identifier: BSD-3-Clause
//
// A file that hosts share, as it lies in the directory of a run: for each host an image, which its processes
// map in place of the file, and what the image held when it and the file were the same (line.hpp). The file
// itself is the memory. All have the same offsets.
//
// A page comes into all images at once, when a process of any host maps it for the first time: its contents
// at that time are in every host's cache then, and stay there until that host drops them.
//
// Thread safety: one thread at a time. Between processes, what says _locked is called under the SharedLock.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "layers/hosts/line.hpp"
#include "layers/hosts/place.hpp"
#include "layers/hosts/real_map.hpp"

namespace sluice::layers::hosts {

// Whole pages from OFFSET on.
struct Part {
    std::uint64_t offset;
    std::uint64_t length;
};

class SharedFile {
  public:
    SharedFile(const Place& place, std::string name) : place_(place), name_(std::move(name)) {}

    // Empty: FILE is none that hosts share. Otherwise the same for each descriptor of a file, on all hosts.
    static std::string name_of(int file);
    // As /proc/self/maps shows the image of this process's host.
    std::string image_path() const { return place_.directory + "/" + image_name(place_.host); }
    Result<Descriptor> open_image(int access) const;
    const std::string& name() const noexcept { return name_; }
    // As the program that has mapped it knows it.
    const std::string& path() const noexcept { return path_; }

    // PART, or what FILE has of it, is in all images afterwards.
    Result<void> cover_locked(int file, const Part& part);

    // Whether there is a line at OFFSET, a multiple of its length, in a part that was covered.
    bool has_line(std::uint64_t offset) const noexcept;
    // Whether the program, or another, has taken from the file what was behind the lines FIRST to LAST.
    bool has_lost(std::uint64_t first, std::uint64_t last) const;
    // has_line() must be true.
    Line line(unsigned host, std::uint64_t offset) const noexcept;
    // Whether our own mapping of the host's image is there, and not the program's.
    bool is_our_mapping(std::uintptr_t address) const noexcept;
    // False: this process may only read the file.
    bool is_writable(std::uint64_t offset) const noexcept;
    // The parts that this process has covered, to draw lines from.
    const Part& part(std::size_t index) const noexcept { return views_[index]->part; }
    std::size_t parts() const noexcept { return views_.size(); }

  private:
    struct View {
        Part part;
        bool is_writable;
        MappedFile memory;
        MappedFile known; // a byte for each page of the file, from its first on
        std::vector<MappedFile> images;
        std::vector<MappedFile> formers;
    };

    std::string image_name(unsigned host) const { return name_ + ".image." + std::to_string(host); }
    std::string former_name(unsigned host) const { return name_ + ".former." + std::to_string(host); }
    const View* view_of(std::uint64_t offset) const noexcept;
    Result<std::unique_ptr<View>> make_view_locked(int file, const Part& part, std::uint64_t bytes) const;
    Result<void> enlarge(const Descriptor& file, std::uint64_t bytes, const Part& part) const;
    Result<MappedFile> map_own(const std::string& name, std::uint64_t bytes, const Part& part) const;
    static void learn_locked(const View& view, int file, std::uint64_t bytes);
    static void learn_page_locked(const View& view, const Descriptor& file, std::uint64_t offset);

    const Place& place_;
    const std::string name_;
    std::string path_;
    // Only added to. A program that maps many parts one after the other pays for all with address space.
    std::vector<std::unique_ptr<View>> views_;
};

} // namespace sluice::layers::hosts
