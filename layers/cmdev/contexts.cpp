// SPDX-License-Identifier: BSD-3-Clause
#include "layers/cmdev/contexts.hpp"

#include <sluice/sluice.h>

#include <algorithm>
#include <cerrno>

#include "ibverbs-glue/adaptors.hpp"

namespace sluice::layers::cmdev {

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

} // namespace sluice::layers::cmdev
