// SPDX-License-Identifier: BSD-3-Clause
#include "provider/abi/probe.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

namespace sluice::abi {

namespace {

// Newest first: a library with several labels is taken at its newest word.
constexpr std::array kVersions{65, 64, 59, 57, 34};
constexpr int kNewestImaginable = 99;

template<typename Function>
bool find(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    return function != nullptr;
}

bool find_version(void* library, int version, Symbols& symbols) {
    char name[40];
    std::snprintf(name, sizeof name, "verbs_register_driver_%d", version);
    if (!find(library, name, symbols.register_driver)) {
        return false;
    }
    symbols.version = version;
    return true;
}

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kScratchBytes = 4096;
constexpr std::size_t kTokens = 256;

// Marks that can't be mistaken for an address of a function.
constexpr std::uint64_t token(std::size_t index) {
    return 0x5100'0000'0000'0000 + index * kWord;
}

std::uint64_t word_at(const std::byte* memory, std::size_t offset) {
    std::uint64_t word = 0;
    std::memcpy(&word, memory + offset, sizeof word);
    return word;
}

// A device for the scratch context: it outlives the context, whose end drops a reference.
struct ScratchDevice {
    VerbsDevice device{};
    std::byte reserve[1024]{};

    ScratchDevice() noexcept { device.refcount = 1; }
};

class ScratchContext {
  public:
    explicit ScratchContext(const Symbols& symbols) noexcept
        : symbols_(symbols), memory_(static_cast<std::byte*>(symbols.init_and_alloc_context(
                                 &device_.device.device, -1, kScratchBytes, nullptr, 0))) {}
    ~ScratchContext() {
        if (memory_ != nullptr) {
            symbols_.uninit_context(reinterpret_cast<verbs_context*>(memory_));
            std::free(memory_); // NOLINT(cppcoreguidelines-no-malloc): allocated by the library
        }
    }
    ScratchContext(const ScratchContext&) = delete;
    ScratchContext& operator=(const ScratchContext&) = delete;

    const std::byte* memory() const noexcept { return memory_; }
    verbs_context* context() const noexcept { return reinterpret_cast<verbs_context*>(memory_); }
    const ibv_device* device() const noexcept { return &device_.device.device; }

  private:
    ScratchDevice device_;
    const Symbols& symbols_;
    std::byte* memory_;
};

// The core notes in the word before the ibv_context how big the whole is. With the device's
// address in the word behind, one place fits and no other.
std::optional<std::size_t> find_context_bytes(const ScratchContext& scratch) {
    std::optional<std::size_t> found;
    const auto device = reinterpret_cast<std::uint64_t>(scratch.device());
    for (std::size_t p = 0; p + kWord + sizeof(ibv_context) <= kScratchBytes; p += kWord) {
        const std::size_t bytes = p + kWord + sizeof(ibv_context);
        if (word_at(scratch.memory(), p) == bytes && word_at(scratch.memory(), p + kWord) == device) {
            if (found) {
                return std::nullopt;
            }
            found = bytes;
        }
    }
    return found;
}

// As much of the public header's structures as lies at fixed distances from the ibv_context.
struct KnownPlace {
    Slot slot;
    std::ptrdiff_t from_context;
};

#define SLUICE_IN_CONTEXT(slot, field)                                                                       \
    KnownPlace {                                                                                             \
        Slot::slot, offsetof(ibv_context, field)                                                             \
    }
#define SLUICE_BEFORE_CONTEXT(slot, field)                                                                   \
    KnownPlace {                                                                                             \
        Slot::slot, static_cast<std::ptrdiff_t>(offsetof(verbs_context, field)) -                            \
                        static_cast<std::ptrdiff_t>(offsetof(verbs_context, context))                        \
    }
// They are spread over the alphabet, so that an insertion anywhere moves at least one.
constexpr std::array kKnownPlaces{
    SLUICE_BEFORE_CONTEXT(advise_mr, advise_mr),
    SLUICE_BEFORE_CONTEXT(alloc_parent_domain, alloc_parent_domain),
    SLUICE_IN_CONTEXT(bind_mw, ops.bind_mw),
    SLUICE_BEFORE_CONTEXT(create_qp_ex, create_qp_ex),
    SLUICE_BEFORE_CONTEXT(create_srq_ex, create_srq_ex),
    SLUICE_IN_CONTEXT(dealloc_mw, ops.dealloc_mw),
    SLUICE_BEFORE_CONTEXT(free_dm, free_dm),
    SLUICE_BEFORE_CONTEXT(get_srq_num, get_srq_num),
    SLUICE_BEFORE_CONTEXT(modify_cq, modify_cq),
    SLUICE_BEFORE_CONTEXT(open_xrcd, open_xrcd),
    SLUICE_IN_CONTEXT(poll_cq, ops.poll_cq),
    SLUICE_IN_CONTEXT(post_recv, ops.post_recv),
    SLUICE_IN_CONTEXT(post_send, ops.post_send),
    SLUICE_IN_CONTEXT(post_srq_recv, ops.post_srq_recv),
    SLUICE_BEFORE_CONTEXT(query_device_ex, query_device_ex),
    SLUICE_BEFORE_CONTEXT(query_rt_values, query_rt_values),
    SLUICE_BEFORE_CONTEXT(reg_dm_mr, reg_dm_mr),
    SLUICE_IN_CONTEXT(req_notify_cq, ops.req_notify_cq),
};
#undef SLUICE_IN_CONTEXT
#undef SLUICE_BEFORE_CONTEXT

// Lets the library copy marks for functions, and counts them where it keeps its own table.
std::size_t count_slots(const Symbols& symbols, const ScratchContext& scratch, std::size_t ibv_context_at) {
    std::array<std::uint64_t, kTokens> tokens{};
    for (std::size_t i = 0; i < kTokens; ++i) {
        tokens[i] = token(i);
    }
    symbols.set_ops(scratch.context(), tokens.data());

    const std::size_t priv_at =
        ibv_context_at - (offsetof(verbs_context, context) - offsetof(verbs_context, priv));
    const auto* priv = reinterpret_cast<const std::byte*>(word_at(scratch.memory(), priv_at));
    if (priv == nullptr) {
        return 0;
    }
    std::size_t count = 0;
    while (count < kTokens && word_at(priv, kPrivOpsOffset + count * kWord) == token(count)) {
        ++count;
    }
    return count;
}

// Tells of the first operation that isn't where a table of SLOT_COUNT operations has it; empty if there is
// none.
std::string what_differs(const ScratchContext& scratch, std::size_t ibv_context_at, std::size_t slot_count) {
    for (const KnownPlace& place : kKnownPlaces) {
        const std::size_t at = ibv_context_at + static_cast<std::size_t>(place.from_context);
        const std::uint64_t seen = word_at(scratch.memory(), at);
        const std::size_t expected = slot_index(place.slot, slot_count).value_or(kTokens);
        if (seen == token(expected)) {
            continue;
        }
        const std::string name = name_of(place.slot);
        return seen >= token(0) && seen < token(kTokens)
                   ? name + " is operation " + std::to_string((seen - token(0)) / kWord) + " and not " +
                         std::to_string(expected)
                   : name + " is not where the public header has it";
    }
    return {};
}

// Stand in for operations that the library is made to call.
thread_local bool called = false;
void note_call(ibv_pd* /*pd*/) noexcept {
    called = true;
}
void ignore_call(ibv_pd* /*pd*/) noexcept {}

// Whether the library calls the operation at INDEX for the last one in the alphabet. The public header has no
// place for any operation so far back: what is inserted there shows only in this.
bool last_operation_is_at(const Symbols& symbols, const ScratchContext& scratch, std::size_t ibv_context_at,
                          std::size_t index) {
    if (symbols.unimport_pd == nullptr) {
        return false;
    }
    std::array<void (*)(ibv_pd*) noexcept, kTokens> table{};
    table.fill(ignore_call);
    table[index] = note_call;
    symbols.set_ops(scratch.context(), table.data());
    ibv_pd pd{};
    pd.context =
        reinterpret_cast<ibv_context*>(reinterpret_cast<std::byte*>(scratch.context()) + ibv_context_at);
    called = false;
    symbols.unimport_pd(&pd);
    return called;
}

// Which known table the library's is, or begins with.
Result<std::size_t> find_table(const Symbols& symbols, const ScratchContext& scratch,
                               std::size_t ibv_context_at, std::size_t slot_count) {
    constexpr std::size_t kNewest = kKnownSlotCounts.back();
    const bool known = std::ranges::find(kKnownSlotCounts, slot_count) != kKnownSlotCounts.end();
    if (!known && slot_count < kNewest) {
        return Error::format(ErrorKind::kNotSupported, 0,
                             "libibverbs has a provider table of %zu operations, which is no known layout",
                             slot_count);
    }
    const std::size_t table = known ? slot_count : kNewest;
    const std::string difference = what_differs(scratch, ibv_context_at, table);
    if (!difference.empty()) {
        return Error::format(ErrorKind::kNotSupported, 0,
                             "libibverbs has %zu provider operations, but not in the known order: %s",
                             slot_count, difference.c_str());
    }
    if (!known && !last_operation_is_at(symbols, scratch, ibv_context_at, table - 1)) {
        return Error::format(
            ErrorKind::kNotSupported, 0,
            "libibverbs has %zu provider operations, but not in the known order: unimport_pd is "
            "not operation %zu",
            slot_count, table - 1);
    }
    return table;
}

// A library that looks behind all that is known here finds zeros there, and not what happens to be on the
// stack.
struct ProbedQp {
    VerbsQp known;
    std::byte behind[1024];
};

// The library's own down-cast shows where it looks for the mask.
std::optional<std::size_t> find_qp_mask(const Symbols& symbols) {
    std::optional<std::size_t> found;
    constexpr std::size_t kFirst = kQpAtomicWriteOffset;
    for (std::size_t at = kFirst; at + kWord <= sizeof(VerbsQp); at += sizeof(std::uint32_t)) {
        ProbedQp qp;
        std::memset(&qp, 0, sizeof qp);
        std::memcpy(qp.known.reserve + at, &kQpMaskExtended, sizeof kQpMaskExtended);
        if (symbols.qp_to_qp_ex(&qp.known.qp) != nullptr) {
            if (found) {
                return std::nullopt;
            }
            found = at;
        }
    }
    return found;
}

} // namespace

Result<Symbols> find_symbols(void* library) {
    Symbols symbols{};
    for (const int version : kVersions) {
        if (find_version(library, version, symbols)) {
            break;
        }
    }
    // A newer label may stand for a layout that we can use all the same.
    for (int version = kVersions.front() + 1; symbols.version == 0 && version <= kNewestImaginable;
         ++version) {
        (void)find_version(library, version, symbols);
    }
    if (symbols.version == 0) {
        return Error(ErrorKind::kNotFound,
                     "libibverbs has no verbs_register_driver_ of version 34, 57, 59, 64, 65 or later");
    }
    if (!find(library, "_verbs_init_and_alloc_context", symbols.init_and_alloc_context) ||
        !find(library, "verbs_set_ops", symbols.set_ops) ||
        !find(library, "verbs_uninit_context", symbols.uninit_context) ||
        !find(library, "ibv_qp_to_qp_ex", symbols.qp_to_qp_ex)) {
        return Error(ErrorKind::kNotFound, "libibverbs lacks a function that providers need");
    }
    (void)find(library, "ibv_unimport_pd", symbols.unimport_pd);
    // The log function came in the same version, and nothing else that can be seen without a risk.
    symbols.opens_without_kernel = dlsym(library, "__verbs_log") != nullptr;
    return symbols;
}

Result<Layout> measure(const Symbols& symbols) {
    const ScratchContext scratch(symbols);
    if (scratch.memory() == nullptr) {
        return Error(ErrorKind::kInsufficientResources, "libibverbs gave no context to measure");
    }
    const auto bytes = find_context_bytes(scratch);
    if (!bytes || *bytes < sizeof(ibv_context) + 128) {
        return Error(ErrorKind::kNotSupported,
                     "the size of this libibverbs' struct verbs_context cannot be determined");
    }
    const std::size_t ibv_context_at = *bytes - sizeof(ibv_context);
    const std::size_t slot_count = count_slots(symbols, scratch, ibv_context_at);
    Result<std::size_t> table = find_table(symbols, scratch, ibv_context_at, slot_count);
    if (!table) {
        return std::move(table).error();
    }
    const auto qp_mask = find_qp_mask(symbols);
    if (!qp_mask) {
        return Error(ErrorKind::kNotSupported,
                     "where this libibverbs keeps a queue pair's mask cannot be determined");
    }
    return Layout{*table, *bytes, *qp_mask, slot_count - *table};
}

Result<Abi> find_abi(void* library) {
    Result<Symbols> symbols = find_symbols(library);
    if (!symbols) {
        return std::move(symbols).error();
    }
    Result<Layout> layout = measure(*symbols);
    if (!layout) {
        return std::move(layout).error();
    }
    return Abi{*symbols, *layout};
}

std::uint32_t device_abi_version(const VerbsSysfsDevice& device, const Layout& layout) noexcept {
    constexpr std::size_t kOldestSlotCount = 73; // has no number of ports before it
    return layout.slot_count == kOldestSlotCount ? device.num_ports : device.abi_version;
}

} // namespace sluice::abi
