// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/registry/registry.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "udapl/registry/codes.hpp"
#include "udapl/registry/names.hpp"

namespace sluice::dat {

namespace {

static_assert(kMaxIaName == DAT_NAME_MAX_LENGTH - 1);

// What our own provider offers for a device.
Offer device_offer(const std::string& name) {
    return {name, DAT_VERSION_MAJOR, DAT_VERSION_MINOR, true};
}

// How far an offer is what somebody wants: as far as the first thing that is missing.
enum class Fit { kNothing, kName, kMajor, kMinor, kAll, kExactly };

Fit fit(const Offer& offer, const Offer& wanted) noexcept {
    if (offer.ia_name != wanted.ia_name) {
        return Fit::kNothing;
    }
    if (offer.major != wanted.major) {
        return Fit::kName;
    }
    if (offer.minor < wanted.minor) {
        return Fit::kMajor;
    }
    if (wanted.is_thread_safe && !offer.is_thread_safe) {
        return Fit::kMinor;
    }
    return offer == wanted ? Fit::kExactly : Fit::kAll;
}

// The devices that our own provider sees; none where it isn't installed.
std::vector<std::string> own_devices() {
    const Result<Library> own = Library::load_own();
    std::vector<std::string> names;
    if (!own) {
        SLUICE_LOG(kInfo, "dat", "no devices: %s", own.error().text());
        return names;
    }
    const int status = own->own()->list_devices(
        [](void* to, const char* name) {
            const Result<void> added = at_boundary("list_devices", [&]() -> Result<void> {
                static_cast<std::vector<std::string>*>(to)->emplace_back(name);
                return {};
            });
            if (!added) {
                SLUICE_LOG(kWarning, "dat", "a device is left out: %s", added.error().text());
            }
        },
        &names);
    if (status != 0) {
        SLUICE_LOG(kInfo, "dat", "devices can't be listed: %s", strerrordesc_np(status));
    }
    return names;
}

void log_problem(const StaticEntry& entry) {
    // A file that somebody named or secured wrongly is worth a warning; a line in it, often of
    // another package, is not.
    if (entry.line == 0) {
        SLUICE_LOG(kWarning, "dat", "%s is not used: %s", entry.file.c_str(), entry.problem.c_str());
    } else {
        SLUICE_LOG(kInfo, "dat", "%s:%d does not count: %s", entry.file.c_str(), entry.line,
                   entry.problem.c_str());
    }
}

} // namespace

Offer Offer::of(const DAT_PROVIDER_INFO& info) {
    return {std::string(info.ia_name, strnlen(info.ia_name, sizeof info.ia_name)), info.dapl_version_major,
            info.dapl_version_minor, info.is_thread_safe != DAT_FALSE};
}

DAT_PROVIDER_INFO Offer::info() const {
    DAT_PROVIDER_INFO info{};
    ia_name.copy(info.ia_name, sizeof info.ia_name - 1);
    info.dapl_version_major = major;
    info.dapl_version_minor = minor;
    info.is_thread_safe = is_thread_safe ? DAT_TRUE : DAT_FALSE;
    return info;
}

thread_local const Registry::Loading* Registry::loading = nullptr;

DAT_RETURN Registry::open(const Offer& wanted, bool ro_aware, DAT_COUNT async_evd_min_qlen,
                          DAT_EVD_HANDLE* async_evd, DAT_IA_HANDLE* ia) {
    // Made beforehand, so that nothing can fail once the IA is open.
    std::list<OpenIa> opened(1);
    std::string name = wanted.ia_name;
    Registered* provider = nullptr;
    if (const DAT_RETURN status = acquire(wanted, provider); status != DAT_SUCCESS) {
        return status;
    }
    DAT_IA_HANDLE handle = DAT_HANDLE_NULL;
    DAT_RETURN status = provider->table->ia_open_func(name.data(), async_evd_min_qlen, async_evd, &handle,
                                                      ro_aware ? DAT_TRUE : DAT_FALSE);
    if (!is_failure(status) && handle == DAT_HANDLE_NULL) {
        status = failure(DAT_INTERNAL_ERROR);
    }
    if (is_failure(status)) {
        SLUICE_LOG(kInfo, "dat", "%s can't be opened: its provider says 0x%x", name.c_str(), status);
        release(*provider);
        return status;
    }
    opened.front() = {handle, provider};
    {
        const LockGuard guard(mutex_);
        open_.splice(open_.end(), opened);
    }
    *ia = handle;
    return status;
}

DAT_RETURN Registry::close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags) {
    // Taken out first: of two threads that close, one finds it, and a new IA may get its handle as
    // soon as the provider is done.
    std::list<OpenIa> closing;
    {
        const LockGuard guard(mutex_);
        const auto found =
            std::ranges::find_if(open_, [ia](const OpenIa& open) { return open.handle == ia; });
        if (found == open_.end()) {
            return failure(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
        }
        closing.splice(closing.end(), open_, found);
    }
    Registered& provider = *closing.front().provider;
    const DAT_RETURN status = provider.table->ia_close_func(ia, flags);
    if (is_failure(status)) {
        const LockGuard guard(mutex_);
        open_.splice(open_.end(), closing);
        return status;
    }
    release(provider);
    return status;
}

// Whether our own provider registers, loaded by us or by the program. Its handles are known from then on.
bool Registry::is_own(const DAT_PROVIDER& provider) {
    if (loading != nullptr) {
        return loading->is_own;
    }
    const Result<Library> own = Library::find_own(reinterpret_cast<const void*>(provider.ia_open_func));
    return own && own->own() != nullptr && redirection_.add_range(*own->own()).ok();
}

DAT_RETURN Registry::add(const DAT_PROVIDER* provider, const Offer& offer) {
    const bool is_foreign = !is_own(*provider);
    const LockGuard guard(mutex_);
    if (std::ranges::any_of(registered_, [&](const auto& other) { return other->offer == offer; })) {
        return failure(DAT_PROVIDER_ALREADY_REGISTERED);
    }
    if (loading != nullptr) {
        loading->source->is_short = true; // unless it comes to the end
    }
    registered_.reserve(registered_.size() + 1);
    auto entry = std::make_unique<Registered>(
        Registered{offer, provider, loading == nullptr ? nullptr : loading->source, is_foreign});
    if (is_foreign) {
        if (const Result<void> added = redirection_.add_table(provider); !added) {
            SLUICE_LOG(kWarning, "dat", "%s can't be registered: %s", offer.ia_name.c_str(),
                       added.error().text());
            return failure(DAT_INSUFFICIENT_RESOURCES);
        }
    }
    registered_.push_back(std::move(entry));
    if (loading != nullptr) {
        loading->source->is_short = false;
    }
    return DAT_SUCCESS;
}

DAT_RETURN Registry::remove(const DAT_PROVIDER* provider, const Offer& offer) {
    const LockGuard guard(mutex_);
    const auto found = std::ranges::find_if(
        registered_, [&](const auto& entry) { return entry->offer == offer && entry->table == provider; });
    if (found == registered_.end()) {
        return failure(DAT_INVALID_PARAMETER);
    }
    if ((*found)->users > 0) {
        return failure(DAT_PROVIDER_IN_USE);
    }
    erase_locked(**found);
    return DAT_SUCCESS;
}

void Registry::lock_for_fork() {
    mutex_.lock();
    redirection_.lock_for_fork();
}

void Registry::unlock_in_parent() {
    redirection_.unlock_after_fork();
    mutex_.unlock();
}

// Other threads, which were loading or unloading, aren't there. What they had loaded stays, and may be loaded
// again.
void Registry::unlock_in_child() {
    redirection_.unlock_after_fork();
    for (const auto& source : sources_) {
        if (source->state == SourceState::kBusy && pthread_equal(source->busy_by, pthread_self()) == 0) {
            erase_all_of_locked(*source);
            if (source->loaded) {
                source->loaded->keep();
                source->loaded.reset();
            }
            source->state = SourceState::kUnloaded;
        }
    }
    std::construct_at(&idle_); // its sleepers aren't there either
    mutex_.unlock();
}

std::vector<Offer> Registry::list() {
    std::vector<Offer> offers;
    const auto add = [&offers](const Offer& offer) {
        if (std::ranges::find(offers, offer) == offers.end()) {
            offers.push_back(offer);
        }
    };
    bool devices_count = false;
    {
        const LockGuard guard(mutex_);
        read_static_registry_locked();
        devices_count = devices_count_;
        for (const auto& source : sources_) {
            if (!source->is_device()) {
                add(source->offer);
            }
        }
    }
    if (devices_count) {
        for (const std::string& name : own_devices()) {
            add(device_offer(name));
        }
    }
    const LockGuard guard(mutex_);
    for (const auto& provider : registered_) {
        // One that was opened by another name of its device is on the list by its own.
        if (provider->source == nullptr || !provider->source->is_device()) {
            add(provider->offer);
        }
    }
    return offers;
}

// Holds a provider of what is wanted, loaded.
DAT_RETURN Registry::acquire(const Offer& wanted, Registered*& provider) {
    find_device(wanted);
    const LockGuard guard(mutex_);
    provider = acquire_locked(wanted, true);
    if (provider == nullptr) {
        provider = acquire_locked(wanted, false);
    }
    if (provider == nullptr) {
        if (is_short_locked(wanted)) {
            return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
        }
        const DAT_RETURN_SUBTYPE missing = what_is_missing_locked(wanted);
        SLUICE_LOG(kInfo, "dat", "%s can't be opened: %s", wanted.ia_name.c_str(), subtype_name(missing));
        return failure(DAT_PROVIDER_NOT_FOUND, missing);
    }
    ++provider->users;
    if (provider->source != nullptr) {
        ++provider->source->users;
    }
    return DAT_SUCCESS;
}

void Registry::release(Registered& provider) {
    const LockGuard guard(mutex_);
    Source* source = provider.source;
    --provider.users;
    if (source != nullptr && --source->users == 0) {
        finish_locked(*source);
    }
}

// Where devices count, makes a source for the device of that name, unless there is one.
void Registry::find_device(const Offer& wanted) {
    {
        const LockGuard guard(mutex_);
        read_static_registry_locked();
        if (!devices_count_ || has_source_locked(wanted)) {
            return;
        }
    }
    const Result<Library> own = Library::load_own();
    if (!own || own->own()->knows(wanted.ia_name.c_str()) == 0) {
        SLUICE_LOG(kInfo, "dat", "%s is in no dat.conf, and %s", wanted.ia_name.c_str(),
                   own ? "no device here" : own.error().text());
        return;
    }
    const LockGuard guard(mutex_);
    if (has_source_locked(wanted)) {
        return; // another thread was faster
    }
    sources_.push_back(std::make_unique<Source>(Source{
        .offer = device_offer(wanted.ia_name), .library = "", .instance_data = "", .origin = "device"}));
}

bool Registry::has_source_locked(const Offer& wanted) {
    return std::ranges::any_of(sources_,
                               [&](const auto& source) { return source->offer.ia_name == wanted.ia_name; });
}

void Registry::read_static_registry_locked() {
    if (is_read_) {
        return;
    }
    StaticRegistry registry = read_static_registry(tree_, override_path_ ? override_path_->c_str() : nullptr);
    for (StaticEntry& read : registry.all) {
        if (!read.counts()) {
            log_problem(read);
            continue;
        }
        ConfEntry& entry = read.entry;
        sources_.push_back(std::make_unique<Source>(Source{
            .offer = {std::move(entry.ia_name), entry.api_major, entry.api_minor, entry.is_thread_safe},
            .library = std::move(entry.library),
            .instance_data = std::move(entry.instance_data),
            .origin = read.file + ":" + std::to_string(read.line)}));
    }
    devices_count_ = registry.devices_count;
    is_read_ = true;
}

// A provider that is registered, or is so once a source is loaded; the sources are tried in order.
Registry::Registered* Registry::acquire_locked(const Offer& wanted, bool exactly) {
    std::size_t position = 0;
    while (true) {
        Registered* const found = find_registered_locked(wanted, exactly);
        if (found != nullptr && (found->source == nullptr || !is_busy_locked(found->source->offer))) {
            return found;
        }
        Source* const source =
            found != nullptr ? found->source : next_source_locked(wanted, exactly, position);
        if (source == nullptr) {
            return nullptr;
        }
        if (is_busy_locked(source->offer)) {
            idle_.wait(mutex_);
            continue;
        }
        ++position;
        if (source->state == SourceState::kUnloaded) {
            load_locked(*source);
        }
    }
}

// Of sources that offer the same, one is loaded or unloaded at a time: their library may be the
// same, too, and what it is told doesn't tell them apart.
bool Registry::is_busy_locked(const Offer& offer) {
    return std::ranges::any_of(sources_, [&](const auto& source) {
        return source->state == SourceState::kBusy && source->offer == offer;
    });
}

Registry::Registered* Registry::find_registered_locked(const Offer& wanted, bool exactly) {
    const Fit enough = exactly ? Fit::kExactly : Fit::kAll;
    const auto found = std::ranges::find_if(
        registered_, [&](const auto& provider) { return fit(provider->offer, wanted) >= enough; });
    return found == registered_.end() ? nullptr : found->get();
}

Registry::Source* Registry::next_source_locked(const Offer& wanted, bool exactly, std::size_t& position) {
    const Fit which = exactly ? Fit::kExactly : Fit::kAll;
    while (position < sources_.size() && fit(sources_[position]->offer, wanted) != which) {
        ++position;
    }
    return position < sources_.size() ? sources_[position].get() : nullptr;
}

DAT_RETURN_SUBTYPE Registry::what_is_missing_locked(const Offer& wanted) {
    Fit best = Fit::kNothing;
    for (const auto& provider : registered_) {
        best = std::max(best, fit(provider->offer, wanted));
    }
    for (const auto& source : sources_) {
        best = std::max(best, fit(source->offer, wanted));
    }
    switch (best) {
    case Fit::kName:
        return DAT_MAJOR_NOT_FOUND;
    case Fit::kMajor:
        return DAT_MINOR_NOT_FOUND;
    case Fit::kMinor:
        return DAT_THREAD_SAFETY_NOT_FOUND;
    case Fit::kNothing:
    case Fit::kAll: // there is an entry, but its provider doesn't register
    case Fit::kExactly:
        break;
    }
    return DAT_NAME_NOT_REGISTERED;
}

// There would be a provider, with more memory.
bool Registry::is_short_locked(const Offer& wanted) {
    return std::ranges::any_of(sources_, [&](const auto& source) {
        return source->is_short && fit(source->offer, wanted) >= Fit::kAll;
    });
}

bool Registry::offers_anything_locked(const Source& source) {
    return std::ranges::any_of(registered_,
                               [&](const auto& provider) { return provider->source == &source; });
}

bool Registry::offers_exactly_locked(const Source& source) {
    return std::ranges::any_of(registered_, [&](const auto& provider) {
        return provider->source == &source && provider->offer == source.offer;
    });
}

void Registry::erase_locked(const Registered& provider) noexcept {
    if (provider.is_foreign) {
        redirection_.remove_table(provider.table);
    }
    std::erase_if(registered_, [&](const auto& entry) { return entry.get() == &provider; });
}

void Registry::begin_locked(Source& source) {
    source.state = SourceState::kBusy;
    source.busy_by = pthread_self();
}

void Registry::erase_all_of_locked(const Source& source) {
    const auto is_of_it = [&source](const auto& provider) { return provider->source == &source; };
    for (auto found = std::ranges::find_if(registered_, is_of_it); found != registered_.end();
         found = std::ranges::find_if(registered_, is_of_it)) {
        erase_locked(**found);
    }
}

void Registry::load_locked(Source& source) {
    begin_locked(source);
    source.is_short = false;
    mutex_.unlock(); // Nothing may throw while the lock is away and the source is busy.
    Result<Library> library = at_boundary("load_locked", [&source] {
        return source.is_device() ? Library::load_own() : Library::load(source.library);
    });

    if (library && library->own() != nullptr) {
        if (Result<void> added = redirection_.add_range(*library->own()); !added) {
            library = std::move(added).error();
        }
    }
    if (library) {
        const Loading here{&source, library->own() != nullptr};
        const Loading* const outer = std::exchange(loading, &here);
        library->init(source.offer.info(), source.instance_data.c_str());
        loading = outer;
    }
    mutex_.lock();
    source.is_short =
        source.is_short || (!library && library.error().kind() == ErrorKind::kInsufficientResources);
    if (!library) {
        SLUICE_LOG(kInfo, "dat", "%s (%s): %s", source.offer.ia_name.c_str(), source.origin.c_str(),
                   library.error().text());
        source.state = SourceState::kUnloaded;
        idle_.notify_all();
        return;
    }
    source.loaded = *std::move(library);
    source.state = SourceState::kLoaded;
    if (offers_exactly_locked(source)) {
        idle_.notify_all();
        return;
    }
    SLUICE_LOG(kInfo, "dat", "%s (%s): its provider doesn't register it", source.offer.ia_name.c_str(),
               source.origin.c_str());
    finish_locked(source);
}

// Nobody uses the source any more.
void Registry::finish_locked(Source& source) {
    begin_locked(source);
    mutex_.unlock();
    source.loaded->fini(source.offer.info());
    mutex_.lock();
    std::optional<Library> library = std::exchange(source.loaded, std::nullopt);
    if (offers_anything_locked(source)) {
        SLUICE_LOG(kWarning, "dat", "%s (%s): its provider forgets to remove itself and stays loaded",
                   source.offer.ia_name.c_str(), source.origin.c_str());
        library->keep();
        erase_all_of_locked(source);
    }
    mutex_.unlock();
    library.reset();
    mutex_.lock();
    source.state = SourceState::kUnloaded;
    idle_.notify_all();
}

} // namespace sluice::dat
