// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/reach.hpp"

#include <netdb.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

#include "ibverbs-glue/context.hpp"
#include "ibverbs-glue/uroce_contexts.hpp"

namespace sluice::glue {

namespace {

using Id = std::unique_ptr<rdma_cm_id, decltype([](rdma_cm_id* id) { rdma_destroy_id(id); })>;

// One on an address that is uroce's, whatever address that is.
class UroceContext {
  public:
    static Result<UroceContext> open(const std::string& address) {
        Result<Context> opened = Context::open_uroce(address);
        return opened ? Result<UroceContext>(UroceContext(*std::move(opened))) : std::move(opened).error();
    }
    ibv_context* get() const noexcept { return context_.get(); }

  private:
    explicit UroceContext(Context context) noexcept : context_(std::move(context)) {}

    Context context_;
};

UroceContexts<UroceContext>& uroce_contexts() {
    static UroceContexts<UroceContext>& instance = *new UroceContexts<UroceContext>();
    return instance;
}

Result<Id> make_id() {
    rdma_cm_id* made = nullptr;
    Result<int> done =
        from_minus_one(rdma_create_id(nullptr, &made, nullptr, RDMA_PS_TCP), "making an id of rdma_cm");
    if (!done) {
        return std::move(done).error();
    }
    return Id(made);
}

// librdmacm keeps a device open that an id was bound to.
Result<ibv_context*> device_of(const Id& id, const Address& address) {
    if (id->verbs == nullptr) {
        return Error::format(ErrorKind::kNotFound, ENODEV, "no RDMA device has or reaches %s",
                             address.to_string().c_str());
    }
    return id->verbs;
}

// getaddrinfo() reads numbers like this, and cuts them.
bool is_beyond_ports(const char* service) noexcept {
    char* end = nullptr;
    const unsigned long number = service != nullptr ? std::strtoul(service, &end, 10) : 0;
    return number > UINT16_MAX && *end == '\0';
}

const char* text_of(int status) noexcept {
    return status == EAI_SERVICE ? "no such port" : gai_strerror(status);
}

// 0, or a code of getaddrinfo()'s.
int find_address(const char* host, const char* service, int flags, Address& address) {
    if (is_beyond_ports(service)) {
        return EAI_SERVICE;
    }
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags;
    addrinfo* found = nullptr;
    if (const int status = getaddrinfo(host, service, &hints, &found); status != 0) {
        return status;
    }
    const std::unique_ptr<addrinfo, decltype([](addrinfo* list) { freeaddrinfo(list); })> list(found);
    const Result<Address> copy = Address::from(list->ai_addr);
    if (!copy) {
        return EAI_FAMILY;
    }
    address = *copy;
    return 0;
}

} // namespace

Result<Address> look_up(const char* host, const char* service, bool for_listening) {
    Address address;
    if (const int status = find_address(host, service, for_listening ? AI_PASSIVE : 0, address);
        status != 0) {
        const int why = status == EAI_SYSTEM ? errno : status == EAI_MEMORY ? ENOMEM : ENOENT;
        return Error::format(ErrorKind::kNotFound, why, "'%s' port '%s': %s", host,
                             service == nullptr ? "" : service, text_of(status));
    }
    return address;
}

Result<Address> address_from_numbers(const char* host, const char* service) {
    Address address;
    if (const int status = find_address(host, service, AI_NUMERICHOST | AI_NUMERICSERV, address);
        status != 0) {
        return Error::format(ErrorKind::kInvalidArgument, 0,
                             "'%s' port '%s': %s; only numbers can be taken at once", host, service,
                             text_of(status));
    }
    return address;
}

Result<ibv_context*> context_at(const Address& local) {
    if (is_uroce_address(local)) {
        return uroce_contexts().at(local).and_then(
            [](UroceContexts<UroceContext>::Found found) { return Result<ibv_context*>(found.context); });
    }
    Result<Id> id = make_id();
    if (!id) {
        return std::move(id).error();
    }
    Address at = local.with_port(0);
    Result<int> bound = from_minus_one(rdma_bind_addr(id->get(), at.for_rdma_cm()), "looking for a device");
    if (!bound) {
        return std::move(bound).error();
    }
    return device_of(*id, local);
}

Result<ibv_context*> context_towards(const Address& peer, int timeout_ms) {
    const Result<std::optional<UroceContexts<UroceContext>::Found>> uroce = uroce_contexts().towards(peer);
    if (!uroce) {
        return uroce.error().clone();
    }
    if (*uroce) {
        return (*uroce)->context;
    }
    Result<Id> id = make_id();
    if (!id) {
        return std::move(id).error();
    }
    Address to = peer;
    Result<int> resolved = from_minus_one(rdma_resolve_addr(id->get(), nullptr, to.for_rdma_cm(), timeout_ms),
                                          "looking for a device towards a peer");
    if (!resolved) {
        return std::move(resolved).error();
    }
    return device_of(*id, peer);
}

} // namespace sluice::glue
