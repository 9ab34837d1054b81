// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/dat_ep_common.hpp"

#include "udapl/provider/ia.hpp"

namespace sluice::dapl {

namespace {

static_assert(static_cast<int>(EpState::kUnconnected) == DAT_EP_STATE_UNCONNECTED &&
              static_cast<int>(EpState::kReserved) == DAT_EP_STATE_RESERVED &&
              static_cast<int>(EpState::kPassive) == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING &&
              static_cast<int>(EpState::kConnecting) == DAT_EP_STATE_ACTIVE_CONNECTION_PENDING &&
              static_cast<int>(EpState::kConnected) == DAT_EP_STATE_CONNECTED &&
              static_cast<int>(EpState::kDisconnecting) == DAT_EP_STATE_DISCONNECT_PENDING &&
              static_cast<int>(EpState::kDisconnected) == DAT_EP_STATE_DISCONNECTED &&
              static_cast<int>(EpState::kAccepting) == DAT_EP_STATE_COMPLETION_PENDING);

} // namespace

DAT_RETURN wrong_state(EpState state) noexcept {
    switch (state) {
    case EpState::kUnconnected:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_UNCONNECTED);
    case EpState::kReserved:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_RESERVED);
    case EpState::kPassive:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_PASSCONNPENDING);
    case EpState::kConnecting:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_ACTCONNPENDING);
    case EpState::kConnected:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_CONNECTED);
    case EpState::kDisconnecting:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_DISCPENDING);
    case EpState::kDisconnected:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_DISCONNECTED);
    case EpState::kAccepting:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_COMPLPENDING);
    }
    return failure(DAT_INVALID_STATE);
}

DAT_RETURN refusal(EpAnswer answer, const Ep& ep, int argument) noexcept {
    return answer == EpAnswer::kBadState ? wrong_state(ep.state()) : to_dat(answer, argument);
}

DAT_RETURN to_dat(EpAnswer answer, int argument) noexcept {
    switch (answer) {
    case EpAnswer::kDone:
        return kSuccess;
    case EpAnswer::kShared:
        return wrong_argument(1);
    case EpAnswer::kFull:
        return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    case EpAnswer::kNoEvd:
    case EpAnswer::kHasReceives:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_NOTREADY);
    case EpAnswer::kNoBindStream:
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_EVD_REQUEST);
    case EpAnswer::kTooManySegments:
        return wrong_argument(2);
    case EpAnswer::kTooLong:
        return failure(DAT_LENGTH_ERROR);
    case EpAnswer::kNoRegion:
    case EpAnswer::kOutsideRegion:
        return wrong_argument(3);
    case EpAnswer::kOtherZone:
        return failure(DAT_PROTECTION_VIOLATION);
    case EpAnswer::kNotReadable:
        return failure(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ);
    case EpAnswer::kNotWritable:
        return failure(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE);
    case EpAnswer::kBadAddress:
        return failure(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE);
    case EpAnswer::kBadFlag:
    case EpAnswer::kPrivateDataTooLong:
    case EpAnswer::kOtherModel:
        return wrong_argument(argument);
    case EpAnswer::kNoResources:
        return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEP);
    case EpAnswer::kBadState:
    case EpAnswer::kFailed:
        break;
    }
    return failure(DAT_INTERNAL_ERROR);
}

bool is_attribute_within(const char* whose, const char* name, DAT_COUNT value, DAT_COUNT least,
                         DAT_COUNT most) noexcept {
    if (value < least) {
        SLUICE_LOG(kWarning, "dat", "attributes of %s: %s %d, at least %d", whose, name, value, least);
    } else if (value > most) {
        SLUICE_LOG(kWarning, "dat", "attributes of %s: %s %d, at most %d", whose, name, value, most);
    }
    return value >= least && value <= most;
}

bool find_evd(DAT_EVD_HANDLE handle, unsigned stream, const IaContext& ia, Ref<Evd>& found) noexcept {
    if (handle == DAT_HANDLE_NULL) {
        return true;
    }
    const Result<Pin<Evd>> evd = handles().get<Evd>(handle);
    if (!evd || &(*evd)->ia() != &ia || ((*evd)->streams() & stream) == 0) {
        return false;
    }
    found = Ref<Evd>(evd->get());
    return static_cast<bool>(found);
}

bool find_connect_evd(DAT_EVD_HANDLE handle, const IaContext& ia, EpEvds& evds) noexcept {
    if (find_evd(handle, kConnectionStream, ia, evds.connect) || !kLendsConnectEvds) {
        return handle == DAT_HANDLE_NULL || static_cast<bool>(evds.connect);
    }
    const Result<Pin<Evd>> evd = handles().get<Evd>(handle);
    if (!evd || ((*evd)->streams() & kConnectionStream) == 0) {
        return false;
    }
    evds.lender = Ref<IaContext>(&(*evd)->ia());
    evds.connect = Ref<Evd>(evd->get());
    return evds.lender && evds.connect;
}

} // namespace sluice::dapl
