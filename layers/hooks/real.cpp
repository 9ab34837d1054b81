// SPDX-License-Identifier: BSD-3-Clause
#include "layers/hooks/real.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "layers/hooks/next.hpp"

namespace sluice::layers::hooks {

namespace {

// A layer may stand before it, too.
constinit Next<void*(const char*, int) noexcept> next_dlopen("dlopen");

// The next in the order of the program's libraries; libraries that it has loaded later aren't among those.
class Library {
  public:
    // WITNESS is a function of its that no layer stands before.
    Library(const char* name, const char* witness) noexcept
        : handle_(behind_drop_in(next_dlopen.get()(name, RTLD_LAZY), witness)) {}

    template<typename Function>
    Library& need(const char* name, Function& function) noexcept {
        want(name, function);
        complete_ = complete_ && function != nullptr;
        return *this;
    }

    template<typename Function>
    Library& want(const char* name, Function& function) noexcept {
        void* address = dlsym(RTLD_NEXT, name);
        if (address == nullptr && handle_ != nullptr) {
            address = dlsym(handle_, name);
        }
        static_assert(sizeof address == sizeof function);
        std::memcpy(&function, &address, sizeof address);
        return *this;
    }

    bool complete() const noexcept { return complete_; }

  private:
    // By its name we may get a drop-in, in which our own functions are found first. What it stands for has
    // the witness.
    static void* behind_drop_in(void* handle, const char* witness) noexcept {
        void* const address = handle != nullptr ? dlsym(handle, witness) : nullptr;
        Dl_info its{};
        void* const found = address != nullptr && dladdr(address, &its) != 0
                                ? next_dlopen.get()(its.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                                : nullptr;
        return found != nullptr ? found : handle;
    }

    void* const handle_; // never closed: what it gave is called until the end
    bool complete_ = true;
};

std::optional<RealVerbs> find_verbs() noexcept {
    RealVerbs verbs;
    Library library("libibverbs.so.1", "ibv_get_device_name");
    library.want("ibv_get_device_index", verbs.get_device_index)
        .need("ibv_get_device_list", verbs.get_device_list)
        .need("ibv_free_device_list", verbs.free_device_list)
        .need("ibv_get_device_guid", verbs.get_device_guid)
        .need("ibv_open_device", verbs.open_device)
        .need("ibv_alloc_pd", verbs.alloc_pd)
        .need("ibv_create_comp_channel", verbs.create_comp_channel)
        .need("ibv_create_cq", verbs.create_cq)
        .need("ibv_destroy_cq", verbs.destroy_cq)
        .need("ibv_destroy_comp_channel", verbs.destroy_comp_channel)
        .need("ibv_create_qp", verbs.create_qp)
        .need("ibv_modify_qp", verbs.modify_qp)
        .need("ibv_destroy_qp", verbs.destroy_qp)
        .need("ibv_create_srq", verbs.create_srq)
        .need("ibv_destroy_srq", verbs.destroy_srq);
    return library.complete() ? std::optional(verbs) : std::nullopt;
}

std::optional<RealCm> find_cm() noexcept {
    RealCm cm;
    Library library("librdmacm.so.1", "rdma_event_str");
    library.need("rdma_create_event_channel", cm.create_event_channel)
        .need("rdma_destroy_event_channel", cm.destroy_event_channel)
        .need("rdma_create_id", cm.create_id)
        .need("rdma_destroy_id", cm.destroy_id)
        .need("rdma_create_ep", cm.create_ep)
        .need("rdma_destroy_ep", cm.destroy_ep)
        .need("rdma_bind_addr", cm.bind_addr)
        .need("rdma_resolve_addr", cm.resolve_addr)
        .need("rdma_resolve_route", cm.resolve_route)
        .need("rdma_create_qp", cm.create_qp)
        .need("rdma_create_qp_ex", cm.create_qp_ex)
        .need("rdma_destroy_qp", cm.destroy_qp)
        .need("rdma_create_srq", cm.create_srq)
        .need("rdma_create_srq_ex", cm.create_srq_ex)
        .need("rdma_destroy_srq", cm.destroy_srq)
        .need("rdma_connect", cm.connect)
        .need("rdma_listen", cm.listen)
        .need("rdma_get_request", cm.get_request)
        .need("rdma_accept", cm.accept)
        .need("rdma_reject", cm.reject)
        .need("rdma_notify", cm.notify)
        .need("rdma_disconnect", cm.disconnect)
        .need("rdma_join_multicast", cm.join_multicast)
        .need("rdma_leave_multicast", cm.leave_multicast)
        .need("rdma_get_cm_event", cm.get_cm_event)
        .need("rdma_ack_cm_event", cm.ack_cm_event)
        .need("rdma_get_devices", cm.get_devices)
        .need("rdma_free_devices", cm.free_devices)
        .need("rdma_set_option", cm.set_option)
        .need("rdma_migrate_id", cm.migrate_id)
        .need("rdma_getaddrinfo", cm.getaddrinfo);
    library.want("rdma_join_multicast_ex", cm.join_multicast_ex)
        .want("rdma_establish", cm.establish)
        .want("rdma_init_qp_attr", cm.init_qp_attr)
        .want("rdma_reject_ece", cm.reject_ece)
        .want("rdma_set_local_ece", cm.set_local_ece)
        .want("rdma_get_remote_ece", cm.get_remote_ece);
    return library.complete() ? std::optional(cm) : std::nullopt;
}

template<typename Functions>
const Functions* or_nosys(const std::optional<Functions>& found) noexcept {
    if (!found) {
        errno = ENOSYS;
        return nullptr;
    }
    return &*found;
}

} // namespace

const RealVerbs* real_verbs() noexcept {
    static const std::optional<RealVerbs> verbs = find_verbs();
    return or_nosys(verbs);
}

const RealCm* real_cm() noexcept {
    static const std::optional<RealCm> cm = find_cm();
    return or_nosys(cm);
}

bool kernel_connects() noexcept {
    return access("/dev/infiniband/rdma_cm", R_OK | W_OK) == 0 && real_cm() != nullptr;
}

bool is_in_librdmacm(const void* caller) noexcept {
    const RealCm* const cm = real_cm();
    Dl_info its{};
    Dl_info callers{};
    return cm != nullptr && dladdr(reinterpret_cast<const void*>(cm->create_id), &its) != 0 &&
           dladdr(caller, &callers) != 0 && its.dli_fbase == callers.dli_fbase;
}

} // namespace sluice::layers::hooks
