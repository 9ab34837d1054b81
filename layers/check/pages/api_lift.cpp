// SPDX-License-Identifier: BSD-3-Clause
//
// What a device in this process calls, which finds these functions by their names: uroce copies in the
// program's own address space.
#include "layers/check/pages/device_copy.hpp"
#include "layers/check/pages/fault.hpp"

extern "C" {

// True: the page at ADDRESS was protected, and isn't any more, nor is the rest of its request. The access is
// to be repeated. Maybe in a fault's handler.
[[gnu::visibility("default")]] bool sluice_check_lift_page(void* address) { // NOLINT: a name in C
    return sluice::layers::check::pages::open_for_device(address);
}

// How many bytes were copied to pages that are protected from the program, and stay so: up to the first other
// one. Those the device copies itself, and also what can't be copied here: then it has pages opened that it
// meets.
[[gnu::visibility("default")]] size_t sluice_check_store(void* to, const void* from, size_t bytes) { // NOLINT
    return sluice::layers::check::pages::store_for_device(to, from, bytes);
}
// The same from such pages.
[[gnu::visibility("default")]] size_t sluice_check_load(void* to, const void* from, size_t bytes) { // NOLINT
    return sluice::layers::check::pages::load_for_device(to, from, bytes);
}

// IS_INSIDE says of the calling thread whether it accesses memory for the device: faults there are no touches
// of the program's, whichever handler sees them first.
[[gnu::visibility("default")]] void sluice_check_know_device(bool (*is_inside)(void)) { // NOLINT
    sluice::layers::check::pages::add_device(is_inside);
}

} // extern "C"
