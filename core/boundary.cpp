// SPDX-License-Identifier: BSD-3-Clause
#include "core/boundary.hpp"

#include <exception>
#include <new>
#include <system_error>

#include "core/log.hpp"

namespace sluice::boundary_detail {

Error describe_exception(const char* function) noexcept {
    try {
        throw;
    } catch (const std::bad_alloc&) {
        return Error::format(ErrorKind::kInsufficientResources, 0, "%s: out of memory", function);
    } catch (const std::system_error& error) {
        // A lock that can't be taken or a thread that can't be started: the number tells.
        const int number = error.code().category() == std::generic_category() ||
                                   error.code().category() == std::system_category()
                               ? error.code().value()
                               : 0;
        return Error::format(kind_of_errno(number), number, "%s: %s", function, error.what());
    } catch (const std::exception& error) {
        SLUICE_LOG(kError, "core", "%s: unexpected exception: %s; please report it", function, error.what());
        return Error::format(ErrorKind::kInternal, 0, "%s: %s", function, error.what());
    } catch (...) {
        SLUICE_LOG(kError, "core", "%s: unexpected exception; please report it", function);
        return Error::format(ErrorKind::kInternal, 0, "%s: unexpected exception", function);
    }
}

} // namespace sluice::boundary_detail
