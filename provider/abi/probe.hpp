// SPDX-License-Identifier: BSD-3-Clause
//
// Finding out how the libibverbs in this process talks to its providers.
//
// The interface between libibverbs and a provider is private and changes, sometimes under the
// same version label. So nothing of it is linked against: the few functions that are needed are
// looked up by name, and the layout is measured by letting them work on scratch memory that we
// own. A layout is taken if it is a known one, or the newest known one with operations behind it
// that we don't know; whatever comes out otherwise is refused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/result.hpp"
#include "provider/abi/layout.hpp"
#include "provider/abi/slots.hpp"

namespace sluice::abi {

inline constexpr const char* kLibrary = "libibverbs.so.1";

// The functions of libibverbs that the plugin uses. Those with ibv_ in their name are public.
struct Symbols {
    void (*register_driver)(const VerbsDeviceOps* ops);
    void* (*init_and_alloc_context)(ibv_device* device, int cmd_fd, std::size_t size,
                                    verbs_context* context_offset, std::uint32_t driver_id);
    void (*set_ops)(verbs_context* context, const void* ops);
    void (*uninit_context)(verbs_context* context);
    ibv_qp_ex* (*qp_to_qp_ex)(ibv_qp* qp);
    void (*unimport_pd)(ibv_pd* pd); // null in a library that has none
    int version;                     // of the private interface: the NN of libNAME-rdmavNN.so
    // Whether ibv_open_device() takes a device that the kernel doesn't know: since rdma-core 37, which has
    // the layout of 36. The older one would crash.
    bool opens_without_kernel;
};

// What differs between versions of libibverbs.
struct Layout {
    std::size_t slot_count;          // operations in the provider's table that we know
    std::size_t verbs_context_bytes; // size of struct verbs_context, which ends in ibv_context
    std::size_t qp_mask_offset;      // of comp_mask in struct verbs_qp
    std::size_t appended = 0;        // operations behind those that we know
};

struct Abi {
    Symbols symbols;
    Layout layout;
};

// Looks the functions up in LIBRARY, a handle of dlopen(). kNotFound names what is missing.
Result<Symbols> find_symbols(void* library);

// Measures. Calls the library on scratch memory only; its one visible effect is a failing ioctl
// on file descriptor -1. kNotSupported tells what came out differently from every known layout.
Result<Layout> measure(const Symbols& symbols);

// Both.
Result<Abi> find_abi(void* library);

// A provider's table of operations for a libibverbs with a table of SLOT_COUNT. The core reads
// as many slots as it knows; the array is longer than any table, and what isn't set stays null.
class OpsTable {
  public:
    explicit OpsTable(std::size_t slot_count) noexcept : slot_count_(slot_count) {}

    // An operation that this libibverbs doesn't know is left out.
    template<typename Function>
    void set(Slot slot, Function* function) noexcept {
        if (const auto index = slot_index(slot, slot_count_)) {
            functions_[*index] = reinterpret_cast<const void*>(function);
        }
    }
    const void* data() const noexcept { return functions_; }

  private:
    static constexpr std::size_t kRoom = 256;
    std::size_t slot_count_;
    const void* functions_[kRoom] = {};
};

// The device's ABI number out of what the core knows of it.
std::uint32_t device_abi_version(const VerbsSysfsDevice& device, const Layout& layout) noexcept;

} // namespace sluice::abi
