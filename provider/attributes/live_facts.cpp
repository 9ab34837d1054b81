// SPDX-License-Identifier: BSD-3-Clause
#include "provider/attributes/live_facts.hpp"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>

namespace sluice::attributes {

namespace {

template<typename T>
using Owned = std::unique_ptr<T, int (*)(T*)>;

// The file that a function was loaded from; null when nobody knows.
const char* file_of(const void* function) noexcept {
    Dl_info info{};
    return function != nullptr && dladdr(function, &info) != 0 ? info.dli_fname : nullptr;
}

template<typename Function>
const void* address_of(Function* function) noexcept {
    const void* address = nullptr;
    static_assert(sizeof address == sizeof function);
    std::memcpy(&address, &function, sizeof address);
    return address;
}

// Libibverbs puts functions of its own where a provider has none; they tell nothing.
std::string find_provider(const ibv_context& context) {
    const char* const library = file_of(address_of(&ibv_get_device_list));
    for (const void* function : {address_of(context.ops.poll_cq), address_of(context.ops.post_send),
                                 address_of(context.ops.post_recv), address_of(context.ops.req_notify_cq)}) {
        const char* const file = file_of(function);
        if (file != nullptr && (library == nullptr || std::strcmp(file, library) != 0)) {
            return file;
        }
    }
    return {};
}

bool can_register(ibv_context& context) noexcept {
    const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const page = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return false;
    }
    bool registered = false;
    const int access = IBV_ACCESS_LOCAL_WRITE;
    if (const Owned<ibv_pd> domain{ibv_alloc_pd(&context), ibv_dealloc_pd}) {
        const Owned<ibv_mr> region{ibv_reg_mr(domain.get(), page, page_bytes, access), ibv_dereg_mr};
        registered = region != nullptr;
    }
    munmap(page, page_bytes);
    return registered;
}

} // namespace

LiveFacts ask_context(ibv_context& context, bool try_registration) {
    LiveFacts facts;
    facts.provider_path = find_provider(context);
    ibv_device_attr_ex attributes{};
    if (ibv_query_device_ex(&context, nullptr, &attributes) == 0) {
        facts.capabilities = attributes.device_cap_flags_ex;
        facts.paging = attributes.odp_caps.general_caps;
    }
    if (try_registration) {
        facts.registered = can_register(context);
    }
    return facts;
}

std::optional<LiveFacts> ask_device(ibv_device& device, bool try_registration) {
    const Owned<ibv_context> context{ibv_open_device(&device), ibv_close_device};
    if (!context) {
        return std::nullopt;
    }
    return ask_context(*context, try_registration);
}

std::optional<LiveFacts> ask_by_name(const std::string& name, bool try_registration) {
    int count = 0;
    const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> devices{ibv_get_device_list(&count),
                                                                       ibv_free_device_list};
    for (int i = 0; devices && i < count; ++i) {
        ibv_device& device = *devices.get()[i];
        if (kernel_name(device) == name) {
            return ask_device(device, try_registration);
        }
    }
    return std::nullopt;
}

std::string kernel_name(const ibv_device& device) {
    return {device.name, strnlen(device.name, sizeof device.name)};
}

std::string kernel_name(const ibv_context& context) {
    return kernel_name(*context.device);
}

} // namespace sluice::attributes
