// SPDX-License-Identifier: BSD-3-Clause
//
// What libdapl-sluice is to libdat, and nothing else: handles that are slots, two devices, and the
// private entry point. It stands in for the library where the registry is tested.
#include <dat/dat_registry.h>

#include <cerrno>
#include <cstdlib>
#include <list>
#include <memory>
#include <string>

#include "core/handle_table.hpp"
#include "core/sync.hpp"
#include "udapl/registry/codes.hpp"
#include "udapl/registry/provider_v1.h"

namespace {

using sluice::HandleTable;
using sluice::Pin;
using sluice::Result;
using sluice::dat::failure;

struct Ia {
    static constexpr sluice::HandleKind kHandleKind = 1;
};
struct Pz {
    static constexpr sluice::HandleKind kHandleKind = 2;
};
struct Ep {
    static constexpr sluice::HandleKind kHandleKind = 3;
};

constinit HandleTable handles;
extern DAT_PROVIDER functions;

template<typename T>
DAT_RETURN make(DAT_HANDLE* handle) {
    auto object = std::make_unique<T>();
    const Result<void*> made = handles.insert(object.get(), &functions);
    if (!made) {
        return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    }
    (void)object.release();
    *handle = *made;
    return DAT_SUCCESS;
}

template<typename T>
DAT_RETURN destroy(DAT_HANDLE handle, DAT_RETURN_SUBTYPE wrong) {
    Result<Pin<T>> pin = handles.get<T>(handle);
    if (!pin) {
        return failure(DAT_INVALID_HANDLE, wrong);
    }
    const Result<T*> object = handles.retire(*std::move(pin));
    if (!object) {
        return failure(DAT_INVALID_HANDLE, wrong);
    }
    delete *object;
    return DAT_SUCCESS;
}

DAT_RETURN ia_open(DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE* evd, DAT_IA_HANDLE* ia, DAT_BOOLEAN) {
    *evd = DAT_EVD_OUT_OF_SCOPE;
    return make<Ia>(ia);
}

DAT_RETURN ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS) {
    return destroy<Ia>(ia, DAT_INVALID_HANDLE_IA);
}

DAT_RETURN pz_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE* pz) {
    return handles.get<Ia>(ia) ? make<Pz>(pz) : failure(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
}

DAT_RETURN pz_free(DAT_PZ_HANDLE pz) {
    return destroy<Pz>(pz, DAT_INVALID_HANDLE_PZ);
}

DAT_RETURN ep_free(DAT_EP_HANDLE ep) {
    return destroy<Ep>(ep, DAT_INVALID_HANDLE_EP);
}

DAT_PROVIDER make_functions() {
    DAT_PROVIDER table{};
    table.ia_open_func = ia_open;
    table.ia_close_func = ia_close;
    table.pz_create_func = pz_create;
    table.pz_free_func = pz_free;
    table.ep_free_func = ep_free;
    return table;
}

DAT_PROVIDER functions = make_functions();

// One table for each name, because its name is in it.
struct Named {
    std::string name;
    DAT_PROVIDER provider;
};

sluice::Mutex named_mutex;
std::list<Named> named SLUICE_TSA(guarded_by(named_mutex));

const DAT_PROVIDER& table_of(const std::string& name) {
    const sluice::LockGuard guard(named_mutex);
    for (const Named& each : named) {
        if (each.name == name) {
            return each.provider;
        }
    }
    Named& added = named.emplace_back(Named{name, functions});
    added.provider.device_name = added.name.c_str();
    return added.provider;
}

int list_devices(void (*found)(void* context, const char* name), void* context) {
    found(context, "fake0");
    found(context, "fake1");
    return 0;
}

int knows(const char* name) {
    const std::string asked = name;
    return asked == "fake0" || asked == "fake1" || asked == "eth-fake" || asked == "192.0.2.1" ? 1 : 0;
}

} // namespace

extern "C" {

void dat_provider_init(const DAT_PROVIDER_INFO* info, const char*) {
    dat_registry_add_provider(&table_of(info->ia_name), info);
}

void dat_provider_fini(const DAT_PROVIDER_INFO* info) {
    dat_registry_remove_provider(&table_of(info->ia_name), info);
}

[[gnu::visibility("default")]] const dapl_sluice_v1* dapl_sluice_query_v1(void);

const dapl_sluice_v1* dapl_sluice_query_v1(void) {
    static const Result<sluice::HandleRange> range = handles.reserve();
    static const dapl_sluice_v1 answer{sizeof answer,
                                       range ? range->begin : nullptr,
                                       range ? range->size_bytes : 0,
                                       &functions,
                                       list_devices,
                                       knows};
    return range ? &answer : nullptr;
}

} // extern "C"
