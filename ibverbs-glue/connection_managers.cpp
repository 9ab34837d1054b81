// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/connection_managers.hpp"

#include <cerrno>

namespace sluice::glue {

Result<void> check_private_data(std::span<const std::byte> private_data, std::size_t limit) {
    if (private_data.size() <= limit) {
        return {};
    }
    return Error::format(ErrorKind::kOutOfRange, EMSGSIZE,
                         "%zu bytes of private data; this message of this fabric carries %zu",
                         private_data.size(), limit);
}

Result<std::unique_ptr<ConnectionService>> open_connections(const Context& context, const Address& local) {
    Result<std::unique_ptr<ConnectionService>> service = open_uroce_cm(context, local);
    if (!service && service.error().kind() == ErrorKind::kNotSupported) {
        return open_rdma_cm(context, local);
    }
    return service;
}

} // namespace sluice::glue
