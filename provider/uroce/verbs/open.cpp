// SPDX-License-Identifier: BSD-3-Clause
#include "provider/uroce/verbs/open.hpp"

#include <dlfcn.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>

#include "core/facade.hpp"
#include "core/log.hpp"
#include "core/not_cancelled.hpp"
#include "core/settings.hpp"
#include "provider/common/context_memory.hpp"
#include "provider/common/verbs.hpp"
#include "provider/uroce/device/registry.hpp"
#include "provider/uroce/verbs/event_reports.hpp"
#include "provider/uroce/verbs/event_socket.hpp"
#include "provider/uroce/verbs/verbs.hpp"

namespace sluice::uroce::verbs {

void Context::GidWatch::report(GidWatcher& self) noexcept {
    (void)static_cast<GidWatch&>(self).events.report_of_port(kPort, IBV_EVENT_GID_CHANGE);
}

namespace {

// Of no kernel driver, so that nobody takes the context for one of theirs.
constexpr std::uint32_t kDriverId = 0;

// What libibverbs takes for one of its devices. One for each context: it goes with it.
struct OpenedDevice : abi::VerbsDevice {
    device::Device* shared = nullptr;
};

abi::OpsTable make_ops() noexcept;

void free_context(ibv_context* ibcontext) noexcept {
    Context& context = context_of(ibcontext);
    device::Device& device = context.device;
    if (!device.poisoned()) {
        device.remove_watcher(context.gid_watch);
    }
    if (device.poisoned() || !leave_behind(context)) {
        context.~Context();
        provider::free_context_memory(ibcontext);
    }
    device::Registry::instance().release(device);
}

// OPERATION, in which a thread isn't cancelled. What a program calls for each message does that around its
// system calls alone.
template<auto kOperation>
struct Uncancelled;
template<typename Value, typename... Arguments, Value (*kOperation)(Arguments...) noexcept>
struct Uncancelled<kOperation> {
    static Value call(Arguments... arguments) noexcept {
        const NotCancelled guard;
        return kOperation(arguments...);
    }
};
template<auto kOperation>
constexpr auto* kNotCancelled = Uncancelled<kOperation>::call;

// The program has read an event: there is room for one that waits.
void note_async_event(ibv_context* ibcontext, ibv_async_event* /*event*/) noexcept {
    Context& context = context_of(ibcontext);
    if (context.events.pending() && !context.gone()) {
        const device::Device::ProgressSession session(context.device);
        context.events.refill();
    }
}

verbs_context* alloc_context(ibv_device* ibdevice, int /*cmd_fd*/, void* /*private_data*/) noexcept {
    const NotCancelled guard;
    device::Device& device =
        *static_cast<OpenedDevice*>(reinterpret_cast<abi::VerbsDevice*>(ibdevice))->shared;
    const int cmd_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cmd_fd < 0) {
        return nullptr;
    }
    ibv_context* context = provider::allocate_context(ibdevice, cmd_fd, sizeof(Context), kDriverId);
    if (context == nullptr) {
        return nullptr;
    }
    context->num_comp_vectors = 1;
    const int error = Errno::answer([&]() -> Result<void> {
        const Result<int> async_fd = make_event_socket();
        if (!async_fd) {
            return async_fd.error().clone();
        }
        context->async_fd = *async_fd;
        new (&context_of(context)) Context(*context, device, *async_fd);
        provider::current_abi().symbols.set_ops(provider::whole_context(context), make_ops().data());
        device.add_watcher(context_of(context).gid_watch);
        return {};
    });
    if (error != 0) {
        provider::free_context_memory(context);
        errno = error;
        return nullptr;
    }
    return provider::whole_context(context);
}

void uninit_device(abi::VerbsDevice* device) noexcept {
    delete static_cast<OpenedDevice*>(device);
}

constexpr abi::VerbsMatchEntry kNothing[] = {
    {.driver_data = nullptr, .driver_id = 0, .vendor = 0, .device = 0, .kind = abi::kMatchEnd}};

// Not registered: libibverbs never looks for such a device.
constexpr abi::VerbsDeviceOps kDeviceOps{
    .name = "sluice-uroce",
    .match_min_abi_version = 0,
    .match_max_abi_version = 0,
    .match_table = kNothing,
    .static_providers = nullptr,
    .match_device = nullptr,
    .alloc_context = alloc_context,
    .import_context = nullptr,
    .alloc_device = nullptr,
    .uninit_device = uninit_device,
};

abi::OpsTable make_ops() noexcept {
    using abi::Slot;
    abi::OpsTable ops(provider::current_abi().layout.slot_count);
    ops.set(Slot::free_context, kNotCancelled<free_context>);
    ops.set(Slot::async_event, kNotCancelled<note_async_event>);
    ops.set(Slot::query_device_ex, kNotCancelled<query_device_ex>);
    ops.set(Slot::query_port, kNotCancelled<query_port>);
    ops.set(Slot::query_rt_values, kNotCancelled<query_rt_values>);
    ops.set(Slot::alloc_pd, kNotCancelled<alloc_pd>);
    ops.set(Slot::dealloc_pd, kNotCancelled<dealloc_pd>);
    ops.set(Slot::alloc_td, kNotCancelled<alloc_td>);
    ops.set(Slot::dealloc_td, kNotCancelled<dealloc_td>);
    ops.set(Slot::alloc_parent_domain, kNotCancelled<alloc_parent_domain>);
    ops.set(Slot::reg_mr, kNotCancelled<reg_mr>);
    ops.set(Slot::reg_dmabuf_mr, kNotCancelled<reg_dmabuf_mr>);
    ops.set(Slot::rereg_mr, kNotCancelled<rereg_mr>);
    ops.set(Slot::dereg_mr, kNotCancelled<dereg_mr>);
    ops.set(Slot::reg_dm_mr, kNotCancelled<reg_dm_mr>);
    ops.set(Slot::advise_mr, kNotCancelled<advise_mr>);
    ops.set(Slot::alloc_dm, kNotCancelled<alloc_dm>);
    ops.set(Slot::free_dm, kNotCancelled<free_dm>);
    ops.set(Slot::alloc_mw, alloc_mw); // wr_flush() knows us by it
    ops.set(Slot::dealloc_mw, kNotCancelled<dealloc_mw>);
    ops.set(Slot::bind_mw, kNotCancelled<bind_mw>);
    ops.set(Slot::create_ah, kNotCancelled<create_ah>);
    ops.set(Slot::destroy_ah, kNotCancelled<destroy_ah>);
    ops.set(Slot::create_cq, kNotCancelled<create_cq>);
    ops.set(Slot::create_cq_ex, kNotCancelled<create_cq_ex>);
    ops.set(Slot::resize_cq, kNotCancelled<resize_cq>);
    ops.set(Slot::destroy_cq, kNotCancelled<destroy_cq>);
    ops.set(Slot::req_notify_cq, req_notify_cq);
    ops.set(Slot::poll_cq, poll_cq);
    ops.set(Slot::create_qp, kNotCancelled<create_qp>);
    ops.set(Slot::create_qp_ex, kNotCancelled<create_qp_ex>);
    ops.set(Slot::modify_qp, kNotCancelled<modify_qp>);
    ops.set(Slot::query_qp, kNotCancelled<query_qp>);
    ops.set(Slot::destroy_qp, kNotCancelled<destroy_qp>);
    ops.set(Slot::open_qp, kNotCancelled<open_qp>);
    ops.set(Slot::open_xrcd, kNotCancelled<open_xrcd>);
    ops.set(Slot::close_xrcd, kNotCancelled<close_xrcd>);
    ops.set(Slot::attach_mcast, kNotCancelled<attach_mcast>);
    ops.set(Slot::detach_mcast, kNotCancelled<detach_mcast>);
    ops.set(Slot::query_comp_cntr_caps, kNotCancelled<query_comp_cntr_caps>);
    ops.set(Slot::create_comp_cntr, kNotCancelled<create_comp_cntr>);
    ops.set(Slot::destroy_comp_cntr, kNotCancelled<destroy_comp_cntr>);
    ops.set(Slot::set_comp_cntr, kNotCancelled<set_comp_cntr>);
    ops.set(Slot::set_err_comp_cntr, kNotCancelled<set_err_comp_cntr>);
    ops.set(Slot::inc_comp_cntr, inc_comp_cntr);
    ops.set(Slot::inc_err_comp_cntr, inc_err_comp_cntr);
    ops.set(Slot::read_comp_cntr, read_comp_cntr);
    ops.set(Slot::read_err_comp_cntr, read_err_comp_cntr);
    ops.set(Slot::qp_attach_comp_cntr, kNotCancelled<qp_attach_comp_cntr>);
    ops.set(Slot::post_send, post_send);
    ops.set(Slot::post_recv, post_recv);
    ops.set(Slot::create_srq, kNotCancelled<create_srq>);
    ops.set(Slot::create_srq_ex, kNotCancelled<create_srq_ex>);
    ops.set(Slot::modify_srq, kNotCancelled<modify_srq>);
    ops.set(Slot::query_srq, kNotCancelled<query_srq>);
    ops.set(Slot::destroy_srq, kNotCancelled<destroy_srq>);
    ops.set(Slot::get_srq_num, get_srq_num);
    ops.set(Slot::post_srq_recv, post_srq_recv);
    return ops;
}

// A program that links us without libibverbs, or loads it later than us, has nothing measured yet.
Result<void> ensure_abi(void* library) {
    static Mutex measuring;
    const LockGuard guard(measuring);
    if (provider::current_abi().symbols.version == 0) {
        Result<abi::Abi> found = abi::find_abi(library);
        if (!found) {
            return std::move(found).error();
        }
        provider::set_current_abi(*found);
    }
    if (!provider::current_abi().symbols.opens_without_kernel) {
        return Error(ErrorKind::kNotSupported,
                     "this libibverbs opens no device without a kernel: install rdma-core 37 or later");
    }
    return {};
}

using OpenDevice = ibv_context* (*)(ibv_device*);

Result<OpenDevice> find_libibverbs() {
    errno = 0;
    void* library = dlopen(abi::kLibrary, RTLD_LAZY); // stays loaded: contexts need it
    if (library == nullptr && errno == ENOMEM) {
        return Error(ErrorKind::kInsufficientResources, "no memory to load libibverbs", ENOMEM);
    }
    if (library == nullptr) {
        return Error::format(ErrorKind::kNotFound, 0, "uroce needs libibverbs (package libibverbs1): %s",
                             dlerror());
    }
    Result<void> known = ensure_abi(library);
    if (!known) {
        return std::move(known).error();
    }
    const auto open = reinterpret_cast<OpenDevice>(dlsym(library, "ibv_open_device"));
    if (open == nullptr) {
        return Error(ErrorKind::kNotSupported, "this libibverbs has no ibv_open_device");
    }
    return open;
}

// The caller has a context, so that the library is there.
Result<ibv_comp_channel*> ask_libibverbs_for_channel(ibv_context* context) {
    using Create = ibv_comp_channel* (*)(ibv_context*);
    void* library = dlopen(abi::kLibrary, RTLD_LAZY | RTLD_NOLOAD);
    const auto create =
        library == nullptr ? nullptr : reinterpret_cast<Create>(dlsym(library, "ibv_create_comp_channel"));
    ibv_comp_channel* channel = create == nullptr ? nullptr : create(context);
    const int error = create == nullptr ? ENOSYS : errno;
    if (library != nullptr) {
        dlclose(library);
    }
    if (channel == nullptr) {
        return Error::from_errno(error, "libibverbs made no completion channel");
    }
    return channel;
}

// As libibverbs keeps it for devices that it has found itself, and frees it with the device. Its
// open call must not see it: it would look for a character device.
abi::VerbsSysfsDevice* make_sysfs_part(const device::Device& device) noexcept {
    constexpr std::size_t kRoom = 2048; // more than any version's
    // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): libibverbs frees it
    auto* sysfs = static_cast<abi::VerbsSysfsDevice*>(std::calloc(1, kRoom));
    if (sysfs != nullptr) {
        std::snprintf(sysfs->ibdev_name, sizeof sysfs->ibdev_name, "%s", device.where().name.c_str());
        std::snprintf(sysfs->ibdev_path, sizeof sysfs->ibdev_path, "%s", device.directory().c_str());
        sysfs->node_type = IBV_NODE_CA;
        sysfs->ibdev_index = -1; // the kernel knows of none
    }
    return sysfs;
}

// Where `sluice run` shows the device's files, and nobody else: their names are the device's all the same.
void put_files(ibv_device& device, const std::string& name) noexcept {
    std::snprintf(device.dev_name, sizeof device.dev_name, "uverbs-%s", name.c_str());
    std::snprintf(device.dev_path, sizeof device.dev_path, "/sys/class/infiniband_verbs/uverbs-%s",
                  name.c_str());
    std::snprintf(device.ibdev_path, sizeof device.ibdev_path, "/sys/class/infiniband/%s", name.c_str());
}

// A reference of our own, which the opened context's takes over.
ibv_device* make_device(device::Device& device) {
    auto* made = new OpenedDevice{};
    std::snprintf(made->abi::VerbsDevice::device.name, IBV_SYSFS_NAME_MAX, "%s", device.where().name.c_str());
    put_files(made->abi::VerbsDevice::device, device.where().name);
    made->abi::VerbsDevice::device.node_type = IBV_NODE_CA;
    made->abi::VerbsDevice::device.transport_type = IBV_TRANSPORT_IB;
    made->ops = &kDeviceOps;
    made->refcount = 1;
    made->core_support = 1; // optional kinds of access may be passed on
    made->shared = &device;
    return &made->abi::VerbsDevice::device;
}

Result<ibv_context*> open_shared(device::Device& device, OpenDevice open) {
    ibv_device* ibdevice = make_device(device);
    auto& opened = static_cast<OpenedDevice&>(reinterpret_cast<abi::VerbsDevice&>(*ibdevice));
    abi::VerbsSysfsDevice* sysfs = make_sysfs_part(device);
    ibv_context* context = sysfs != nullptr ? open(ibdevice) : nullptr;
    if (context == nullptr) {
        const int error = errno;
        std::free(sysfs); // NOLINT(cppcoreguidelines-no-malloc): its counterpart
        delete &opened;
        return Error::from_errno(error, "libibverbs can't make a context");
    }
    opened.sysfs = sysfs;
    __atomic_fetch_sub(&opened.refcount, 1, __ATOMIC_ACQ_REL);
    return context;
}

} // namespace

Result<ibv_context*> open_context(const char* name_or_address) {
    warn_about_unknown_settings();
    Result<OpenDevice> open = find_libibverbs();
    if (!open) {
        return std::move(open).error();
    }
    Result<device::LocalAddress> where =
        device::resolve(name_or_address != nullptr ? name_or_address : "uroce0");
    if (!where) {
        return std::move(where).error();
    }
    device::Registry& registry = device::Registry::instance();
    const Result<device::Device*> acquired = registry.acquire(*where, report_event);
    if (!acquired) {
        return acquired.error().clone();
    }
    const auto give_back = [&registry](device::Device* device) { registry.release(*device); };
    std::unique_ptr<device::Device, decltype(give_back)> device(*acquired, give_back);
    Result<ibv_context*> context = open_shared(*device, *open);
    if (!context) {
        return context;
    }
    (void)device.release(); // the context has it
    SLUICE_LOG(kDebug, "uroce", "opened %s on %s", where->name.c_str(), socket::to_text(where->gid).data());
    return context;
}

bool is_ours(const ibv_context* context) noexcept {
    return reinterpret_cast<const abi::VerbsDevice*>(context->device)->ops == &kDeviceOps;
}

Result<ibv_comp_channel*> create_comp_channel(ibv_context* context) {
    if (!is_ours(context)) {
        return ask_libibverbs_for_channel(context);
    }
    if (context_of(context).gone()) {
        return Error(ErrorKind::kDeviceGone, "this context was opened before a fork, by the parent");
    }
    Result<int> fd = make_event_socket();
    if (!fd) {
        return std::move(fd).error();
    }
    // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): libibverbs frees it
    auto* channel = static_cast<ibv_comp_channel*>(std::calloc(1, sizeof(ibv_comp_channel)));
    if (channel == nullptr) {
        close(*fd);
        return Error(ErrorKind::kInsufficientResources, "no memory for a completion channel");
    }
    channel->context = context;
    channel->fd = *fd;
    return channel;
}

} // namespace sluice::uroce::verbs
