// SPDX-License-Identifier: BSD-3-Clause
//
// The façade of libsluice: every function of <sluice/sluice.h>, in header order. Each checks its
// arguments, makes one call and converts the result, and does nothing else.
#include "sluice/sluice.h"

#include <cerrno>

#include <cstring>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "provider/attributes/description.hpp"
#include "provider/attributes/live_facts.hpp"
#include "provider/attributes/query.hpp"
#include "provider/attributes/sysfs_device.hpp"
#include "provider/config/config.hpp"
#include "sluice/version.hpp"

using sluice::at_boundary;
using sluice::Error;
using sluice::ErrorKind;
using sluice::LogLevel;
using sluice::Result;
namespace attributes = sluice::attributes;

namespace {

int to_errno(const Result<void>& result) noexcept {
    return result ? 0 : result.error().to_errno();
}

// For calls whose errno alone leaves a person guessing.
int to_errno_with_log(const char* function, const Result<void>& result) noexcept {
    if (!result) {
        SLUICE_LOG(kError, "attributes", "%s: %s", function, result.error().text());
    }
    return to_errno(result);
}

// What the first version of each struct ended with.
constexpr std::size_t kOldestAttributes =
    offsetof(sluice_device_attributes, dma_bounce) + sizeof(sluice_attribute);
constexpr std::size_t kOldestSetting = sizeof(sluice_setting);
constexpr std::size_t kOldestDescription = sizeof(sluice_attribute_description);

Result<void> query_into(const attributes::FileTree& tree, const std::string& name, attributes::Asker ask,
                        void* context, sluice_device_attributes* to, std::size_t size) {
    Result<sluice_device_attributes> found = attributes::query(tree, name, ask, context);
    return found ? attributes::copy_versioned(*found, to, size, kOldestAttributes) : std::move(found).error();
}

Result<void> describe_into(const sluice_device_attributes& from, std::size_t from_size, unsigned index,
                           sluice_attribute_description* to, std::size_t size) {
    sluice_device_attributes known{};
    std::memcpy(&known, &from, from_size < sizeof known ? from_size : sizeof known);
    Result<sluice_attribute_description> found = attributes::describe(known, from_size, index);
    return found ? attributes::copy_versioned(*found, to, size, kOldestDescription)
                 : std::move(found).error();
}

static_assert(SLUICE_LOG_NONE == static_cast<int>(LogLevel::kNone));
static_assert(SLUICE_LOG_ERROR == static_cast<int>(LogLevel::kError));
static_assert(SLUICE_LOG_WARNING == static_cast<int>(LogLevel::kWarning));
static_assert(SLUICE_LOG_INFO == static_cast<int>(LogLevel::kInfo));
static_assert(SLUICE_LOG_DEBUG == static_cast<int>(LogLevel::kDebug));
static_assert(SLUICE_LOG_TRACE == static_cast<int>(LogLevel::kTrace));

template<std::size_t kSize>
void put_text(char (&to)[kSize], const std::string& from) {
    to[from.copy(to, kSize - 1)] = '\0';
}

Result<void> setting_into(const attributes::FileTree& tree, unsigned index, sluice_setting* to,
                          std::size_t size) {
    Result<std::vector<sluice::config::Listed>> all = sluice::config::list(tree);
    if (!all) {
        return std::move(all).error();
    }
    if (index >= all->size()) {
        return Error(ErrorKind::kNotFound, "there are no more settings");
    }
    const sluice::config::Listed& listed = (*all)[index];
    sluice_setting setting{};
    put_text(setting.name, listed.name);
    put_text(setting.value, listed.value);
    put_text(setting.origin, listed.origin);
    put_text(setting.default_value, listed.default_value);
    put_text(setting.values, listed.values);
    put_text(setting.meaning, listed.meaning);
    return attributes::copy_versioned(setting, to, size, kOldestSetting);
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
    return to_errno(
        at_boundary("sluice_set_log_levels", [levels] { return sluice::set_log_levels(levels); }));
}

int sluice_query_context(ibv_context* context, sluice_device_attributes* to, size_t size) {
    if (context == nullptr || to == nullptr) {
        return EINVAL;
    }
    const auto ask = [](void* open, bool try_registration) {
        return std::optional(attributes::ask_context(*static_cast<ibv_context*>(open), try_registration));
    };
    return to_errno_with_log("sluice_query_context", at_boundary("sluice_query_context", [&] {
                                 return query_into(attributes::FileTree(), attributes::kernel_name(*context),
                                                   ask, context, to, size);
                             }));
}

int sluice_query_device(ibv_device* device, sluice_device_attributes* to, size_t size) {
    if (device == nullptr || to == nullptr) {
        return EINVAL;
    }
    const auto ask = [](void* closed, bool try_registration) {
        return attributes::ask_device(*static_cast<ibv_device*>(closed), try_registration);
    };
    return to_errno_with_log("sluice_query_device", at_boundary("sluice_query_device", [&] {
                                 return query_into(attributes::FileTree(), attributes::kernel_name(*device),
                                                   ask, device, to, size);
                             }));
}

int sluice_query_name(const char* root, const char* name, sluice_device_attributes* to, size_t size) {
    if (name == nullptr || to == nullptr) {
        return EINVAL;
    }
    const auto ask = [](void* its_name, bool try_registration) {
        return attributes::ask_by_name(static_cast<const char*>(its_name), try_registration);
    };
    return to_errno_with_log("sluice_query_name", at_boundary("sluice_query_name", [&] {
                                 std::string copy = name;
                                 const attributes::FileTree tree(root == nullptr ? "" : root);
                                 return query_into(tree, copy, tree.is_live() ? +ask : nullptr, copy.data(),
                                                   to, size);
                             }));
}

int sluice_list_devices(const char* root, void (*found)(void* context, const char* name), void* context) {
    if (found == nullptr) {
        return EINVAL;
    }
    return to_errno_with_log("sluice_list_devices", at_boundary("sluice_list_devices", [&]() -> Result<void> {
                                 Result<std::vector<std::string>> names = attributes::device_names(
                                     attributes::FileTree(root == nullptr ? "" : root));
                                 if (!names) {
                                     return std::move(names).error();
                                 }
                                 for (const std::string& name : *names) {
                                     found(context, name.c_str());
                                 }
                                 return {};
                             }));
}

int sluice_describe_attribute(const sluice_device_attributes* from, size_t from_size, unsigned index,
                              sluice_attribute_description* to, size_t size) {
    if (from == nullptr || to == nullptr) {
        return EINVAL;
    }
    return to_errno(at_boundary("sluice_describe_attribute",
                                [&] { return describe_into(*from, from_size, index, to, size); }));
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
    const Result<void> result = at_boundary("sluice_describe_setting", [&] {
        return setting_into(attributes::FileTree(root == nullptr ? "" : root), index, to, size);
    });
    // The end of the list is nothing to complain about.
    return !result && result.error().kind() == ErrorKind::kNotFound
               ? ENOENT
               : to_errno_with_log("sluice_describe_setting", result);
}

} // extern "C"
