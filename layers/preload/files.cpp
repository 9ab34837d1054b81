// SPDX-License-Identifier: BSD-3-Clause
#include "layers/preload/files.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sluice/sluice.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/boundary.hpp"
#include "core/descriptor.hpp"
#include "core/log.hpp"
#include "core/private_directory.hpp"
#include "core/sync.hpp"
#include "ibverbs-glue/uroce_contexts.hpp"
#include "layers/preload/devices.hpp"
#include "layers/preload/port_counters.hpp"

namespace sluice::layers::preload {

namespace {

// Where programs look. The first is longer than what it begins with, the second.
constexpr std::string_view kPlaces[] = {"/sys/class/infiniband_verbs", "/sys/class/infiniband",
                                        "/dev/infiniband"};
constexpr std::string_view kAbiVersion = "abi_version"; // of infiniband_verbs

// A program that writes a command to it is told that there is no room, and no ioctl is known.
constexpr const char* kNoDevice = "/dev/full";
constexpr const char* kNoDeviceNumber = "1:7";

// A directory of ours that is written file by file. After the first that can't be, nothing is.
class Writer {
  public:
    explicit Writer(int directory) noexcept : directory_(directory) {}

    void folders(std::string_view path) { // all of PATH's
        for (std::size_t end = 0; end != std::string_view::npos;) {
            end = path.find('/', end + 1);
            const std::string folder(path.substr(0, end));
            fine_ = fine_ && (mkdirat(directory_, folder.c_str(), 0700) == 0 || errno == EEXIST);
        }
    }
    void line(const std::string& path, const std::string& text) {
        fine_ = fine_ && write_line(directory_, path.c_str(), text);
    }
    void link(const std::string& path, const std::string& target) {
        fine_ = fine_ && symlinkat(target.c_str(), directory_, path.c_str()) == 0;
    }
    bool fine() const noexcept { return fine_; }

  private:
    const int directory_;
    bool fine_ = true;
};

std::string groups_of_four(const std::uint8_t* bytes, std::size_t size) {
    std::string text;
    for (std::size_t i = 0; i < size; i += 2) {
        char group[8];
        std::snprintf(group, sizeof group, "%s%02x%02x", i == 0 ? "" : ":", unsigned{bytes[i]},
                      unsigned{bytes[i + 1]});
        text += group;
    }
    return text;
}

std::string guid_text(std::uint64_t in_network_order) {
    std::uint8_t bytes[8];
    std::memcpy(bytes, &in_network_order, sizeof bytes);
    return groups_of_four(bytes, sizeof bytes);
}

// All zeros for no address.
std::string gid_text(const char* address) {
    std::uint8_t gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (inet_pton(AF_INET, address, gid + 12) != 1 && inet_pton(AF_INET6, address, gid) != 1) {
        std::ranges::fill(gid, std::uint8_t{0});
    }
    return groups_of_four(gid, sizeof gid);
}

void write_gid(Writer& writer, const std::string& port, const sluice_uroce_device& device, unsigned index) {
    const auto file = [&](const char* folder) {
        return std::string(port).append(folder).append(std::to_string(index));
    };
    writer.line(file("/gids/"), gid_text(device.gids[index]));
    // Reading about an empty entry is an error with the kernel's, too.
    if (device.gids[index][0] != '\0') {
        writer.line(file("/gid_attrs/types/"), "RoCE v2");
        writer.line(file("/gid_attrs/ndevs/"), device.interface);
    }
}

void write_port(Writer& writer, const std::string& port, const sluice_uroce_device& device) {
    for (const char* folder : {"/gids", "/pkeys", "/gid_attrs/types", "/gid_attrs/ndevs"}) {
        writer.folders(port + folder);
    }
    // As ibv_query_port() answers.
    writer.line(port + "/state", "4: ACTIVE");
    writer.line(port + "/phys_state", "5: LinkUp");
    writer.line(port + "/rate", "2.5 Gb/sec (1X SDR)");
    writer.line(port + "/link_layer", "Ethernet");
    writer.line(port + "/cap_mask", "0x04010000");
    writer.line(port + "/lid", "0x0");
    writer.line(port + "/lid_mask_count", "0");
    writer.line(port + "/sm_lid", "0x0");
    writer.line(port + "/sm_sl", "0");
    writer.line(port + "/pkeys/0", "0xffff");
    writer.folders(port + "/counters");
    writer.folders(port + "/hw_counters");
    for (const PortCounter& counter : port_counters()) {
        writer.line(port + "/" + counter.file, "0");
    }
    for (unsigned index = 0; index < device.gid_count; ++index) {
        write_gid(writer, port, device, index);
    }
}

std::string folder_of(const std::string& device) {
    return "sys/class/infiniband/" + device;
}

constexpr std::string_view kPort = "/ports/1";

void write_device(Writer& writer, const sluice_uroce_device& device) {
    const std::string name = device.name;
    const std::string folder = folder_of(name);
    writer.folders(folder);
    writer.line(folder + "/node_type", "1: CA");
    writer.line(folder + "/node_guid", guid_text(device.node_guid));
    writer.line(folder + "/sys_image_guid", guid_text(device.node_guid));
    writer.line(folder + "/node_desc", name);
    write_port(writer, folder + std::string(kPort), device);

    const std::string verbs = "sys/class/infiniband_verbs/" + verbs_file_of(name);
    writer.folders(verbs);
    writer.line(verbs + "/ibdev", name);
    writer.line(verbs + "/abi_version", "1");
    writer.line(verbs + "/dev", kNoDeviceNumber);

    writer.folders("dev/infiniband");
    writer.link("dev/infiniband/" + verbs_file_of(name), kNoDevice);
}

std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    using Listing = std::unique_ptr<DIR, decltype([](DIR* open) { closedir(open); })>;
    const Listing listing(opendir(path.c_str()));
    while (const dirent* entry = listing != nullptr ? readdir(listing.get()) : nullptr) {
        if (entry->d_name[0] != '.') {
            names.emplace_back(entry->d_name);
        }
    }
    std::ranges::sort(names);
    return names;
}

// What our directory was made from.
struct Contents {
    std::vector<sluice_uroce_device> devices;
    std::array<std::vector<std::string>, std::size(kPlaces)> kernels; // entries

    // Where the kernel's modules aren't loaded.
    bool brings_abi_version() const {
        return !devices.empty() && std::ranges::find(kernels[0], kAbiVersion) == kernels[0].end();
    }
    bool has(std::string_view entry) const {
        return (entry == kAbiVersion && brings_abi_version()) ||
               std::ranges::any_of(devices, [entry](const sluice_uroce_device& device) {
                   return entry == device.name || entry == verbs_file_of(device.name);
               });
    }
};

bool same(const sluice_uroce_device& left, const sluice_uroce_device& right) noexcept {
    return std::strcmp(left.name, right.name) == 0 && std::strcmp(left.address, right.address) == 0 &&
           std::strcmp(left.interface, right.interface) == 0 && left.node_guid == right.node_guid &&
           std::ranges::equal(left.gids, right.gids, [](const auto& one, const auto& other) {
               return std::strcmp(one, other) == 0;
           });
}

bool same(const Contents& left, const Contents& right) {
    return std::ranges::equal(left.devices, right.devices,
                              [](const auto& one, const auto& other) { return same(one, other); }) &&
           std::ranges::equal(left.kernels, right.kernels);
}

Contents present_contents() {
    Contents contents;
    contents.devices = present_devices();
    for (std::size_t i = 0; i < std::size(kPlaces); ++i) {
        contents.kernels[i] = names_in(std::string(kPlaces[i]));
    }
    return contents;
}

bool write_contents(int directory, const Contents& contents) {
    Writer writer(directory);
    for (const sluice_uroce_device& device : contents.devices) {
        write_device(writer, device);
    }
    for (std::size_t i = 0; i < std::size(kPlaces); ++i) {
        const std::string place(kPlaces[i]);
        for (const std::string& name : contents.kernels[i]) {
            std::string path = place;
            path += "/" + name;
            writer.link(path.substr(1), path);
        }
    }
    if (contents.brings_abi_version()) {
        writer.line("sys/class/infiniband_verbs/" + std::string(kAbiVersion), "6");
    }
    return writer.fine();
}

// What is left of PATH behind one of the places: its entry and the rest, "" for the place itself.
struct Parts {
    std::string_view place;
    std::string_view entry;
};

std::optional<Parts> split(std::string_view path) noexcept {
    for (const std::string_view place : kPlaces) {
        if (path.starts_with(place) && (path.size() == place.size() || path[place.size()] == '/')) {
            std::string_view rest = path.substr(place.size());
            rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
            return Parts{place, rest.substr(0, rest.find('/'))};
        }
    }
    return std::nullopt;
}

bool lists_kernels_devices(const void* caller) noexcept {
    Dl_info its{};
    if (dladdr(caller, &its) == 0 || its.dli_fname == nullptr) {
        return false;
    }
    const char* const slash = std::strrchr(its.dli_fname, '/');
    const std::string_view name = slash == nullptr ? its.dli_fname : slash + 1;
    // libsluice-power.so stands before the program's own calls.
    return name.starts_with("libibverbs.so") || name.starts_with("librdmacm.so") ||
           (name.starts_with("libsluice") && !name.starts_with("libsluice-power."));
}

class Files {
  public:
    static Files& instance() {
        static Files& instance = *new Files(); // other destructors may still open files
        return instance;
    }

    // Where PATH's PARTS are in our directory; "" if they are none of ours.
    Result<std::string> find(std::string_view path, const Parts& parts) {
        const LockGuard guard(mutex_);
        // What is known already is not asked for again: that takes a look at each device's port.
        const std::string origin = glue::origin_of_uroce_list();
        const bool is_known = owner_ == getpid() && origin == origin_ && contents_.has(parts.entry);
        if (!is_known && !parts.entry.empty() && is_kernels(path, parts)) {
            return std::string();
        }
        if (!is_known) {
            Result<void> updated = update_locked();
            if (!updated) {
                return std::move(updated).error();
            }
            origin_ = origin;
        }
        const bool is_ours = parts.entry.empty() ? !contents_.devices.empty() : contents_.has(parts.entry);
        if (is_ours) {
            refresh_counters_locked(path);
        }
        return is_ours ? directory_->path() + std::string(path) : std::string();
    }

  private:
    // If PATH is one of them. What is there already stays where they can't be written.
    void refresh_counters_locked(std::string_view path) SLUICE_TSA(requires_capability(mutex_)) {
        for (const sluice_uroce_device& device : contents_.devices) {
            const std::string port = folder_of(device.name).append(kPort);
            const std::size_t rest = port.size() + 2; // with the slashes around it
            if (path.size() > rest && path.substr(1).starts_with(port) &&
                is_of_port_counters(path.substr(rest))) {
                const Descriptor directory(
                    open(directory_->path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
                (void)counters_[device.name].refresh(directory.get(), port, device.name, device.address);
            }
        }
    }

    static bool is_kernels(std::string_view path, const Parts& parts) {
        const auto end = static_cast<std::size_t>(parts.entry.end() - path.begin());
        return access(std::string(path.substr(0, end)).c_str(), F_OK) == 0;
    }

    Result<void> update_locked() SLUICE_TSA(requires_capability(mutex_)) {
        Contents contents = present_contents();
        if (owner_ == getpid() && same(contents, contents_)) {
            return {};
        }
        Result<std::unique_ptr<PrivateDirectory>> made = make(contents);
        if (!made) {
            return std::move(made).error();
        }
        if (owner_ != getpid()) {
            static_cast<void>(directory_.release()); // in the child of a fork: its parent removes that
        }
        directory_ = std::move(*made);
        owner_ = getpid();
        contents_ = std::move(contents);
        counters_.clear();
        return {};
    }

    static Result<std::unique_ptr<PrivateDirectory>> make(const Contents& contents) {
        if (contents.devices.empty()) {
            return std::unique_ptr<PrivateDirectory>();
        }
        Result<PrivateDirectory> made = PrivateDirectory::make(
            [&contents](int directory) { return write_contents(directory, contents); });
        if (!made) {
            return std::move(made).error();
        }
        return std::make_unique<PrivateDirectory>(std::move(*made));
    }

    Mutex mutex_;
    pid_t owner_ SLUICE_TSA(guarded_by(mutex_)) = 0;
    std::unique_ptr<PrivateDirectory> directory_ SLUICE_TSA(guarded_by(mutex_));
    Contents contents_ SLUICE_TSA(guarded_by(mutex_));
    std::string origin_ SLUICE_TSA(guarded_by(mutex_)); // what they followed from
    std::map<std::string, PortCounterFiles> counters_ SLUICE_TSA(guarded_by(mutex_)); // by device
};

// This thread is in Files: what that opens is meant as it stands.
thread_local bool inside = false;

} // namespace

bool Redirected::may_be_ours(const char* path) noexcept {
    return path != nullptr && path[0] == '/' &&
           (std::strncmp(path, "/sys/class/infiniband", 21) == 0 ||
            std::strncmp(path, "/dev/infiniband", 15) == 0);
}

const char* Redirected::redirect(const char* path, const void* caller) noexcept {
    const std::optional<Parts> parts = split(path);
    if (!parts || inside || (parts->entry.empty() && lists_kernels_devices(caller))) {
        return path;
    }
    const int error = errno;
    inside = true;
    const Result<std::string> found =
        at_boundary("redirecting a path", [&] { return Files::instance().find(path, *parts); });
    inside = false;
    if (!found) {
        SLUICE_LOG(kWarning, "preload", "%s shows no device of uroce's: %s", path, found.error().text());
    }
    errno = error;
    if (!found || found->empty() || found->size() >= sizeof room_) {
        return path;
    }
    std::memcpy(room_, found->c_str(), found->size() + 1);
    return room_;
}

} // namespace sluice::layers::preload
