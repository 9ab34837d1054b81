// SPDX-License-Identifier: BSD-3-Clause
#include "tools/loader_environment.hpp"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "tools/child.hpp"
#include "tools/parts.hpp"

namespace sluice::tools {

namespace {

// Whether the loader would take libibverbs or librdmacm from one of FOLDERS: somebody's own, which ours don't
// stand for.
bool has_libraries(const std::string& folders) {
    std::istringstream list(folders);
    for (std::string folder; std::getline(list, folder, ':');) {
        for (const char* name : {"/libibverbs.so.1", "/librdmacm.so.1"}) {
            if (access((folder + name).c_str(), F_OK) == 0) {
                return true;
            }
        }
    }
    return false;
}

} // namespace

std::vector<std::string> loader_environment(HeapIs heap) {
    std::string preloaded = part_for_loader(find_part(kPreload), "LD_PRELOAD");
    if (heap == HeapIs::kShared) {
        preloaded = part_for_loader(find_part(kHeap), "LD_PRELOAD") + ":" + preloaded;
    }
    std::vector<std::string> environment{preload_with(preloaded)};
    if (heap == HeapIs::kPrivate) {
        environment.push_back(before_sanitizer());
    }
    const std::string drop_ins = part_for_loader(find_part_or_nothing(kDropIns), "LD_LIBRARY_PATH");
    const char* const others = std::getenv("LD_LIBRARY_PATH");
    const std::string folders = others != nullptr ? others : "";
    if (!drop_ins.empty() && !has_libraries(folders)) {
        environment.push_back("LD_LIBRARY_PATH=" + drop_ins + (folders.empty() ? "" : ":" + folders));
    }
    return environment;
}

} // namespace sluice::tools
