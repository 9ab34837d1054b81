// SPDX-License-Identifier: BSD-3-Clause
//
// How libdat2 finds us. It calls dat_provider_init() for each line of dat.conf that a program opens. It knows
// a line by its name, version and thread safety, and finds it again at the close through the table that the
// adapter's handle begins with: so each line has a table.
#include <pthread.h>

#include <algorithm>
#include <list>
#include <string_view>

#include "core/sync.hpp"
#include "udapl/provider/dat2_names.hpp"
#include "udapl/provider/dat_calls.hpp"

namespace sluice::dapl {

namespace {

template<DAT_BOOLEAN kIsThreadSafe>
DAT_RETURN ia_open(DAT_NAME_PTR name, DAT_COUNT async_length, DAT_EVD_HANDLE* async_evd,
                   DAT_IA_HANDLE* ia_handle);

class Names {
  public:
    // The line that INFO is about, which from now on means DEVICE.
    const Dat2Name& set(const DAT_PROVIDER_INFO& info, const std::string& device) {
        const LockGuard guard(mutex_);
        if (Dat2Name* const known = find_locked(info.ia_name, info.is_thread_safe)) {
            known->device = device;
            return *known;
        }
        Dat2Name& added =
            names_.emplace_back(Dat2Name{info.ia_name, device, info.is_thread_safe, functions()});
        added.table.device_name = added.name.c_str();
        added.table.extension = &added;
        added.table.ia_open_func = info.is_thread_safe == DAT_TRUE ? ia_open<DAT_TRUE> : ia_open<DAT_FALSE>;
        return added;
    }
    // Null where there is none. Its DEVICE, as it is now.
    const Dat2Name* find(const char* name, DAT_BOOLEAN is_thread_safe, std::string& device) {
        const LockGuard guard(mutex_);
        const Dat2Name* const found = find_locked(name, is_thread_safe);
        device = found != nullptr ? found->device : std::string();
        return found;
    }

    // For pthread_atfork(): a child knows what its parent knows.
    void lock() noexcept SLUICE_TSA(no_thread_safety_analysis) { mutex_.lock(); }
    void unlock() noexcept SLUICE_TSA(no_thread_safety_analysis) { mutex_.unlock(); }

  private:
    Dat2Name* find_locked(const char* name, DAT_BOOLEAN is_thread_safe)
        SLUICE_TSA(requires_capability(mutex_)) {
        for (Dat2Name& each : names_) {
            if (each.name == name && each.is_thread_safe == is_thread_safe) {
                return &each;
            }
        }
        return nullptr;
    }

    Mutex mutex_;
    std::list<Dat2Name> names_ SLUICE_TSA(guarded_by(mutex_));
};

// Never destroyed: the last adapter may be closed by a destructor.
Names& names() {
    static Names& instance = *new Names();
    return instance;
}

[[gnu::constructor]] void keep_names_whole_in_children() noexcept {
    (void)names(); // made while there is one thread
    pthread_atfork([] { names().lock(); }, [] { names().unlock(); }, [] { names().unlock(); });
}

template<DAT_BOOLEAN kIsThreadSafe>
DAT_RETURN ia_open(DAT_NAME_PTR name, DAT_COUNT async_length, DAT_EVD_HANDLE* async_evd,
                   DAT_IA_HANDLE* ia_handle) {
    if (async_evd == nullptr) {
        return wrong_argument(3);
    }
    return Dat::answer([&] {
        std::string device;
        const Dat2Name* const found = names().find(name, kIsThreadSafe, device);
        return found != nullptr ? open_ia({name, device, {.announces_last_receives = true}, found->table},
                                          async_length, async_evd, ia_handle)
                                : failure(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    });
}

// The first word of DATA, behind which OpenFabrics' lines have a port; the adapter's own name where DATA is
// blank.
std::string device_in(const char* data, const char* ia_name) {
    const std::string_view text = data != nullptr ? data : "";
    constexpr std::string_view kBlanks = " \t";
    const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
    const std::string_view word = text.substr(begin, text.find_first_of(kBlanks, begin) - begin);
    return std::string(word.empty() ? std::string_view(ia_name) : word);
}

} // namespace

} // namespace sluice::dapl

extern "C" {

void dat_provider_init(const DAT_PROVIDER_INFO* info, const char* instance_data) {
    using namespace sluice::dapl;
    quietly("dat_provider_init", [&] {
        const Dat2Name& name = names().set(*info, device_in(instance_data, info->ia_name));
        if (const DAT_RETURN status = dat_registry_add_provider(&name.table, info); status != DAT_SUCCESS) {
            SLUICE_LOG(kInfo, "dat", "%s: libdat2 refuses its registration (0x%x)", info->ia_name, status);
        }
    });
}

void dat_provider_fini(const DAT_PROVIDER_INFO* info) {
    using namespace sluice::dapl;
    quietly("dat_provider_fini", [&] {
        std::string device;
        if (const Dat2Name* const name = names().find(info->ia_name, info->is_thread_safe, device)) {
            dat_registry_remove_provider(&name->table, info);
        }
    });
}

} // extern "C"
