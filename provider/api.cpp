// SPDX-License-Identifier: BSD-3-Clause
//
// The façade of libsluice: every function of <sluice/sluice.h>, in header order. Each checks its
// arguments, makes one call and converts the result, and does nothing else.
#include "sluice/sluice.h"

#include <cerrno>

#include <algorithm>
#include <cstring>

#include "core/facade.hpp"
#include "core/log.hpp"
#include "core/put_text.hpp"
#include "core/versioned.hpp"
#include "provider/attributes/description.hpp"
#include "provider/attributes/live_facts.hpp"
#include "provider/attributes/query.hpp"
#include "provider/attributes/sysfs_device.hpp"
#include "provider/check_setting.hpp"
#include "provider/config/config.hpp"
#include "provider/uroce/connect/gsi.hpp"
#include "provider/uroce/device/addresses.hpp"
#include "provider/uroce/device/registry.hpp"
#include "provider/uroce/verbs/open.hpp"
#include "provider/uroce/verbs/presence.hpp"
#include "provider/wr_flush.hpp"
#include "roce/wire/description.hpp"
#include "sluice/version.hpp"

using sluice::copy_versioned;
using sluice::Errno;
using sluice::Error;
using sluice::ErrorKind;
using sluice::Facade;
using sluice::FileTree;
using sluice::LogLevel;
using sluice::put_text;
using sluice::Result;
using sluice::Where;
namespace attributes = sluice::attributes;
namespace uroce = sluice::uroce;
namespace wire = sluice::roce::wire;

namespace {

// An errno alone leaves a person guessing.
struct Query : Facade<Query> {
    using Code = int;
    static constexpr Code kDone = 0;
    static Code fail(const Error& error, const Where& where) noexcept {
        SLUICE_LOG(kError, "attributes", "%s: %s", where.function, error.text());
        return error.to_errno();
    }
};

// The same for the elements of a list, whose end is no failure to report.
struct Listing : Facade<Listing> {
    using Code = int;
    static constexpr Code kDone = 0;
    static Code fail(const Error& error, const Where& where) noexcept {
        return error.kind() == ErrorKind::kNotFound ? ENOENT : Query::fail(error, where);
    }
};

// The same for connections.
struct Cm : Facade<Cm> {
    using Code = int;
    static constexpr Code kDone = 0;
    static Code fail(const Error& error, const Where& where) noexcept {
        SLUICE_LOG(kInfo, "cm", "%s: %s", where.function, error.text());
        return error.to_errno();
    }
};

// A pointer, or null and errno.
template<typename T>
struct OrNull : Facade<OrNull<T>> {
    using Code = T*;
    static Code fail(const Error& error, const Where& where) noexcept {
        SLUICE_LOG(kError, "uroce", "%s: %s", where.function, error.text());
        errno = error.to_errno();
        return nullptr;
    }
};

// What the first version of each struct ended with.
constexpr std::size_t kOldestAttributes =
    offsetof(sluice_device_attributes, dma_bounce) + sizeof(sluice_attribute);
constexpr std::size_t kOldestSetting = offsetof(sluice_setting, problem);
constexpr std::size_t kOldestDescription = sizeof(sluice_attribute_description);
constexpr std::size_t kOldestUroceDevice = sizeof(sluice_uroce_device);
constexpr std::size_t kOldestField = sizeof(sluice_packet_field);
constexpr std::size_t kOldestCmParams = sizeof(sluice_cm_params);

Result<void> query_into(const FileTree& tree, const std::string& name, attributes::Asker ask, void* context,
                        sluice_device_attributes* to, std::size_t size) {
    // Here, and not when the library is loaded: most programs never ask.
    attributes::set_own_devices(uroce::device::is_device_name);
    // A program that doesn't know what they are made for doesn't wait for queue pairs.
    const bool may_try_queue_pairs = size > offsetof(sluice_device_attributes, max_inline);
    Result<sluice_device_attributes> found = attributes::query(tree, name, ask, context, may_try_queue_pairs);
    return found ? copy_versioned(*found, to, size, kOldestAttributes) : std::move(found).error();
}

// Of one that can't be opened now, too; it has no interface then.
std::string interface_of_uroce(const std::string& name) {
    const Result<uroce::device::LocalAddress> where = uroce::device::resolve(name.c_str());
    return where ? where->interface : "";
}

// What needs no question to the device.
void add_facts_of_uroce(const std::string& name, attributes::LiveFacts& facts) {
    facts.max_inline = uroce::verbs::max_inline();
    facts.netdev = interface_of_uroce(name);
}

attributes::LiveFacts facts_of_uroce(const std::string& name) {
    attributes::LiveFacts facts = attributes::facts_of_own_device();
    facts.capabilities = uroce::verbs::capabilities();
    facts.paging = uroce::verbs::paging_capabilities();
    facts.atomics = SLUICE_ATOMICS_GLOBAL; // they are the CPU's own
    facts.max_sge = uroce::verbs::max_sge();
    facts.firmware = sluice::kVersion;
    add_facts_of_uroce(name, facts);
    return facts;
}

Result<void> describe_into(const sluice_device_attributes& from, std::size_t from_size, unsigned index,
                           sluice_attribute_description* to, std::size_t size) {
    sluice_device_attributes known{};
    std::memcpy(&known, &from, from_size < sizeof known ? from_size : sizeof known);
    Result<sluice_attribute_description> found = attributes::describe(known, from_size, index);
    return found ? copy_versioned(*found, to, size, kOldestDescription) : std::move(found).error();
}

// What channels and ids are behind their public names. Every call on one: not null, not of the parent of
// this process, no exception.
uroce::connect::Channel& to_channel(sluice_cm_channel* channel) noexcept {
    return *reinterpret_cast<uroce::connect::Channel*>(channel);
}
uroce::connect::Id& to_id(sluice_cm_id* id) noexcept {
    return *reinterpret_cast<uroce::connect::Id*>(id);
}

template<typename Body>
int with_channel(sluice_cm_channel* channel, Body&& body, const Where& where = {}) noexcept {
    if (channel == nullptr) {
        return EINVAL;
    }
    uroce::connect::Channel& ours = to_channel(channel);
    return ours.service.gone() ? EIO : Cm::answer([&] { return body(ours.service, ours); }, where);
}

template<typename Body>
int with_id(sluice_cm_id* id, Body&& body, const Where& where = {}) noexcept {
    if (id == nullptr) {
        return EINVAL;
    }
    uroce::connect::Id& ours = to_id(id);
    return ours.service.gone() ? EIO : Cm::answer([&] { return body(ours.service, ours); }, where);
}

// With what the caller's version of the struct doesn't have as it is by default.
Result<sluice_cm_params> read_params(const sluice_cm_params* from, std::size_t size) {
    if (from == nullptr || size < kOldestCmParams) {
        return Error::format(
            ErrorKind::kInvalidArgument, 0,
            "reading connection parameters: params is null, or its size %zu is below %zu, the "
            "oldest version's; pass sizeof(struct sluice_cm_params)",
            size, kOldestCmParams);
    }
    sluice_cm_params params = uroce::connect::default_params();
    std::memcpy(&params, from, std::min(size, sizeof params));
    if (params.private_data == nullptr && params.private_data_len != 0) {
        return Error::format(
            ErrorKind::kInvalidArgument, 0,
            "private_data is null, but private_data_len is %u; pass the data, or a length of 0",
            static_cast<unsigned>(params.private_data_len));
    }
    return params;
}

static_assert(SLUICE_LOG_NONE == static_cast<int>(LogLevel::kNone));
static_assert(SLUICE_LOG_ERROR == static_cast<int>(LogLevel::kError));
static_assert(SLUICE_LOG_WARNING == static_cast<int>(LogLevel::kWarning));
static_assert(SLUICE_LOG_INFO == static_cast<int>(LogLevel::kInfo));
static_assert(SLUICE_LOG_DEBUG == static_cast<int>(LogLevel::kDebug));
static_assert(SLUICE_LOG_TRACE == static_cast<int>(LogLevel::kTrace));

// As put_text(), with a mark where something was cut.
template<std::size_t kSize>
void put_marked(char (&to)[kSize], const std::string& from) {
    constexpr const char* kMark = "...";
    put_text(to, from.size() < kSize ? from : from.substr(0, kSize - 1 - std::strlen(kMark)) + kMark);
}

// As a caller of the first version knows it.
Result<void> keep_to_first_version(std::vector<sluice::config::Listed>& all, const FileTree& tree) {
    std::erase_if(all, [](const sluice::config::Listed& each) { return each.is_unknown; });
    const Result<sluice::config::File> file = sluice::config::load(tree);
    return file ? Result<void>() : file.error().clone();
}

Result<void> setting_into(const FileTree& tree, unsigned index, sluice_setting* to, std::size_t size) {
    Result<std::vector<sluice::config::Listed>> all =
        sluice::config::list(tree, sluice::provider::check_setting);
    if (!all) {
        return std::move(all).error();
    }
    if (size < offsetof(sluice_setting, reserved)) {
        if (Result<void> kept = keep_to_first_version(*all, tree); !kept) {
            return kept;
        }
    }
    if (index >= all->size()) {
        return Error(ErrorKind::kNotFound, "there are no more settings");
    }
    const sluice::config::Listed& listed = (*all)[index];
    sluice_setting setting{};
    put_marked(setting.name, listed.name);
    put_marked(setting.value, listed.value);
    put_text(setting.origin, listed.origin);
    put_text(setting.default_value, listed.default_value);
    put_text(setting.values, listed.values);
    put_text(setting.meaning, listed.meaning);
    put_marked(setting.problem, listed.problem);
    setting.is_unknown = listed.is_unknown ? 1 : 0;
    return copy_versioned(setting, to, size, kOldestSetting);
}

std::uint32_t kind_of(wire::FieldKind kind) noexcept {
    switch (kind) {
    case wire::FieldKind::kText:
        return SLUICE_FIELD_TEXT;
    case wire::FieldKind::kNumber:
        return SLUICE_FIELD_NUMBER;
    case wire::FieldKind::kHex:
        return SLUICE_FIELD_HEX;
    case wire::FieldKind::kFlag:
        return SLUICE_FIELD_FLAG;
    }
    return SLUICE_FIELD_TEXT;
}

Result<void> field_into(const void* datagram, std::size_t datagram_bytes, unsigned index,
                        sluice_packet_field* to, std::size_t size) {
    wire::Field found;
    switch (wire::describe({static_cast<const std::uint8_t*>(datagram), datagram_bytes}, index, found)) {
    case wire::Described::kNoPacket:
        return Error(ErrorKind::kProtocol, "these bytes are no RoCEv2 packet");
    case wire::Described::kEnd:
        return Error(ErrorKind::kNotFound, "the packet has no more fields");
    case wire::Described::kField:
        break;
    }
    sluice_packet_field field{};
    static_assert(sizeof field.value == sizeof found.value);
    field.name = found.name;
    std::copy(found.value.begin(), found.value.end(), field.value);
    field.number = found.number;
    field.kind = kind_of(found.kind);
    field.brief = found.brief ? 1 : 0;
    return copy_versioned(field, to, size, kOldestField);
}

std::vector<sluice_uroce_counter> to_c(const uroce::device::NamedCounters& counters) {
    std::vector<sluice_uroce_counter> made;
    made.reserve(counters.size());
    for (const auto& [name, value] : counters) {
        made.push_back({name.c_str(), value});
    }
    return made;
}

// With the counters of each, which it refers to.
struct QueuePairsInC {
    explicit QueuePairsInC(const std::vector<uroce::device::QueuePairUse>& queue_pairs) {
        counters.reserve(queue_pairs.size());
        all.reserve(queue_pairs.size());
        for (const uroce::device::QueuePairUse& one : queue_pairs) {
            counters.push_back(to_c(one.counters));
            all.push_back({.qpn = one.qpn,
                           .peer_qpn = one.peer_qpn,
                           .type = one.type.c_str(),
                           .state = one.state.c_str(),
                           .local = one.local.c_str(),
                           .remote = one.remote.c_str(),
                           .count = counters.back().size(),
                           .counters = counters.back().data()});
        }
    }
    std::vector<std::vector<sluice_uroce_counter>> counters;
    std::vector<sluice_uroce_queue_pair> all;
};

void report_use(const uroce::device::ProcessUse& process, const uroce::device::DeviceUse& device,
                void (*found)(void* context, const sluice_uroce_use* use), void* context) {
    const std::vector<sluice_uroce_counter> counters = to_c(device.counters);
    const QueuePairsInC queue_pairs(device.queue_pairs);
    const sluice_uroce_use use{.device = device.device.c_str(),
                               .address = device.address.c_str(),
                               .command = process.command.c_str(),
                               .pid = process.pid,
                               .is_running = process.is_running ? 1 : 0,
                               .count = static_cast<std::uint32_t>(counters.size()),
                               .opened_ns = process.opened_ns,
                               .counters = counters.data(),
                               .queue_pair_count = queue_pairs.all.size(),
                               .queue_pairs = queue_pairs.all.data()};
    found(context, &use);
}

} // namespace

extern "C" {

const char* sluice_version(void) {
    return sluice::kVersion;
}

void sluice_set_log_sink(sluice_log_sink sink, void* context) {
    sluice::set_log_sink(sink, context);
}

int sluice_set_log_levels(const char* levels) {
    if (levels == nullptr) {
        return EINVAL;
    }
    return Errno::answer([levels] { return sluice::set_log_levels(levels); });
}

int sluice_query_context(ibv_context* context, sluice_device_attributes* to, size_t size) {
    if (context == nullptr || to == nullptr) {
        return EINVAL;
    }
    const auto ask = [](void* open, attributes::Trials trials) {
        ibv_context& asked = *static_cast<ibv_context*>(open);
        attributes::LiveFacts facts = attributes::ask_context(asked, trials);
        if (uroce::verbs::is_ours(&asked)) {
            add_facts_of_uroce(attributes::kernel_name(asked), facts);
        }
        return std::optional(std::move(facts));
    };
    return Query::answer(
        [&] { return query_into(FileTree(), attributes::kernel_name(*context), ask, context, to, size); });
}

int sluice_query_device(ibv_device* device, sluice_device_attributes* to, size_t size) {
    if (device == nullptr || to == nullptr) {
        return EINVAL;
    }
    // One of ours is in a list when a preloaded library put it there: libibverbs can't open it.
    const auto ask = [](void* closed, attributes::Trials trials) {
        ibv_device& asked = *static_cast<ibv_device*>(closed);
        const std::string name = attributes::kernel_name(asked);
        return uroce::device::is_device_name(name) ? facts_of_uroce(name)
                                                   : attributes::ask_device(asked, trials);
    };
    return Query::answer(
        [&] { return query_into(FileTree(), attributes::kernel_name(*device), ask, device, to, size); });
}

int sluice_query_name(const char* root, const char* name, sluice_device_attributes* to, size_t size) {
    if (name == nullptr || to == nullptr) {
        return EINVAL;
    }
    // A device of ours is the same whether it is open or not, and may be open somewhere else.
    const auto ask = [](void* its_name, attributes::Trials trials) {
        const char* const text = static_cast<const char*>(its_name);
        return uroce::device::is_device_name(text) ? facts_of_uroce(text)
                                                   : attributes::ask_by_name(text, trials);
    };
    return Query::answer([&] {
        std::string copy = name;
        const FileTree tree(root == nullptr ? "" : root);
        return query_into(tree, copy, tree.is_live() ? +ask : nullptr, copy.data(), to, size);
    });
}

int sluice_list_devices(const char* root, void (*found)(void* context, const char* name), void* context) {
    if (found == nullptr) {
        return EINVAL;
    }
    return Query::answer([&]() -> Result<void> {
        Result<std::vector<std::string>> names =
            attributes::device_names(FileTree(root == nullptr ? "" : root));
        if (!names) {
            return std::move(names).error();
        }
        for (const std::string& name : *names) {
            found(context, name.c_str());
        }
        return {};
    });
}

int sluice_describe_attribute(const sluice_device_attributes* from, size_t from_size, unsigned index,
                              sluice_attribute_description* to, size_t size) {
    if (from == nullptr || to == nullptr) {
        return EINVAL;
    }
    return Errno::answer([&] { return describe_into(*from, from_size, index, to, size); });
}

const char* sluice_coherence_name(uint64_t coherence) {
    return attributes::coherence_name(coherence);
}

const char* sluice_source_name(uint32_t source) {
    return attributes::source_name(source);
}

const char* sluice_confidence_name(uint32_t confidence) {
    return attributes::confidence_name(confidence);
}

int sluice_describe_setting(const char* root, unsigned index, sluice_setting* to, size_t size) {
    if (to == nullptr) {
        return EINVAL;
    }
    return Listing::answer(
        [&] { return setting_into(FileTree(root == nullptr ? "" : root), index, to, size); });
}

ibv_context* sluice_open_uroce(const char* name_or_address) {
    return OrNull<ibv_context>::answer([&] { return uroce::verbs::open_context(name_or_address); });
}

int sluice_describe_uroce(unsigned index, sluice_uroce_device* to, size_t size) {
    if (to == nullptr) {
        return EINVAL;
    }
    return Listing::answer([&]() -> Result<void> {
        Result<sluice_uroce_device> found = uroce::verbs::describe_device(index);
        return found ? copy_versioned(*found, to, size, kOldestUroceDevice) : std::move(found).error();
    });
}

int sluice_use_uroce_address(ibv_context* context, const sockaddr* address) {
    if (context == nullptr || address == nullptr) {
        return EINVAL;
    }
    return Cm::answer([&] { return uroce::connect::use_address(context, *address); });
}

int sluice_list_uroce_counters(void (*found)(void* context, const sluice_uroce_use* use), void* context) {
    if (found == nullptr) {
        return EINVAL;
    }
    return Query::answer([&]() -> Result<void> {
        auto processes = uroce::device::Registry::instance().counted();
        if (!processes) {
            return std::move(processes).error();
        }
        for (const uroce::device::ProcessUse& process : *processes) {
            for (const uroce::device::DeviceUse& device : process.devices) {
                report_use(process, device, found, context);
            }
        }
        return {};
    });
}

sluice_sync_counters* sluice_acquire_sync_counters(const char* device, const char* address, size_t size) {
    using Counts = sluice::SyncCounts;
    static_assert(sizeof(Counts) == sizeof(sluice_sync_counters));
    constexpr std::size_t kNameRoom = sizeof(uroce::device::RoomName::device);
    if (device == nullptr || address == nullptr || std::strlen(device) >= kNameRoom ||
        std::strlen(address) >= kNameRoom || size == 0 || size > sizeof(Counts)) {
        errno = EINVAL;
        return nullptr;
    }
    return OrNull<sluice_sync_counters>::answer([&]() -> Result<sluice_sync_counters*> {
        Counts& counts = uroce::device::Registry::instance().acquire_sync_counts(device, address);
        return reinterpret_cast<sluice_sync_counters*>(&counts);
    });
}

void sluice_release_sync_counters(sluice_sync_counters* counters) {
    if (counters != nullptr) {
        uroce::device::Registry::instance().release(*reinterpret_cast<sluice::SyncCounts*>(counters));
    }
}

ibv_comp_channel* sluice_create_comp_channel(ibv_context* context) {
    if (context == nullptr) {
        errno = EINVAL;
        return nullptr;
    }
    return OrNull<ibv_comp_channel>::answer([&] { return uroce::verbs::create_comp_channel(context); });
}

int sluice_describe_packet(const void* datagram, size_t datagram_bytes, unsigned index,
                           sluice_packet_field* to, size_t size) {
    if (datagram == nullptr || to == nullptr) {
        return EINVAL;
    }
    return Errno::answer([&] { return field_into(datagram, datagram_bytes, index, to, size); });
}

int sluice_cm_create_channel(ibv_context* context, sluice_cm_channel** channel) {
    if (context == nullptr || channel == nullptr) {
        return EINVAL;
    }
    return Cm::answer([&]() -> Result<void> {
        Result<uroce::connect::Service*> service = uroce::connect::connections_of(context);
        if (!service) {
            return std::move(service).error();
        }
        Result<uroce::connect::Channel*> made = (*service)->create_channel();
        if (!made) {
            return std::move(made).error();
        }
        *channel = reinterpret_cast<sluice_cm_channel*>(*made);
        return {};
    });
}

int sluice_cm_destroy_channel(sluice_cm_channel* channel) {
    return with_channel(channel, [](uroce::connect::Service& service, uroce::connect::Channel& ours) {
        return service.destroy_channel(ours);
    });
}

int sluice_cm_channel_fd(const sluice_cm_channel* channel) {
    return channel == nullptr ? -1 : reinterpret_cast<const uroce::connect::Channel*>(channel)->fd;
}

int sluice_cm_get_event(sluice_cm_channel* channel, int timeout_ms, sluice_cm_event** event) {
    if (channel == nullptr || event == nullptr) {
        return EINVAL;
    }
    uroce::connect::Channel& ours = to_channel(channel);
    if (ours.service.gone()) {
        return EIO;
    }
    sluice_cm_event* next = nullptr;
    const int error = ours.service.get_event(ours, timeout_ms, next);
    if (error == 0) {
        *event = next;
    }
    return error;
}

void sluice_cm_ack_event(sluice_cm_event* event) {
    if (event != nullptr) {
        uroce::connect::Service::acknowledge(*event);
    }
}

int sluice_cm_create_id(sluice_cm_channel* channel, int port_space, void* context, sluice_cm_id** id) {
    if (id == nullptr) {
        return EINVAL;
    }
    return with_channel(channel,
                        [&](uroce::connect::Service& service, uroce::connect::Channel& ours) -> Result<void> {
                            Result<uroce::connect::Id*> made = service.create_id(ours, port_space, context);
                            if (!made) {
                                return std::move(made).error();
                            }
                            *id = reinterpret_cast<sluice_cm_id*>(*made);
                            return {};
                        });
}

int sluice_cm_destroy_id(sluice_cm_id* id) {
    return with_id(id, [](uroce::connect::Service& service, uroce::connect::Id& ours) {
        service.destroy_id(ours);
        return Result<void>();
    });
}

int sluice_cm_migrate_id(sluice_cm_id* id, sluice_cm_channel* channel) {
    if (channel == nullptr) {
        return EINVAL;
    }
    return with_id(id, [&](uroce::connect::Service& service, uroce::connect::Id& ours) {
        return service.migrate(ours, to_channel(channel));
    });
}

int sluice_cm_set_context(sluice_cm_id* id, void* context) {
    return with_id(id, [&](uroce::connect::Service& service, uroce::connect::Id& ours) {
        service.set_context(ours, context);
        return Result<void>();
    });
}

int sluice_cm_listen(sluice_cm_id* id, const sockaddr* address, int backlog) {
    if (address == nullptr) {
        return EINVAL;
    }
    return with_id(id, [&](uroce::connect::Service& service, uroce::connect::Id& ours) {
        return service.listen(ours, *address, backlog);
    });
}

uint16_t sluice_cm_local_port(sluice_cm_id* id) {
    uint16_t port = 0;
    (void)with_id(id, [&](uroce::connect::Service& service, uroce::connect::Id& ours) {
        port = service.local_port(ours);
        return Result<void>();
    });
    return port;
}

void sluice_cm_default_params(sluice_cm_params* params, size_t size) {
    if (params != nullptr) {
        const sluice_cm_params defaults = uroce::connect::default_params();
        std::memcpy(params, &defaults, std::min(size, sizeof defaults));
    }
}

int sluice_cm_connect(sluice_cm_id* id, const sockaddr* peer, const sluice_cm_params* params, size_t size) {
    if (peer == nullptr) {
        return EINVAL;
    }
    return with_id(id, [&](uroce::connect::Service& service, uroce::connect::Id& ours) -> Result<void> {
        Result<sluice_cm_params> read = read_params(params, size);
        return read ? service.connect(ours, *peer, *read) : std::move(read).error();
    });
}

int sluice_cm_accept(sluice_cm_id* id, const sluice_cm_params* params, size_t size) {
    return with_id(id, [&](uroce::connect::Service& service, uroce::connect::Id& ours) -> Result<void> {
        Result<sluice_cm_params> read = read_params(params, size);
        return read ? service.accept(ours, *read) : std::move(read).error();
    });
}

int sluice_cm_reject(sluice_cm_id* id, int reason, const void* private_data, size_t len) {
    if ((private_data == nullptr && len != 0) || reason < 0 || reason > UINT16_MAX) {
        return EINVAL;
    }
    return with_id(id, [&](uroce::connect::Service& service, uroce::connect::Id& ours) {
        const auto why = static_cast<uint16_t>(reason == 0 ? int{SLUICE_CM_STATUS_CONSUMER} : reason);
        return service.reject(ours, why, {static_cast<const uint8_t*>(private_data), len});
    });
}

int sluice_cm_disconnect(sluice_cm_id* id) {
    return with_id(id, [](uroce::connect::Service& service, uroce::connect::Id& ours) {
        return service.disconnect(ours);
    });
}

int sluice_cm_establish(sluice_cm_id* id) {
    return with_id(id, [](uroce::connect::Service& service, uroce::connect::Id& ours) {
        return service.establish(ours);
    });
}

int sluice_cm_notify(sluice_cm_id* id) {
    return with_id(
        id, [](uroce::connect::Service& service, uroce::connect::Id& ours) { return service.notify(ours); });
}

int sluice_cm_qp_attr(sluice_cm_id* id, ibv_qp_attr* attr, int* attr_mask) {
    if (attr == nullptr || attr_mask == nullptr) {
        return EINVAL;
    }
    return with_id(id, [&](uroce::connect::Service& service, uroce::connect::Id& ours) {
        return service.qp_attributes(ours, *attr, *attr_mask);
    });
}

int sluice_wr_flush(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, size_t length, uint8_t type,
                    uint8_t level) {
    if (qp == nullptr) {
        return EINVAL;
    }
    return sluice::provider::wr_flush(
        qp, {.rkey = rkey, .remote_addr = remote_addr, .len_bytes = length, .type = type, .level = level});
}

} // extern "C"
