// SPDX-License-Identifier: BSD-3-Clause
//
// Which provider has which IA, and which IAs are open.
//
// A Source is where a provider comes from: an entry of a dat.conf, or a device where nobody has
// named a provider. A Registered is a provider that has said dat_registry_add_provider(): loaded from a
// source, or by the program itself. Opening an IA loads its source, if need be, and holds it; the last
// close lets it go: dat_provider_fini(), then the library is unloaded.
//
// A request matches an offer of the same name and major version, at least its minor version, and
// thread safety if it asks for that. The first in order wins; registered ones come first.
//
// Thread safety: everything may be called from any thread at any time, also from within a provider's
// dat_provider_init() and dat_provider_fini(), except opening the very IA that is being loaded. No
// lock is held while a provider's code or the loader runs; a thread that needs a source that is just being
// loaded or unloaded sleeps until that is over. In the child of a fork what other threads were loading or
// unloading isn't loaded.
#pragma once

#include <dat/dat_registry.h>
#include <pthread.h>

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/sync.hpp"
#include "udapl/registry/conf_files.hpp"
#include "udapl/registry/library.hpp"
#include "udapl/registry/redirection.hpp"

namespace sluice::dat {

// What a program asks for, or a provider offers.
struct Offer {
    std::string ia_name;
    std::uint32_t major = 0;
    std::uint32_t minor = 0;
    bool is_thread_safe = false;

    static Offer of(const DAT_PROVIDER_INFO& info);
    DAT_PROVIDER_INFO info() const;
    bool operator==(const Offer&) const = default;
};

class Registry {
  public:
    // Reads nothing yet. TREE and OVERRIDE as for read_static_registry(). REDIRECTION outlives the
    // registry.
    Registry(Redirection& redirection, FileTree tree, const char* override_path)
        : redirection_(redirection), tree_(std::move(tree)),
          override_path_(override_path == nullptr ? std::nullopt
                                                  : std::optional<std::string>(override_path)) {}
    Registry(const Registry&) = delete;
    Registry& operator=(const Registry&) = delete;

    DAT_RETURN open(const Offer& wanted, bool ro_aware, DAT_COUNT async_evd_min_qlen,
                    DAT_EVD_HANDLE* async_evd, DAT_IA_HANDLE* ia);
    DAT_RETURN close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags);
    DAT_RETURN add(const DAT_PROVIDER* provider, const Offer& offer);
    DAT_RETURN remove(const DAT_PROVIDER* provider, const Offer& offer);
    // What can be opened: the static registry or the devices in their order, then what programs
    // added.
    std::vector<Offer> list();

    // For pthread_atfork().
    void lock_for_fork() SLUICE_TSA(no_thread_safety_analysis);
    void unlock_in_parent() SLUICE_TSA(no_thread_safety_analysis);
    void unlock_in_child() SLUICE_TSA(no_thread_safety_analysis);

  private:
    enum class SourceState { kUnloaded, kBusy, kLoaded };
    struct Source {
        Offer offer;
        std::string library; // empty: our own provider, for a device
        std::string instance_data;
        std::string origin; // for messages
        SourceState state = SourceState::kUnloaded;
        pthread_t busy_by{}; // the thread that loads or unloads it, while it is kBusy
        std::optional<Library> loaded{};
        unsigned users = 0;    // open IAs
        bool is_short = false; // loading it has failed, for want of memory

        bool is_device() const noexcept { return library.empty(); }
    };
    struct Registered {
        Offer offer;
        const DAT_PROVIDER* table;
        Source* source;  // null: the program's own doing
        bool is_foreign; // its handles are found by what they point to
        unsigned users = 0;
    };
    struct OpenIa {
        DAT_IA_HANDLE handle;
        Registered* provider;
    };
    // The source that the calling thread is loading: an add() belongs to it.
    struct Loading {
        Source* source;
        bool is_own;
    };

    bool is_own(const DAT_PROVIDER& provider);
    DAT_RETURN acquire(const Offer& wanted, Registered*& provider);
    void release(Registered& provider);
    void find_device(const Offer& wanted);

    bool is_busy_locked(const Offer& offer) SLUICE_TSA(requires_capability(mutex_));
    bool has_source_locked(const Offer& wanted) SLUICE_TSA(requires_capability(mutex_));
    void read_static_registry_locked() SLUICE_TSA(requires_capability(mutex_));
    Registered* acquire_locked(const Offer& wanted, bool exactly) SLUICE_TSA(requires_capability(mutex_));
    Registered* find_registered_locked(const Offer& wanted, bool exactly)
        SLUICE_TSA(requires_capability(mutex_));
    Source* next_source_locked(const Offer& wanted, bool exactly, std::size_t& position)
        SLUICE_TSA(requires_capability(mutex_));
    bool is_short_locked(const Offer& wanted) SLUICE_TSA(requires_capability(mutex_));
    DAT_RETURN_SUBTYPE what_is_missing_locked(const Offer& wanted) SLUICE_TSA(requires_capability(mutex_));
    bool offers_anything_locked(const Source& source) SLUICE_TSA(requires_capability(mutex_));
    bool offers_exactly_locked(const Source& source) SLUICE_TSA(requires_capability(mutex_));
    void erase_locked(const Registered& provider) noexcept SLUICE_TSA(requires_capability(mutex_));

    void begin_locked(Source& source) SLUICE_TSA(requires_capability(mutex_));
    void erase_all_of_locked(const Source& source) SLUICE_TSA(requires_capability(mutex_));

    // These let the lock go while a provider's code or the loader runs.
    void load_locked(Source& source) SLUICE_TSA(requires_capability(mutex_));
    void finish_locked(Source& source) SLUICE_TSA(requires_capability(mutex_));

    static thread_local const Loading* loading;

    Redirection& redirection_;
    const FileTree tree_;
    const std::optional<std::string> override_path_;

    Mutex mutex_;
    ConditionVariable idle_; // some source is no longer busy
    bool is_read_ SLUICE_TSA(guarded_by(mutex_)) = false;
    bool devices_count_ SLUICE_TSA(guarded_by(mutex_)) = false;
    // Sources stay, the others come and go; all keep their address.
    std::vector<std::unique_ptr<Source>> sources_ SLUICE_TSA(guarded_by(mutex_));
    std::vector<std::unique_ptr<Registered>> registered_ SLUICE_TSA(guarded_by(mutex_));
    std::list<OpenIa> open_ SLUICE_TSA(guarded_by(mutex_));
};

} // namespace sluice::dat
