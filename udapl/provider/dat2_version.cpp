// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/dat2_version.hpp"

#include <cstring>

#include "udapl/provider/dat2_names.hpp"

namespace sluice::dapl {

namespace {

static_assert(static_cast<int>(DtoOperation::kSend) == DAT_DTO_SEND &&
              static_cast<int>(DtoOperation::kWrite) == DAT_DTO_RDMA_WRITE &&
              static_cast<int>(DtoOperation::kRead) == DAT_DTO_RDMA_READ &&
              static_cast<int>(DtoOperation::kReceive) == DAT_DTO_RECEIVE &&
              static_cast<int>(DtoOperation::kBind) == DAT_DTO_BIND_MW &&
              static_cast<int>(DtoOperation::kWriteImmediate) == DAT_IB_DTO_RDMA_WRITE_IMMED &&
              static_cast<int>(DtoOperation::kReceiveWriteImmediate) == DAT_IB_DTO_RECV_IMMED &&
              static_cast<int>(DtoOperation::kFetchAdd) == DAT_IB_DTO_FETCH_ADD &&
              static_cast<int>(DtoOperation::kCompareSwap) == DAT_IB_DTO_CMP_SWAP &&
              static_cast<int>(DtoOperation::kReceiveSendImmediate) == DAT_IB_DTO_RECV_MSG_IMMED);

constexpr char kYes[] = "TRUE";
constexpr std::size_t kMtus = 5; // of IBV_MTU_256 and those that follow

// The names are OpenFabrics': programs look for them. Those behind the first are missing over iWARP.
using Attributes = std::array<DAT_NAMED_ATTR, 6>;
constexpr DAT_COUNT kOverIwarp = 2;

constexpr Attributes attributes_with(const char* mtu) {
    return {{{"DAT_IB_TRANSPORT_MTU", mtu},
             {"DAT_IB_RDMA_READ", kYes},
             {"DAT_EXTENSION_INTERFACE", kYes},
             {"DAT_IB_IMMED_DATA", kYes},
             {"DAT_IB_FETCH_AND_ADD", kYes},
             {"DAT_IB_CMP_AND_SWAP", kYes}}};
}

constinit std::array<Attributes, kMtus> attributes_by_mtu{attributes_with("256"), attributes_with("512"),
                                                          attributes_with("1024"), attributes_with("2048"),
                                                          attributes_with("4096")};

// A device that doesn't tell sends packets of the least size.
Attributes& attributes_of(const Device& device) noexcept {
    const Result<ibv_port_attr> port = device.context().query_port(1);
    const ibv_mtu mtu = port ? port->active_mtu : IBV_MTU_256;
    const bool is_known = mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096;
    return attributes_by_mtu[is_known ? static_cast<std::size_t>(mtu - IBV_MTU_256) : 0];
}

DAT_COUNT attribute_count(const Device& device) noexcept {
    if (device.context().is_iwarp()) {
        return kOverIwarp;
    }
    const bool has_atomics = device.limits().atomic_cap != IBV_ATOMIC_NONE;
    return static_cast<DAT_COUNT>(std::tuple_size_v<Attributes>) - (has_atomics ? 0 : 2);
}

DAT_IB_EXT_TYPE extension_of(DtoOperation operation) noexcept {
    switch (operation) {
    case DtoOperation::kFetchAdd:
        return DAT_IB_FETCH_AND_ADD;
    case DtoOperation::kCompareSwap:
        return DAT_IB_CMP_AND_SWAP;
    case DtoOperation::kWriteImmediate:
        return DAT_IB_RDMA_WRITE_IMMED;
    case DtoOperation::kReceiveWriteImmediate:
        return DAT_IB_RDMA_WRITE_IMMED_DATA;
    case DtoOperation::kReceiveSendImmediate:
    case DtoOperation::kSend: // from here on there is no extension
    case DtoOperation::kWrite:
    case DtoOperation::kRead:
    case DtoOperation::kReceive:
    case DtoOperation::kBind:
        break;
    }
    return DAT_IB_RECV_IMMED_DATA;
}

} // namespace

void add_extension(const Event& transfer, DAT_EVENT& converted) noexcept {
    converted.event_number = DAT_IB_DTO_EVENT;
    const DAT_IB_EXTENSION_EVENT_DATA data{
        extension_of(transfer.operation),
        transfer.status == DtoStatus::kSuccess ? DAT_OP_SUCCESS : DAT_IB_OP_ERR, transfer.immediate};
    static_assert(sizeof data <= sizeof converted.event_extension_data);
    std::memset(converted.event_extension_data, 0, sizeof converted.event_extension_data);
    std::memcpy(converted.event_extension_data, &data, sizeof data);
}

// libdat2 refuses every extension by itself while no open adapter has any.
void add_own(const Device& device, DAT_IA_ATTR& attr) noexcept {
    if (!device.context().is_iwarp()) {
        attr.extension_supported = DAT_EXTENSION_IB;
        attr.extension_version = DAT_IB_EXTENSION_VERSION;
    }
}

// libdat2 closes an adapter by the name, version and thread safety that it asks for here.
void add_own(const IaContext& ia, DAT_PROVIDER_ATTR& attr) noexcept {
    attr.is_thread_safe = name_of(ia.handle()).is_thread_safe;
    attr.rmr_scope_supported = DAT_RMR_SCOPE_PZ;
    attr.num_provider_specific_attr = attribute_count(ia.device());
    attr.provider_specific_attr = attributes_of(ia.device()).data();
}

} // namespace sluice::dapl
