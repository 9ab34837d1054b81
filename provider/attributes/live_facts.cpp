// SPDX-License-Identifier: BSD-3-Clause
#include "provider/attributes/live_facts.hpp"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/log.hpp"
#include "sluice/sluice.h"

namespace sluice::attributes {

namespace {

// Libibverbs as far as it is needed here: its public functions, looked up when a device is asked.
// A program that only reads recorded machines never loads it.
struct Verbs {
    decltype(&ibv_get_device_list) get_device_list = nullptr;
    decltype(&ibv_free_device_list) free_device_list = nullptr;
    decltype(&ibv_open_device) open_device = nullptr;
    decltype(&ibv_close_device) close_device = nullptr;
    decltype(&ibv_alloc_pd) alloc_pd = nullptr;
    decltype(&ibv_dealloc_pd) dealloc_pd = nullptr;
    decltype(&ibv_create_cq) create_cq = nullptr;
    decltype(&ibv_destroy_cq) destroy_cq = nullptr;
    decltype(&ibv_create_qp) create_qp = nullptr;
    decltype(&ibv_destroy_qp) destroy_qp = nullptr;
    // Not in libibverbs before 36.
    int (*query_data_in_order)(ibv_qp*, ibv_wr_opcode, std::uint32_t) = nullptr;
    ibv_mr* (*register_memory)(ibv_pd*, void*, std::size_t, int) = nullptr;
    decltype(&ibv_dereg_mr) deregister_memory = nullptr;
};

template<typename Function>
bool look_up(void* library, const char* name, Function& function) {
    void* const address = dlsym(library, name);
    static_assert(sizeof address == sizeof function);
    std::memcpy(&function, &address, sizeof address);
    return address != nullptr;
}

// FLAGS: RTLD_NOLOAD asks only for a libibverbs that the program has anyway.
std::optional<Verbs> find_verbs(int flags) {
    // Never closed: it keeps providers and their devices.
    void* const library = dlopen("libibverbs.so.1", RTLD_LAZY | flags);
    if (library == nullptr) {
        SLUICE_LOG(kDebug, "attributes", "no device can be asked: libibverbs.so.1 is not there");
        return std::nullopt;
    }
    Verbs verbs;
    const bool complete = look_up(library, "ibv_get_device_list", verbs.get_device_list) &&
                          look_up(library, "ibv_free_device_list", verbs.free_device_list) &&
                          look_up(library, "ibv_open_device", verbs.open_device) &&
                          look_up(library, "ibv_close_device", verbs.close_device) &&
                          look_up(library, "ibv_alloc_pd", verbs.alloc_pd) &&
                          look_up(library, "ibv_dealloc_pd", verbs.dealloc_pd) &&
                          look_up(library, "ibv_create_cq", verbs.create_cq) &&
                          look_up(library, "ibv_destroy_cq", verbs.destroy_cq) &&
                          look_up(library, "ibv_create_qp", verbs.create_qp) &&
                          look_up(library, "ibv_destroy_qp", verbs.destroy_qp) &&
                          look_up(library, "ibv_reg_mr", verbs.register_memory) &&
                          look_up(library, "ibv_dereg_mr", verbs.deregister_memory);
    look_up(library, "ibv_query_qp_data_in_order", verbs.query_data_in_order);
    return complete ? std::optional(verbs) : std::nullopt;
}

template<typename Function>
const void* address_of(Function* function) noexcept {
    const void* address = nullptr;
    static_assert(sizeof address == sizeof function);
    std::memcpy(&address, &function, sizeof address);
    return address;
}

// The file that a function was loaded from; null when nobody knows.
const char* file_of(const void* function) noexcept {
    Dl_info info{};
    return function != nullptr && dladdr(function, &info) != 0 ? info.dli_fname : nullptr;
}

// Libibverbs puts functions of its own where a provider has none; they tell nothing.
std::string find_provider(const ibv_context& context, const std::optional<Verbs>& verbs) {
    const char* const library = verbs ? file_of(address_of(verbs->get_device_list)) : nullptr;
    for (const void* function : {address_of(context.ops.poll_cq), address_of(context.ops.post_send),
                                 address_of(context.ops.post_recv), address_of(context.ops.req_notify_cq)}) {
        const char* const file = file_of(function);
        if (file != nullptr && (library == nullptr || std::strcmp(file, library) != 0)) {
            return file;
        }
    }
    return {};
}

// Adapters that execute them on the bus say so in a member of its own, whatever they say in the older one.
std::uint64_t atomics_of(const ibv_device_attr_ex& attributes) {
    if (attributes.orig_attr.atomic_cap == IBV_ATOMIC_NONE) {
        return SLUICE_ATOMICS_NONE;
    }
    const bool is_global =
        attributes.orig_attr.atomic_cap == IBV_ATOMIC_GLOB ||
        (attributes.pci_atomic_caps.fetch_add != 0 && attributes.pci_atomic_caps.compare_swap != 0);
    return is_global ? SLUICE_ATOMICS_GLOBAL : SLUICE_ATOMICS_DEVICE;
}

// The inline function of the same name would need a symbol of libibverbs for devices that are too
// old for what is asked here.
void ask_capabilities(ibv_context& context, LiveFacts& facts) {
    verbs_context* const extended = verbs_get_ctx_op(&context, query_device_ex);
    ibv_device_attr_ex attributes{};
    if (extended != nullptr &&
        extended->query_device_ex(&context, nullptr, &attributes, sizeof attributes) == 0) {
        facts.capabilities = attributes.device_cap_flags_ex;
        facts.paging = attributes.odp_caps.general_caps;
        facts.atomics = atomics_of(attributes);
        facts.max_sge =
            attributes.orig_attr.max_sge > 0 ? static_cast<std::uint64_t>(attributes.orig_attr.max_sge) : 0;
        facts.firmware.assign(attributes.orig_attr.fw_ver,
                              strnlen(attributes.orig_attr.fw_ver, sizeof attributes.orig_attr.fw_ver));
    }
}

bool can_register(ibv_context& context, const Verbs& verbs) {
    const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const page = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return false;
    }
    ibv_mr* region = nullptr;
    if (ibv_pd* domain = verbs.alloc_pd(&context); domain != nullptr) {
        region = verbs.register_memory(domain, page, page_bytes, IBV_ACCESS_LOCAL_WRITE);
        if (region != nullptr) {
            verbs.deregister_memory(region);
        }
        verbs.dealloc_pd(domain);
    }
    munmap(page, page_bytes);
    return region != nullptr;
}

using QueuePair = std::unique_ptr<ibv_qp, decltype(&ibv_destroy_qp)>;

// A reliable one, of one request with one segment. INLINE_BYTES becomes what is granted, which may be more or
// less.
QueuePair make_queue_pair(const Verbs& verbs, ibv_pd& domain, ibv_cq& queue, std::uint32_t& inline_bytes) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = &queue;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {1, 1, 1, 1, inline_bytes};
    QueuePair made(verbs.create_qp(&domain, &wanted), verbs.destroy_qp);
    inline_bytes = made ? wanted.cap.max_inline_data : 0;
    return made;
}

// Devices name no limit: it is between what they grant and what they refuse, or grant less for. One that
// grants whatever it is asked for doesn't look at it.
std::optional<std::uint64_t> find_max_inline(const Verbs& verbs, ibv_pd& domain, ibv_cq& queue,
                                             std::uint32_t granted) {
    constexpr std::uint32_t kTooMuch = 65536;
    std::uint32_t refused = kTooMuch;
    while (granted + 1 < refused) {
        const std::uint32_t tried = granted + (refused - granted) / 2;
        std::uint32_t got = tried;
        make_queue_pair(verbs, domain, queue, got);
        granted = std::max(granted, got);
        refused = got < tried ? tried : refused;
    }
    return refused == kTooMuch ? std::nullopt : std::optional<std::uint64_t>(granted);
}

void try_queue_pairs(ibv_context& context, const Verbs& verbs, LiveFacts& facts) {
    const std::unique_ptr<ibv_pd, decltype(verbs.dealloc_pd)> domain(verbs.alloc_pd(&context),
                                                                     verbs.dealloc_pd);
    const std::unique_ptr<ibv_cq, decltype(verbs.destroy_cq)> queue(
        verbs.create_cq(&context, 1, nullptr, nullptr, 0), verbs.destroy_cq);
    if (!domain || !queue) {
        return;
    }
    std::uint32_t granted = 0;
    QueuePair made = make_queue_pair(verbs, *domain, *queue, granted);
    if (!made) {
        return; // a device without reliable connections, or without a queue pair to spare
    }
    if (verbs.query_data_in_order != nullptr) {
        facts.in_order = verbs.query_data_in_order(made.get(), IBV_WR_RDMA_WRITE, 0) != 0;
    }
    made.reset();
    facts.max_inline = find_max_inline(verbs, *domain, *queue, granted);
}

LiveFacts ask(ibv_context& context, const std::optional<Verbs>& verbs, Trials trials) {
    LiveFacts facts;
    facts.provider_path = find_provider(context, verbs);
    ask_capabilities(context, facts);
    if (trials.registration && verbs) {
        facts.registered = can_register(context, *verbs);
    }
    if (trials.queue_pair && verbs) {
        try_queue_pairs(context, *verbs, facts);
    }
    return facts;
}

std::optional<LiveFacts> open_and_ask(ibv_device& device, const std::optional<Verbs>& verbs, Trials trials) {
    if (!verbs) {
        return std::nullopt;
    }
    const std::unique_ptr<ibv_context, decltype(verbs->close_device)> context(verbs->open_device(&device),
                                                                              verbs->close_device);
    return context ? std::optional(ask(*context, verbs, trials)) : std::nullopt;
}

} // namespace

// A program that has devices has libibverbs too, unless it is linked into the program itself.
LiveFacts ask_context(ibv_context& context, Trials trials) {
    return ask(context, find_verbs(RTLD_NOLOAD), trials);
}

std::optional<LiveFacts> ask_device(ibv_device& device, Trials trials) {
    return open_and_ask(device, find_verbs(RTLD_NOLOAD), trials);
}

std::optional<LiveFacts> ask_by_name(const std::string& name, Trials trials) {
    const std::optional<Verbs> verbs = find_verbs(0);
    if (!verbs) {
        return std::nullopt;
    }
    int count = 0;
    const std::unique_ptr<ibv_device*, decltype(verbs->free_device_list)> devices(
        verbs->get_device_list(&count), verbs->free_device_list);
    for (int i = 0; devices && i < count; ++i) {
        ibv_device& device = *devices.get()[i];
        if (kernel_name(device) == name) {
            return open_and_ask(device, verbs, trials);
        }
    }
    return std::nullopt;
}

LiveFacts facts_of_own_device() {
    LiveFacts facts;
    const char* const file = file_of(address_of(facts_of_own_device));
    facts.provider_path = file == nullptr ? "" : file;
    return facts;
}

std::string kernel_name(const ibv_device& device) {
    return {device.name, strnlen(device.name, sizeof device.name)};
}

std::string kernel_name(const ibv_context& context) {
    return kernel_name(*context.device);
}

} // namespace sluice::attributes
