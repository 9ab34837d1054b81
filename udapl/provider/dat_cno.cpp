// SPDX-License-Identifier: BSD-3-Clause
//
// Consumer notification objects.
#include "udapl/provider/cno.hpp"
#include "udapl/provider/dat_lifetime.hpp"
#include "udapl/provider/dat_version.hpp"

namespace sluice::dapl {

namespace {

Agent agent_of(const DAT_OS_WAIT_PROXY_AGENT& agent) noexcept {
    return {agent.instance_data, agent.proxy_agent_func};
}

DAT_RETURN cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE* cno_handle) {
    if (cno_handle == nullptr) {
        return wrong_argument(3);
    }
    return Dat::answer([&] {
        Result<Pin<Ia>> ia = handles().get<Ia>(ia_handle);
        return ia ? adopt(**ia, Cno::make(**ia, agent_of(agent)), cno_handle)
                  : wrong_handle(DAT_INVALID_HANDLE_IA);
    });
}

// Calls FUNCTION with the CNO that HANDLE names.
template<typename Function>
DAT_RETURN with_cno(DAT_CNO_HANDLE handle, Function&& function) {
    const Result<Pin<Cno>> cno = handles().get<Cno>(handle);
    return cno ? function(**cno) : wrong_handle(DAT_INVALID_HANDLE_CNO);
}

DAT_RETURN cno_modify_agent(DAT_CNO_HANDLE handle, DAT_OS_WAIT_PROXY_AGENT agent) {
    return Dat::answer([&] {
        Result<Pin<Cno>> cno = handles().get<Cno>(handle);
        if (!cno) {
            return wrong_handle(DAT_INVALID_HANDLE_CNO);
        }
        Cno::set_agent(*std::move(cno), agent_of(agent));
        return kSuccess;
    });
}

DAT_RETURN cno_query(DAT_CNO_HANDLE handle, DAT_CNO_PARAM_MASK mask, DAT_CNO_PARAM* param) {
    return with_cno(handle, [&](Cno& cno) {
        if (!is_mask(mask, kCnoFields)) {
            return wrong_argument(2);
        }
        if (param == nullptr) {
            return wrong_argument(3);
        }
        *param = {};
        param->ia_handle = as_programs_know(cno.ia().handle());
        add_own(cno.agent(), *param);
        return kSuccess;
    });
}

DAT_RETURN cno_wait(DAT_CNO_HANDLE handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE* evd_handle) {
    if (evd_handle == nullptr) {
        return wrong_argument(3);
    }
    return with_cno(handle, [&](Cno& cno) {
        void* evd = nullptr;
        const CnoAnswer answer = cno.wait(timeout, evd);
        *evd_handle = evd;
        switch (answer) {
        case CnoAnswer::kDone:
            return kSuccess;
        case CnoAnswer::kTimedOut:
            return failure(DAT_QUEUE_EMPTY);
        case CnoAnswer::kInterrupted:
            return failure(DAT_INTERRUPTED_CALL, DAT_SUB_INTERRUPTED);
        case CnoAnswer::kDead:
            return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_DEAD);
        }
        return failure(DAT_INTERNAL_ERROR);
    });
}

DAT_RETURN cno_free(DAT_CNO_HANDLE handle) {
    const bool has_waiter = [&] {
        const Result<Pin<Cno>> cno = handles().get<Cno>(handle);
        return cno && (*cno)->has_waiter();
    }();
    return has_waiter ? failure(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_IN_USE)
                      : free_object<Cno>(handle, DAT_INVALID_HANDLE_CNO, DAT_INVALID_STATE_CNO_IN_USE);
}

} // namespace

void add_cno_functions(DAT_PROVIDER& table) noexcept {
    table.cno_create_func = cno_create;
    table.cno_modify_agent_func = cno_modify_agent;
    table.cno_query_func = cno_query;
    table.cno_free_func = cno_free;
    table.cno_wait_func = cno_wait;
}

} // namespace sluice::dapl
