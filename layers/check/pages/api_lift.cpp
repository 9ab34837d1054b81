// SPDX-License-Identifier: BSD-3-Clause
//
// What a device in this process calls, which finds these functions by their names: uroce copies in the
// program's own address space.
#include "layers/check/pages/fault.hpp"

extern "C" {

// True: the page at ADDRESS was protected, and isn't any more, nor is the rest of its request. The access is
// to be repeated. Maybe in a fault's handler.
[[gnu::visibility("default")]] bool sluice_check_lift_page(void* address) { // NOLINT: a name in C
    return sluice::layers::check::pages::open_for_device(address);
}

// IS_INSIDE says of the calling thread whether it accesses memory for the device: faults there are no touches
// of the program's, whichever handler sees them first.
[[gnu::visibility("default")]] void sluice_check_know_device(bool (*is_inside)(void)) { // NOLINT
    sluice::layers::check::pages::add_device(is_inside);
}

} // extern "C"
