// SPDX-License-Identifier: BSD-3-Clause
//
// How libdat finds us: the two functions of every provider, and what our own libdat asks beyond that.
#include <pthread.h>

#include <list>

#include "core/sync.hpp"
#include "udapl/provider/dat1_names.hpp"
#include "udapl/provider/dat_functions.hpp"
#include "udapl/provider/device.hpp"
#include "udapl/registry/provider_v1.h"

namespace sluice::dapl {

namespace {

// One table for each name, because its name is in it. Never given back: handles begin with tables.
struct Named {
    std::string name;
    std::string device;
    DAT_PROVIDER table;
};

class Names {
  public:
    // The table for IA_NAME, which from now on means DEVICE.
    const DAT_PROVIDER& set(const char* ia_name, const char* device) {
        const LockGuard guard(mutex_);
        for (Named& each : names_) {
            if (each.name == ia_name) {
                each.device = device;
                return each.table;
            }
        }
        Named& added = names_.emplace_back(Named{ia_name, device, functions()});
        added.table.device_name = added.name.c_str();
        return added.table;
    }
    const Named* find(const char* ia_name) {
        const LockGuard guard(mutex_);
        for (const Named& each : names_) {
            if (each.name == ia_name) {
                return &each;
            }
        }
        return nullptr;
    }
    std::string device_of(const char* ia_name) {
        const LockGuard guard(mutex_);
        for (const Named& each : names_) {
            if (each.name == ia_name) {
                return each.device;
            }
        }
        return ia_name;
    }

    // For pthread_atfork(): a child knows what its parent knows.
    void lock() noexcept SLUICE_TSA(no_thread_safety_analysis) { mutex_.lock(); }
    void unlock() noexcept SLUICE_TSA(no_thread_safety_analysis) { mutex_.unlock(); }

  private:
    Mutex mutex_;
    std::list<Named> names_ SLUICE_TSA(guarded_by(mutex_));
};

// Never destroyed: the last IA may be closed by a destructor.
Names& names() {
    static Names& instance = *new Names();
    return instance;
}

[[gnu::constructor]] void keep_names_whole_in_children() noexcept {
    (void)names(); // made while there is one thread
    pthread_atfork([] { names().lock(); }, [] { names().unlock(); }, [] { names().unlock(); });
}

int list_devices(void (*found)(void* context, const char* name), void* context) {
    const Result<void> done = at_boundary("list_devices", [&]() -> Result<void> {
        const Result<std::vector<glue::Device>> devices = glue::list_devices();
        if (!devices) {
            return devices.error().clone();
        }
        for (const glue::Device& device : *devices) {
            found(context, device.name.c_str());
        }
        return {};
    });
    return done ? 0 : done.error().to_errno();
}

int knows(const char* name) {
    const Result<void> done = at_boundary("knows", [&]() -> Result<void> {
        const Result<glue::Device> device = glue::resolve_device(name);
        // To open one that can't be had at this moment fails for the same reason, and says so.
        return !device && is_absence(device.error()) ? device.error().clone() : Result<void>();
    });
    return done ? 1 : 0;
}

} // namespace

std::string device_of(const char* ia_name) {
    return names().device_of(ia_name);
}

} // namespace sluice::dapl

extern "C" {

[[gnu::visibility("default")]] const dapl_sluice_v1* dapl_sluice_query_v1(void);

const dapl_sluice_v1* dapl_sluice_query_v1(void) {
    using namespace sluice::dapl;
    static const sluice::Result<sluice::HandleRange> range = handles().reserve();
    static const dapl_sluice_v1 answer{sizeof answer,
                                       range ? range->begin : nullptr,
                                       range ? range->size_bytes : 0,
                                       &functions(),
                                       list_devices,
                                       knows};
    return range ? &answer : nullptr;
}

// Instance data that is empty leaves the name for a device's; dat.conf(5) writes emptiness as blanks, too.
void dat_provider_init(const DAT_PROVIDER_INFO* info, const char* instance_data) {
    using namespace sluice::dapl;
    quietly("dat_provider_init", [&] {
        const std::string data = instance_data != nullptr ? instance_data : "";
        const bool is_blank = data.find_first_not_of(" \t") == std::string::npos;
        const DAT_PROVIDER& table = names().set(info->ia_name, is_blank ? info->ia_name : data.c_str());
        if (const DAT_RETURN status = dat_registry_add_provider(&table, info); status != DAT_SUCCESS) {
            SLUICE_LOG(kInfo, "dat", "%s: libdat refuses its registration (0x%x)", info->ia_name, status);
        }
    });
}

void dat_provider_fini(const DAT_PROVIDER_INFO* info) {
    using namespace sluice::dapl;
    quietly("dat_provider_fini", [&] {
        const Named* const named = names().find(info->ia_name);
        if (named != nullptr) {
            dat_registry_remove_provider(&named->table, info);
        }
    });
}

} // extern "C"
