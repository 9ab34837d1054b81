// SPDX-License-Identifier: BSD-3-Clause
//
// An rxe device, opened by the provider through a fake libibverbs, on a fake kernel. Operations
// are called as libibverbs calls them: out of the table that the provider has handed over.
#pragma once

#include <dlfcn.h>

#include <string>

#include "provider/abi/probe.hpp"
#include "provider/common/context.hpp"
#include "provider/common/context_memory.hpp"
#include "provider/common/open.hpp"
#include "tests/cmocka.hpp"
#include "tests/unit/provider/fake_kernel.hpp"

namespace sluice::provider::testing {

class OpenedDevice {
  public:
    using Open = verbs_context* (*)(ibv_device* device, int cmd_fd, void* private_data) noexcept;

    template<typename Signature, typename... Arguments>
    auto call(abi::Slot slot, Arguments... arguments) {
        const void* function = operation_(context_, *abi::slot_index(slot, current_abi().layout.slot_count));
        assert_non_null(function);
        return reinterpret_cast<Signature*>(const_cast<void*>(function))(arguments...); // NOLINT
    }

    explicit OpenedDevice(Open open, bool siw = false, const char* version = "v45") {
        kernel.siw = siw;
        const std::string path = std::string(FAKE_IBVERBS_DIR "/libfake_ibverbs_") + version + ".so";
        library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        assert_non_null(library_);
        const Result<abi::Symbols> symbols = abi::find_symbols(library_);
        assert_true(symbols.ok());
        const Result<abi::Layout> layout = abi::measure(*symbols);
        assert_true(layout.ok());
        set_current_abi({*symbols, *layout});
        set_kernel_calls(FakeKernel::kCalls);
        device_.refcount = 1;
        verbs_context* verbs = open(&device_.device, 42, nullptr);
        assert_non_null(verbs);
        context_ = reinterpret_cast<ibv_context*>(reinterpret_cast<std::byte*>(verbs) +
                                                  layout->verbs_context_bytes - sizeof(ibv_context));
        operation_ = reinterpret_cast<Operation>(dlsym(library_, "fake_operation"));
    }
    ~OpenedDevice() {
        call<void(ibv_context*)>(abi::Slot::free_context, context_);
        assert_int_equal(*static_cast<int*>(dlsym(library_, "fake_live_contexts")), 0);
        assert_int_equal(kernel.live_mappings, 0);
        assert_int_equal(kernel.open_files, 0);
        for (const auto& [command, count] : kernel.live) {
            assert_int_equal(count, 0);
        }
        dlclose(library_);
    }
    OpenedDevice(const OpenedDevice&) = delete;
    OpenedDevice& operator=(const OpenedDevice&) = delete;

    ibv_context* context() const { return context_; }

    FakeKernel kernel;

  private:
    using Operation = const void* (*)(ibv_context*, std::size_t);

    void* library_ = nullptr;
    abi::VerbsDevice device_{};
    ibv_context* context_ = nullptr;
    Operation operation_ = nullptr;
};

} // namespace sluice::provider::testing
