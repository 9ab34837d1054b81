// SPDX-License-Identifier: BSD-3-Clause
//
// DAT's side of the comparison: adapters and endpoints on uroce, as programs make them; whatever fails ends
// the benchmark.
#pragma once

#include <dat/udat.h>

#include "tests/bench/uroce_end.hpp"

namespace sluice::bench {

inline void must(DAT_RETURN status, const char* what) {
    if (status != DAT_SUCCESS) {
        const char* type = "?";
        const char* subtype = "";
        (void)dat_strerror(status, &type, &subtype);
        std::fprintf(stderr, "bench_udapl: %s: %s %s\n", what, type, subtype);
        _exit(1);
    }
}

// An IA with a zone.
class Adapter {
  public:
    explicit Adapter(std::string address) {
        must(dat_ia_open(address.data(), 8, &errors_, &ia_), "dat_ia_open");
        must(dat_pz_create(ia_, &pz_), "dat_pz_create");
    }
    ~Adapter() { must(dat_ia_close(ia_, DAT_CLOSE_ABRUPT_FLAG), "dat_ia_close"); }
    Adapter(const Adapter&) = delete;
    Adapter& operator=(const Adapter&) = delete;

    DAT_IA_HANDLE ia() const { return ia_; }
    DAT_PZ_HANDLE pz() const { return pz_; }

    DAT_EVD_HANDLE make_evd(DAT_COUNT length, DAT_EVD_FLAGS flags) const {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        must(dat_evd_create(ia_, length, DAT_HANDLE_NULL, flags, &evd), "dat_evd_create");
        return evd;
    }
    DAT_LMR_HANDLE make_lmr(const Buffer& memory, DAT_VLEN bytes, DAT_LMR_CONTEXT* context = nullptr) const {
        DAT_REGION_DESCRIPTION region{};
        region.for_va = memory.data();
        DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
        must(dat_lmr_create(ia_, DAT_MEM_TYPE_VIRTUAL, region, bytes, pz_, DAT_MEM_PRIV_ALL_FLAG, &lmr,
                            context, nullptr, nullptr, nullptr),
             "dat_lmr_create");
        return lmr;
    }

  private:
    DAT_EVD_HANDLE errors_ = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz_ = DAT_HANDLE_NULL;
};

// Endpoints of an adapter, connected to each other by twos; they share their dispatchers.
class Endpoints {
  public:
    // Each has a queue of DEPTH in each direction.
    Endpoints(const Adapter& adapter, DAT_COUNT depth, DAT_COUNT evd_length)
        : adapter_(adapter), connections_(adapter.make_evd(
                                 16, static_cast<DAT_EVD_FLAGS>(DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG))),
          requests_(adapter.make_evd(evd_length, DAT_EVD_DTO_FLAG)),
          receives_(adapter.make_evd(evd_length, DAT_EVD_DTO_FLAG)) {
        attr_.service_type = DAT_SERVICE_TYPE_RC;
        attr_.qos = DAT_QOS_BEST_EFFORT;
        attr_.max_recv_dtos = attr_.max_request_dtos = depth;
        attr_.max_recv_iov = attr_.max_request_iov = 1;
        attr_.max_rdma_read_in = attr_.max_rdma_read_out = 4;
        attr_.srq_soft_hw = DAT_HW_DEFAULT;
        must(dat_psp_create_any(adapter.ia(), &qualifier_, connections_, DAT_PSP_CONSUMER_FLAG, &listener_),
             "dat_psp_create_any");
        DAT_IA_ATTR ia{};
        must(dat_ia_query(adapter.ia(), nullptr, DAT_IA_FIELD_IA_ADDRESS_PTR, &ia, 0, nullptr),
             "dat_ia_query");
        address_ = ia.ia_address_ptr;
    }

    // One more pair; the first of it.
    DAT_EP_HANDLE add_pair(DAT_EP_HANDLE* other = nullptr) {
        const DAT_EP_HANDLE active = make();
        const DAT_EP_HANDLE passive = make();
        must(dat_ep_connect(active, address_, qualifier_, DAT_TIMEOUT_INFINITE, 0, nullptr,
                            DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
             "dat_ep_connect");
        const DAT_EVENT request = next(DAT_CONNECTION_REQUEST_EVENT);
        must(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, passive, 0, nullptr),
             "dat_cr_accept");
        next(DAT_CONNECTION_EVENT_ESTABLISHED);
        next(DAT_CONNECTION_EVENT_ESTABLISHED);
        if (other != nullptr) {
            *other = passive;
        }
        return active;
    }

    DAT_EVD_HANDLE requests() const { return requests_; }
    DAT_EVD_HANDLE receives() const { return receives_; }

  private:
    DAT_EP_HANDLE make() const {
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        must(dat_ep_create(adapter_.ia(), adapter_.pz(), receives_, requests_, connections_, &attr_, &ep),
             "dat_ep_create");
        return ep;
    }
    DAT_EVENT next(DAT_EVENT_NUMBER number) const {
        DAT_EVENT event{};
        DAT_COUNT left = 0;
        must(dat_evd_wait(connections_, DAT_TIMEOUT_INFINITE, 1, &event, &left), "dat_evd_wait");
        must(event.event_number == number ? DAT_SUCCESS : DAT_INTERNAL_ERROR, "connecting");
        return event;
    }

    const Adapter& adapter_;
    DAT_EVD_HANDLE connections_;
    DAT_EVD_HANDLE requests_;
    DAT_EVD_HANDLE receives_;
    DAT_EP_ATTR attr_{};
    DAT_PSP_HANDLE listener_ = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier_ = 0;
    DAT_IA_ADDRESS_PTR address_ = nullptr;
};

} // namespace sluice::bench
