// SPDX-License-Identifier: BSD-3-Clause
//
// What rxe and siw refuse alike. Nothing reaches the kernel then, which the fake one's count of live
// objects shows when the device is closed.
#pragma once

#include <cerrno>
#include <cstring>

#include "provider/common/objects.hpp"
#include "tests/unit/provider/opened_device.hpp"

namespace sluice::provider::testing {

// Any number, as a caller in C may give it.
template<typename Enumeration>
Enumeration number(std::uint32_t value) {
    Enumeration made{};
    static_assert(sizeof made == sizeof value);
    std::memcpy(&made, &value, sizeof made);
    return made;
}

template<typename T>
void expect_null(const T* made, int error) {
    assert_null(made);
    assert_int_equal(errno, error);
}

// REFUSED(errno, change of the attributes) makes a queue pair with one thing wrong.
template<typename Refused>
void refuse_foreign_parts(const ibv_cq* cq, Refused&& refused) {
    ibv_context other{};
    ibv_cq foreign_cq = *cq;
    foreign_cq.context = &other;
    ibv_srq foreign_srq{};
    foreign_srq.context = &other;
    ibv_pd foreign_pd{};
    foreign_pd.context = &other;
    refused(EINVAL, [](ibv_qp_init_attr_ex& attr) { attr.send_cq = nullptr; });
    refused(EINVAL, [](ibv_qp_init_attr_ex& attr) { attr.recv_cq = nullptr; });
    refused(EINVAL, [&](ibv_qp_init_attr_ex& attr) { attr.send_cq = &foreign_cq; });
    refused(EINVAL, [&](ibv_qp_init_attr_ex& attr) { attr.recv_cq = &foreign_cq; });
    refused(EINVAL, [&](ibv_qp_init_attr_ex& attr) { attr.srq = &foreign_srq; });
    refused(EINVAL, [&](ibv_qp_init_attr_ex& attr) { attr.pd = &foreign_pd; });
    refused(EINVAL, [](ibv_qp_init_attr_ex& attr) { attr.pd = nullptr; });
    refused(EINVAL, [](ibv_qp_init_attr_ex& attr) { attr.comp_mask &= ~std::uint32_t{IBV_QP_INIT_ATTR_PD}; });
    refused(EOPNOTSUPP, [](ibv_qp_init_attr_ex& attr) { attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD; });
    refused(EOPNOTSUPP, [](ibv_qp_init_attr_ex& attr) {
        attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
        attr.create_flags = 1;
    });
}

inline void
refuse_wrong_completion_queues(const OpenedDevice& device, ibv_pd* plain_domain,
                               ibv_cq* (*create)(ibv_context*, int, ibv_comp_channel*, int) noexcept,
                               ibv_cq_ex* (*create_ex)(ibv_context*, ibv_cq_init_attr_ex*) noexcept) {
    ibv_context other{};
    ibv_comp_channel foreign_channel{};
    foreign_channel.context = &other;
    ProtectionDomain foreign_domain;
    foreign_domain.context = &other;
    foreign_domain.parent = &foreign_domain;
    expect_null(create(device.context(), 4, &foreign_channel, 0), EINVAL);
    const auto refused = [&](int error, auto&& change) {
        ibv_cq_init_attr_ex attr{};
        attr.cqe = 4;
        attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
        change(attr);
        expect_null(create_ex(device.context(), &attr), error);
    };
    refused(EINVAL, [&](ibv_cq_init_attr_ex& attr) { attr.channel = &foreign_channel; });
    refused(EINVAL, [&](ibv_cq_init_attr_ex& attr) { attr.parent_domain = &foreign_domain; });
    refused(EINVAL, [&](ibv_cq_init_attr_ex& attr) { attr.parent_domain = plain_domain; });
    refused(EOPNOTSUPP, [](ibv_cq_init_attr_ex& attr) { attr.flags = 1U << 20; });
    refused(EOPNOTSUPP, [](ibv_cq_init_attr_ex& attr) { attr.comp_mask |= 1U << 20; });
    refused(EOPNOTSUPP,
            [](ibv_cq_init_attr_ex& attr) { attr.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP; });
}

inline void refuse_foreign_domains(OpenedDevice& device, ibv_pd* pd) {
    ibv_context other{};
    ibv_pd foreign_pd{};
    foreign_pd.context = &other;
    ThreadDomain foreign_td;
    foreign_td.context = &other;
    const auto refused = [&](int error, ibv_pd* domain, ibv_td* td, std::uint32_t mask) {
        ibv_parent_domain_init_attr attr{};
        attr.pd = domain;
        attr.td = td;
        attr.comp_mask = mask;
        expect_null(device.call<ibv_pd*(ibv_context*, ibv_parent_domain_init_attr*)>(
                        abi::Slot::alloc_parent_domain, device.context(), &attr),
                    error);
    };
    refused(EINVAL, nullptr, nullptr, 0);
    refused(EINVAL, &foreign_pd, nullptr, 0);
    refused(EINVAL, pd, &foreign_td, 0);
    refused(EOPNOTSUPP, pd, nullptr, 1U << 20);
    ibv_td_init_attr td_attr{};
    td_attr.comp_mask = 1;
    expect_null(device.call<ibv_td*(ibv_context*, ibv_td_init_attr*)>(abi::Slot::alloc_td, device.context(),
                                                                      &td_attr),
                EOPNOTSUPP);
    abi::VerbsMr region{};
    region.mr.context = device.context();
    for (ibv_pd* const to : {static_cast<ibv_pd*>(nullptr), &foreign_pd}) {
        const int error = device.call<int(abi::VerbsMr*, int, ibv_pd*, void*, std::size_t, int)>(
            abi::Slot::rereg_mr, &region, int{IBV_REREG_MR_CHANGE_PD}, to, static_cast<void*>(nullptr),
            std::size_t{0}, 0);
        assert_int_equal(error, EINVAL);
    }
}

} // namespace sluice::provider::testing
