// SPDX-License-Identifier: BSD-3-Clause
#include "layers/preload/contexts.hpp"

#include <sluice/sluice.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "ibverbs-glue/adaptors.hpp"
#include "layers/hooks/real.hpp"

namespace sluice::layers::preload {

namespace {

struct Domains {
    Mutex mutex;
    std::map<ibv_context*, ibv_pd*> by_context SLUICE_TSA(guarded_by(mutex));
};

Domains& domains() {
    static Domains& instance = *new Domains();
    return instance;
}

} // namespace

Result<OpenContext> OpenContext::open(const std::string& address) {
    Result<ibv_context*> context =
        glue::from_null(sluice_open_uroce(address.c_str()), "opening a uroce device");
    if (!context) {
        return std::move(context).error();
    }
    return OpenContext(*context);
}

Contexts& contexts() {
    static Contexts& instance = *new Contexts();
    return instance;
}

Result<std::vector<Found>> all_contexts() {
    std::vector<Found> all;
    Error last(ErrorKind::kNotFound, "no device of uroce's is listed", ENODEV);
    for (const glue::ListedAddress& listed : glue::listed_uroce_addresses()) {
        Result<Found> found = contexts().at(listed.address);
        if (found) {
            all.push_back(*found);
        } else {
            last = std::move(found).error();
        }
    }
    for (const Found& open : contexts().all_open()) {
        if (std::ranges::find(all, open.context, &Found::context) == all.end()) {
            all.push_back(open);
        }
    }
    if (all.empty()) {
        return last;
    }
    return all;
}

Result<ibv_pd*> default_pd(ibv_context* context) {
    const hooks::RealVerbs* const real = hooks::real_verbs();
    if (real == nullptr) {
        return Error(ErrorKind::kNotSupported, "there is no libibverbs", ENOSYS);
    }
    const LockGuard guard(domains().mutex);
    ibv_pd*& domain = domains().by_context[context];
    if (domain == nullptr) {
        domain = real->alloc_pd(context);
    }
    return glue::from_null(domain, "making a protection domain");
}

} // namespace sluice::layers::preload
