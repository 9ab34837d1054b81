// SPDX-License-Identifier: BSD-3-Clause
//
// Address handles. The kernel keeps them, and requests name them by number.
#include <cstring>
#include <new>

#include "core/log.hpp"
#include "provider/rxe/verbs.hpp"

namespace sluice::provider::rxe {

namespace {

void to_kernel(const ibv_ah_attr& from, ib_uverbs_ah_attr& to) noexcept {
    std::memcpy(to.grh.dgid, from.grh.dgid.raw, sizeof to.grh.dgid);
    to.grh.flow_label = from.grh.flow_label;
    to.grh.sgid_index = from.grh.sgid_index;
    to.grh.hop_limit = from.grh.hop_limit;
    to.grh.traffic_class = from.grh.traffic_class;
    to.dlid = from.dlid;
    to.sl = from.sl;
    to.src_path_bits = from.src_path_bits;
    to.static_rate = from.static_rate;
    to.is_global = from.is_global;
    to.port_num = from.port_num;
}

int destroy_in_kernel(const ibv_ah& ah) noexcept {
    const ib_uverbs_destroy_ah command{.ah_handle = ah.handle};
    return destroy_result(context_of(ah.context).uverbs.invoke(IB_USER_VERBS_CMD_DESTROY_AH, command));
}

} // namespace

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attr) noexcept {
    std::unique_ptr<Ah> ah(new (std::nothrow) Ah{});
    if (ah == nullptr) {
        return fail_with<ibv_ah>(ENOMEM);
    }
    ib_uverbs_create_ah command{};
    command.user_handle = reinterpret_cast<std::uintptr_t>(ah.get());
    command.pd_handle = kernel_domain_of(pd).handle;
    to_kernel(*attr, command.attr);
    ib_uverbs_create_ah_resp answer{};
    rxe_create_ah_resp driver{};
    if (const int error =
            context_of(pd->context)
                .uverbs.invoke(IB_USER_VERBS_CMD_CREATE_AH, command, answer, abi::driver_answer(driver))) {
        return fail_with<ibv_ah>(error);
    }
    ah->context = pd->context;
    ah->pd = pd;
    ah->handle = answer.ah_handle;
    ah->number = driver.ah_num;
    if (ah->number == 0) {
        SLUICE_LOG(kWarning, "provider",
                   "this kernel (before 5.17) numbers no address handles: no datagrams");
        (void)destroy_in_kernel(*ah);
        return fail_with<ibv_ah>(EOPNOTSUPP);
    }
    return ah.release();
}

int destroy_ah(ibv_ah* ah) noexcept {
    if (const int error = destroy_in_kernel(*ah)) {
        return error;
    }
    delete static_cast<Ah*>(ah);
    return 0;
}

} // namespace sluice::provider::rxe
