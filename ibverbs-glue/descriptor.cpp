// SPDX-License-Identifier: BSD-3-Clause
#include "ibverbs-glue/descriptor.hpp"

#include <fcntl.h>

#include "ibverbs-glue/adaptors.hpp"

namespace sluice::glue {

Result<void> make_non_blocking(int fd) {
    Result<int> flags = from_minus_one(fcntl(fd, F_GETFL), "asking for a descriptor's flags");
    if (!flags) {
        return std::move(flags).error();
    }
    Result<int> set =
        from_minus_one(fcntl(fd, F_SETFL, *flags | O_NONBLOCK), "making a descriptor non-blocking");
    return set ? Result<void>() : std::move(set).error();
}

} // namespace sluice::glue
