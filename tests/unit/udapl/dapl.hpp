// SPDX-License-Identifier: BSD-3-Clause
//
// Our provider as programs see it: through libdat, on a device that every machine has.
#pragma once

#include <dat/udat.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/loopback.hpp"

// Last: its macros are common words.
#include "tests/cmocka.hpp"

namespace sluice::dapl::test {

constexpr DAT_RETURN coded(unsigned type, unsigned subtype = DAT_NO_SUBTYPE) {
    return DAT_CLASS_ERROR | type | subtype;
}

inline bool is_own_device_named() {
    return std::getenv("DAT_TEST_DEVICE") != nullptr;
}

// There, a message that finds no receive ends the connection instead of waiting, a write is done when it has
// left, and who accepts is connected without the peer's word: docs/dat-conformance.md.
inline bool is_over_iwarp() {
    const char* const device = std::getenv("DAT_TEST_DEVICE");
    return device != nullptr && std::string_view(device).starts_with("siw");
}

// An address of this process alone, or the device that DAT_TEST_DEVICE names, for all.
inline std::string own_device(unsigned number = 0) {
    const char* const device = std::getenv("DAT_TEST_DEVICE");
    return device != nullptr ? device : sluice::test::own_address(number);
}

struct Opened {
    explicit Opened(std::string name = own_device()) {
        const DAT_RETURN status = dat_ia_open(name.data(), 8, &async_evd, &ia);
        if (status != DAT_SUCCESS) {
            fail_msg("%s: 0x%x", name.c_str(), status);
        }
    }
    ~Opened() {
        if (!is_closed) {
            assert_int_equal(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
        }
    }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

    DAT_PZ_HANDLE make_pz() const {
        DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
        assert_int_equal(dat_pz_create(ia, &pz), DAT_SUCCESS);
        return pz;
    }
    DAT_EVD_HANDLE make_evd(int length = 4, int flags = DAT_EVD_SOFTWARE_FLAG) const {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        assert_int_equal(dat_evd_create(ia, length, DAT_HANDLE_NULL, static_cast<DAT_EVD_FLAGS>(flags), &evd),
                         DAT_SUCCESS);
        return evd;
    }

    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    bool is_closed = false; // by the test
};

// Software events, told apart by their number.
inline DAT_RETURN post(DAT_EVD_HANDLE evd, std::uintptr_t number) {
    DAT_EVENT event{};
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = reinterpret_cast<void*>(number); // NOLINT
    return dat_evd_post_se(evd, &event);
}

inline void must_be(const DAT_EVENT& event, DAT_EVD_HANDLE evd, std::uintptr_t number) {
    assert_int_equal(event.event_number, DAT_SOFTWARE_EVENT);
    assert_ptr_equal(event.evd_handle, evd);
    assert_int_equal(reinterpret_cast<std::uintptr_t>(event.event_data.software_event_data.pointer), number);
}

inline void must_dequeue(DAT_EVD_HANDLE evd, std::uintptr_t number) {
    DAT_EVENT event{};
    assert_int_equal(dat_evd_dequeue(evd, &event), DAT_SUCCESS);
    must_be(event, evd, number);
}

// Whole pages, which belong to nobody else.
template<typename T>
struct InPages {
    using value_type = T;
    static constexpr std::size_t kPage = 4096;

    T* allocate(std::size_t count) {
        return static_cast<T*>(std::aligned_alloc(kPage, (count * sizeof(T) + kPage - 1) / kPage * kPage));
    }
    void deallocate(T* memory, std::size_t) noexcept { std::free(memory); }
    bool operator==(const InPages&) const = default;
};

// A registered block, with all that registering tells.
struct Block {
    Block(const Opened& opened, DAT_PZ_HANDLE its_pz, unsigned privileges = DAT_MEM_PRIV_ALL_FLAG,
          std::size_t size = 4096)
        : ia(opened.ia), pz(its_pz), bytes(size) {
        DAT_REGION_DESCRIPTION region{};
        region.for_va = bytes.data();
        status = dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, size, pz,
                                static_cast<DAT_MEM_PRIV_FLAGS>(privileges), &lmr, &context, &key,
                                &registered_size, &registered_address);
    }

    DAT_VADDR address(std::size_t offset = 0) const {
        return reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
    }
    DAT_LMR_TRIPLET part(std::size_t offset, DAT_VLEN length) const {
        return {context, 0, address(offset), length};
    }

    DAT_IA_HANDLE ia;
    DAT_PZ_HANDLE pz;
    std::vector<std::uint8_t, InPages<std::uint8_t>> bytes;
    DAT_RETURN status = DAT_SUCCESS;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context = 0;
    DAT_RMR_CONTEXT key = 0;
    DAT_VLEN registered_size = 0;
    DAT_VADDR registered_address = 0;
};

} // namespace sluice::dapl::test
