// SPDX-License-Identifier: BSD-3-Clause
//
// What stands before libibverbs, and before libsluice for libraries that open a uroce device by name.
#include <infiniband/verbs.h>
#include <sluice/sluice.h>

#include "layers/hooks/next.hpp"
#include "layers/hooks/opening.hpp"
#include "layers/trace/operations.hpp"
#include "layers/trace/recorder.hpp"

// libibverbs' header has macros of these names.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace trace = sluice::layers::trace;

using sluice::layers::hooks::Next;
using trace::file::Kind;

namespace {

template<typename Call>
ibv_context* take_opened(Call&& call) noexcept {
    const auto [opened, is_outermost] = sluice::layers::hooks::open_by(call);
    if (is_outermost) {
        trace::take_over(opened);
    }
    return opened;
}

void record_call(Kind kind, const ibv_context* context, std::uint64_t id, std::uint32_t key,
                 bool failed) noexcept {
    trace::record({.time_ns = trace::now_ns(),
                   .id = id,
                   .bytes = 0,
                   .queue_pair = key,
                   .device = trace::tag_of(context),
                   .kind = kind,
                   .code = 0,
                   .status = failed ? std::uint8_t{1} : std::uint8_t{0},
                   .flags = 0});
}

// CALL registers memory at ADDRESS.
template<typename Call>
ibv_mr* record_registration(const ibv_pd* pd, const void* address, std::uint64_t bytes,
                            Call&& call) noexcept {
    if (trace::writing.is_registering) {
        return call();
    }
    const ibv_context* const context = pd != nullptr ? pd->context : nullptr;
    trace::writing.is_registering = true;
    record_call(Kind::kRegister, context, reinterpret_cast<std::uintptr_t>(address), 0, false);
    ibv_mr* const made = call();
    trace::writing.is_registering = false;
    record_call(Kind::kRegistered, context, bytes, made != nullptr ? made->lkey : 0, made == nullptr);
    return made;
}

} // namespace

extern "C" {
#pragma GCC visibility push(default)

ibv_context* ibv_open_device(ibv_device* device) {
    static constinit Next<ibv_context*(ibv_device*)> real("ibv_open_device");
    return take_opened([&] { return real.call(static_cast<ibv_context*>(nullptr), device); });
}

ibv_context* ibv_import_device(int cmd_fd) {
    static constinit Next<ibv_context*(int)> real("ibv_import_device");
    return take_opened([&] { return real.call(static_cast<ibv_context*>(nullptr), cmd_fd); });
}

ibv_context* sluice_open_uroce(const char* name) {
    static constinit Next<ibv_context*(const char*)> real("sluice_open_uroce");
    return take_opened([&] { return real.call(static_cast<ibv_context*>(nullptr), name); });
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* how) {
    static constinit Next<ibv_qp*(ibv_pd*, ibv_qp_init_attr*)> real("ibv_create_qp");
    ibv_qp* const made = real.call(static_cast<ibv_qp*>(nullptr), pd, how);
    if (made != nullptr) {
        trace::take_pair(made, how->qp_type, how->sq_sig_all != 0, how->srq);
    }
    return made;
}

int ibv_destroy_qp(ibv_qp* qp) {
    static constinit Next<int(ibv_qp*)> real("ibv_destroy_qp");
    const ibv_context* const context = qp->context;
    const std::uint32_t number = qp->qp_num;
    const int error = real.call(ENOSYS, qp);
    if (error == 0) {
        record_call(Kind::kQueuePairEnded, context, 0, number, false);
    }
    return error;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* memory, std::size_t length, int access) {
    static constinit Next<ibv_mr*(ibv_pd*, void*, std::size_t, int)> real("ibv_reg_mr");
    return record_registration(pd, memory, length, [&] {
        return real.call(static_cast<ibv_mr*>(nullptr), pd, memory, length, access);
    });
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* memory, std::size_t length, std::uint64_t first, int access) {
    static constinit Next<ibv_mr*(ibv_pd*, void*, std::size_t, std::uint64_t, int)> real("ibv_reg_mr_iova");
    return record_registration(pd, memory, length, [&] {
        return real.call(static_cast<ibv_mr*>(nullptr), pd, memory, length, first, access);
    });
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* memory, std::size_t length, std::uint64_t first,
                         unsigned int access) {
    static constinit Next<ibv_mr*(ibv_pd*, void*, std::size_t, std::uint64_t, unsigned)> real(
        "ibv_reg_mr_iova2");
    return record_registration(pd, memory, length, [&] {
        return real.call(static_cast<ibv_mr*>(nullptr), pd, memory, length, first, access);
    });
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t first, int fd,
                          int access) {
    static constinit Next<ibv_mr*(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int)> real(
        "ibv_reg_dmabuf_mr");
    return record_registration(pd, nullptr, length, [&] {
        return real.call(static_cast<ibv_mr*>(nullptr), pd, offset, length, first, fd, access);
    });
}

int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* memory, std::size_t length, int access) {
    static constinit Next<int(ibv_mr*, int, ibv_pd*, void*, std::size_t, int)> real("ibv_rereg_mr");
    const ibv_context* const context = mr->context;
    const bool is_moved = (static_cast<unsigned>(flags) & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
    record_call(Kind::kRegister, context, reinterpret_cast<std::uintptr_t>(is_moved ? memory : mr->addr), 0,
                false);
    const int error =
        real.call(static_cast<int>(IBV_REREG_MR_ERR_INPUT), mr, flags, pd, memory, length, access);
    record_call(Kind::kRegistered, context, mr->length, mr->lkey, error != 0);
    return error;
}

int ibv_dereg_mr(ibv_mr* mr) {
    static constinit Next<int(ibv_mr*)> real("ibv_dereg_mr");
    const ibv_context* const context = mr->context;
    const std::uint32_t key = mr->lkey;
    const std::uint64_t bytes = mr->length;
    record_call(Kind::kDeregister, context, reinterpret_cast<std::uintptr_t>(mr->addr), key, false);
    const int error = real.call(ENOSYS, mr);
    record_call(Kind::kDeregistered, context, bytes, key, error != 0);
    return error;
}

// It is posted between ibv_wr_start() and ibv_wr_complete(), past the functions that ibv_qp_ex has.
int sluice_wr_flush(ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, std::size_t length,
                    std::uint8_t type, std::uint8_t level) {
    static constinit Next<int(ibv_qp_ex*, std::uint32_t, std::uint64_t, std::size_t, std::uint8_t,
                              std::uint8_t)>
        real("sluice_wr_flush");
    const int error = real.call(ENOSYS, qp, key, address, length, type, level);
    if (error == 0) {
        trace::record_flush(qp, length);
    }
    return error;
}

#pragma GCC visibility pop
} // extern "C"
