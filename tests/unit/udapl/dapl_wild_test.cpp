// SPDX-License-Identifier: BSD-3-Clause
//
// Each function, some hundred times, with arguments of which some are right and most are not: handles that
// are null, freed, of another kind or another adapter; flags and values that nobody has; lengths that are
// negative, huge and wrap. What it answers is a code, and the program goes on.
#include <dat/dat_registry.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <random>
#include <type_traits>
#include <utility>

#include "tests/unit/udapl/dapl_pair.hpp"

using namespace sluice::dapl::test;

namespace {

constexpr std::uint32_t kSeed = 20261120;
constexpr int kTries = 400;
constexpr int kTriesInAWorld = 50; // so that what was made and freed doesn't get rare

// One object of each kind on an adapter, and what they are registered on.
struct World {
    explicit World(unsigned number) : side(number) {
        assert_int_equal(dat_cno_create(side.opened.ia, {nullptr, nullptr}, &handles[0]), DAT_SUCCESS);
        DAT_SRQ_ATTR attr{4, 1, DAT_SRQ_LW_DEFAULT};
        assert_int_equal(dat_srq_create(side.opened.ia, side.pz, &attr, &handles[1]), DAT_SUCCESS);
        assert_int_equal(dat_rmr_create(side.pz, &handles[2]), DAT_SUCCESS);
        DAT_CONN_QUAL qualifier = 0;
        assert_int_equal(dat_psp_create_any(side.opened.ia, &qualifier, side.connections,
                                            DAT_PSP_CONSUMER_FLAG, &handles[3]),
                         DAT_SUCCESS);
        handles[4] = side.opened.ia;
        handles[5] = side.pz;
        handles[6] = side.transfers;
        handles[7] = side.connections;
        handles[8] = side.ep;
        handles[9] = side.block.lmr;
        handles[10] = side.opened.async_evd;
    }
    ~World() { side.opened.is_closed = is_closed(); }
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    bool is_closed() const {
        DAT_HANDLE_TYPE type{};
        return dat_get_handle_type(side.opened.ia, &type) != DAT_SUCCESS;
    }
    Side side;
    std::array<DAT_HANDLE, 11> handles{};
};

std::vector<DAT_HANDLE> freed_handles() {
    World world(2);
    return {world.handles.begin(), world.handles.end()};
}

// Draws arguments.
class Dice {
  public:
    explicit Dice(std::uint32_t seed) : random_(seed), freed_(freed_handles()) {}

    void live(const World& one, const World& other) {
        live_.assign(one.handles.begin(), one.handles.end());
        live_.insert(live_.end(), one.handles.begin(), one.handles.end()); // those are more often right
        live_.insert(live_.end(), other.handles.begin(), other.handles.end());
        block_ = &one.side.block;
    }

    template<typename T>
    T draw() {
        if constexpr (std::is_same_v<T, DAT_HANDLE>) {
            return handle();
        } else if constexpr (std::is_enum_v<T>) {
            return static_cast<T>(
                one_of({0, 1, 2, 3, 4, 8, 0x10, 0x20, 0x33, 0x40, 0x60, 0x80, 0x100, 0x1f0, 0x7fffffff}));
        } else if constexpr (std::is_same_v<T, DAT_COUNT>) {
            return one_of({0, 1, 1, 2, 4, 56, 57, -1, -2, INT_MAX, INT_MIN});
        } else if constexpr (std::is_same_v<T, DAT_UINT32>) {
            return static_cast<DAT_UINT32>(one_of({0, 1, 2})); // a time: nobody waits long
        } else if constexpr (std::is_same_v<T, DAT_UINT64>) {
            return number();
        } else if constexpr (std::is_same_v<T, DAT_CONTEXT>) {
            T context{};
            context.as_64 = number();
            return context;
        } else if constexpr (std::is_same_v<T, DAT_OS_WAIT_PROXY_AGENT>) {
            return chance() ? T{nullptr, nullptr} : T{&memory_, [](DAT_PVOID, DAT_EVD_HANDLE) {}};
        } else if constexpr (std::is_same_v<T, DAT_REGION_DESCRIPTION>) {
            T region{};
            region.for_shared_memory = {handle(),
                                        chance() ? nullptr : reinterpret_cast<DAT_LMR_COOKIE>(&memory_)};
            return region;
        } else if constexpr (std::is_same_v<T, DAT_NAME_PTR>) {
            return names_[random_() % names_.size()].data();
        } else if constexpr (std::is_same_v<T, const DAT_LMR_TRIPLET*> ||
                             std::is_same_v<T, DAT_LMR_TRIPLET*>) {
            return chance() ? segments() : nullptr;
        } else if constexpr (std::is_same_v<T, DAT_IA_ADDRESS_PTR>) {
            return chance() ? address() : nullptr;
        } else if constexpr (std::is_same_v<T, const DAT_PROVIDER*> ||
                             std::is_same_v<T, const DAT_PROVIDER_INFO*>) {
            return nullptr; // a provider's table is believed
        } else if constexpr (std::is_same_v<T, DAT_PROVIDER_INFO**>) {
            return chance() ? list() : nullptr;
        } else {
            static_assert(std::is_pointer_v<T>);
            return chance() ? reinterpret_cast<T>(structure()) : nullptr;
        }
    }
    // Bytes that a program gives, not a handle.
    DAT_PVOID data() { return chance() ? &memory_ : nullptr; }

  private:
    using Memory = std::array<std::uint64_t, 1024>;

    int one_of(std::initializer_list<int> values) { return values.begin()[random_() % values.size()]; }
    bool chance() { return random_() % 8 != 0; }
    std::uint64_t number() {
        constexpr std::uint64_t kNumbers[] = {
            0, 1, 2, 9, 4096, 0xffff, 0x10000, 1ULL << 32, 1ULL << 40, 1ULL << 63, ~0ULL - 4095, ~0ULL};
        return kNumbers[random_() % std::size(kNumbers)];
    }
    DAT_HANDLE handle() {
        switch (random_() % 8) {
        case 0:
            return DAT_HANDLE_NULL;
        case 1:
            return freed_[random_() % freed_.size()];
        case 2:
            return &memory_;
        case 3:
            return static_cast<char*>(live_[random_() % live_.size()]) + one_of({1, 4, 8, 40});
        default:
            return live_[random_() % live_.size()];
        }
    }
    void* structure() {
        for (std::uint64_t& word : memory_) {
            word = random_() % 2 == 0 ? 0 : number();
        }
        memory_[0] =
            reinterpret_cast<std::uintptr_t>(handle()); // of many structures the only one that counts
        return &memory_;
    }
    // The last one is wrong, so that whoever believes any count stops there.
    DAT_LMR_TRIPLET* segments() {
        for (DAT_LMR_TRIPLET& segment : segments_) {
            segment = random_() % 2 == 0
                          ? block_->part(random_() % 4096, random_() % 64)
                          : DAT_LMR_TRIPLET{block_->context ^ static_cast<DAT_LMR_CONTEXT>(random_() % 2), 0,
                                            number(), number()};
        }
        segments_.back() = {~DAT_LMR_CONTEXT{0}, 0, 1, 1};
        return segments_.data();
    }
    DAT_PROVIDER_INFO** list() {
        for (DAT_PROVIDER_INFO*& entry : list_) {
            entry = chance() ? &info_ : nullptr;
        }
        return list_.data();
    }
    DAT_IA_ADDRESS_PTR address() {
        structure();
        auto* const at = reinterpret_cast<sockaddr*>(&memory_);
        at->sa_family = static_cast<sa_family_t>(one_of({AF_INET, AF_INET6, AF_UNSPEC, AF_UNIX, 0xffff}));
        return at;
    }

    std::mt19937 random_;
    std::vector<DAT_HANDLE> freed_;
    std::vector<DAT_HANDLE> live_;
    const Block* block_ = nullptr;
    alignas(64) Memory memory_{};
    std::array<DAT_LMR_TRIPLET, 8> segments_{};
    DAT_PROVIDER_INFO info_{};
    std::array<DAT_PROVIDER_INFO*, 256> list_{};
    std::vector<std::string> names_{"", "no such device", "127.0.0.256", std::string(5000, 'x'), "RO_AWARE_"};
};

void must_be_code(const char* name, DAT_RETURN status) {
    const char* type = nullptr;
    const char* subtype = nullptr;
    const bool has_class = (status & DAT_CLASS_ERROR) != 0;
    if (has_class == (DAT_GET_TYPE(status) == DAT_SUCCESS) ||
        dat_strerror(status, &type, &subtype) != DAT_SUCCESS) {
        fail_msg("%s: 0x%x is no code", name, status);
    }
}

// The place of the argument that is a program's bytes, if one is.
constexpr int data_of(std::string_view function) {
    return function == "dat_ep_connect"       ? 5
           : function == "dat_ep_dup_connect" ? 4
           : function == "dat_cr_accept"      ? 3
                                              : -1;
}

template<int kData, typename... Arguments, std::size_t... kIndex>
DAT_RETURN call(DAT_RETURN (*function)(Arguments...), Dice& dice, std::index_sequence<kIndex...>) {
    const auto draw = [&]<std::size_t kAt, typename T>() -> T {
        if constexpr (static_cast<int>(kAt) == kData) {
            return dice.data();
        } else {
            return dice.draw<T>();
        }
    };
    return function(draw.template operator()<kIndex, Arguments>()...);
}

template<int kData, typename... Arguments>
void try_wildly(const char* name, DAT_RETURN (*function)(Arguments...), Dice& dice) {
    World other(1);
    for (int i = 0; i < kTries / kTriesInAWorld; ++i) {
        World world(0);
        dice.live(world, other);
        for (int k = 0; k < kTriesInAWorld; ++k) {
            must_be_code(name, call<kData>(function, dice, std::index_sequence_for<Arguments...>()));
        }
    }
}

void functions__wild_arguments__a_code_and_nothing_else(void**) {
    print_message("seed %u\n", kSeed);
    const Opened first(own_device(0)); // as in dapl_states_test.cpp
    const Opened second(own_device(1));
    Dice dice(kSeed);
#define FUNCTION(name) try_wildly<data_of(#name)>(#name, name, dice);
#include "tests/unit/udapl/functions.h"
#undef FUNCTION
}

} // namespace

int main() {
    const CMUnitTest tests[] = {cmocka_unit_test(functions__wild_arguments__a_code_and_nothing_else)};
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
