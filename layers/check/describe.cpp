// SPDX-License-Identifier: BSD-3-Clause
#include "layers/check/describe.hpp"

#include <cstdio>

#include "layers/check/registry.hpp"
#include "layers/hooks/next.hpp"

namespace sluice::layers::check {

namespace {

const char* word_for(Kind kind) noexcept {
    switch (kind) {
    case Kind::kSend:
        return "Send";
    case Kind::kWrite:
        return "Write";
    case Kind::kRead:
        return "Read";
    case Kind::kAtomic:
        return "Atomic";
    case Kind::kBind:
        return "Bind";
    case Kind::kInvalidate:
        return "Invalidate";
    case Kind::kReceive:
        return "Receive";
    case Kind::kOther:
        break;
    }
    return "Request";
}

} // namespace

std::string hex(std::uint64_t number) {
    char text[24];
    (void)std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
    return text;
}

std::string device_of(const ibv_context* context) {
    const std::shared_ptr<Context> found = Registry::instance().contexts.find(context);
    return found != nullptr ? found->device : "an unknown device";
}

std::string name_of(const QueuePair& pair) {
    return "queue pair " + std::to_string(pair.number) + " of " + pair.context->device;
}

std::string name_of(const Queue& queue) {
    return "completion queue " + std::to_string(queue.number) + " of " + queue.context->device;
}

std::string name_of(const SharedQueue& queue) {
    return "shared receive queue " + std::to_string(queue.number) + " of " + queue.context->device;
}

std::string name_of(const Region& region) {
    return "region " + hex(region.local_key) + " (" + std::to_string(region.length) + " bytes at " +
           hex(region.memory) + ")";
}

std::string name_of(const Request& request) {
    return std::string(word_for(request.kind)) + " " + std::to_string(request.number);
}

std::string status_name(ibv_wc_status status) {
    static constinit hooks::Next<const char*(ibv_wc_status)> real("ibv_wc_status_str");
    const auto function = real.get();
    return function != nullptr ? function(status) : "status " + std::to_string(status);
}

} // namespace sluice::layers::check
