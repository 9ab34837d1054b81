// SPDX-License-Identifier: BSD-3-Clause
//
// A library reaches a function of another through a word that the loader has filled in. The dynamic section
// says where the relocations are, and each relocation which word is for which name. Most of these words can
// be written by the loader only (RELRO), so they are made writable for a moment.
#include "layers/cmdev/imports.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace sluice::layers::cmdev {

namespace {

struct Range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
};

template<typename T>
const T* at(std::uintptr_t address) noexcept {
    return reinterpret_cast<const T*>(
        address); // NOLINT(performance-no-int-to-ptr): the ELF format has numbers
}

std::size_t symbol_of(std::uint64_t info) noexcept {
#if __ELF_NATIVE_CLASS == 64
    return ELF64_R_SYM(info);
#else
    return ELF32_R_SYM(info);
#endif
}

// The tables that the dynamic section of a library names.
class Tables {
  public:
    explicit Tables(const link_map& library) noexcept : base_(library.l_addr) {
        for (const ElfW(Dyn)* entry = library.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
            take(*entry);
        }
    }

    // VISIT(word, name) for each word that is filled in with the address of NAME.
    template<typename Visit>
    void for_each(Visit&& visit) const noexcept {
        if (symbols_ == nullptr || names_ == nullptr) {
            return;
        }
        walk<ElfW(Rela)>(with_addend_, visit);
        walk<ElfW(Rel)>(without_addend_, visit);
        if (calls_have_addend_) {
            walk<ElfW(Rela)>(calls_, visit);
        } else {
            walk<ElfW(Rel)>(calls_, visit);
        }
    }

  private:
    // On most architectures glibc has added the base already, on the others (riscv64) and elsewhere nobody
    // has.
    std::uintptr_t resolved(ElfW(Addr) address) const noexcept {
        return address < base_ ? address + base_ : address;
    }

    void take(const ElfW(Dyn) & entry) noexcept {
        switch (entry.d_tag) {
        case DT_SYMTAB:
            symbols_ = at<ElfW(Sym)>(resolved(entry.d_un.d_ptr));
            break;
        case DT_STRTAB:
            names_ = at<char>(resolved(entry.d_un.d_ptr));
            break;
        case DT_RELA:
            with_addend_.begin = resolved(entry.d_un.d_ptr);
            break;
        case DT_RELASZ:
            with_addend_.end = entry.d_un.d_val;
            break;
        case DT_REL:
            without_addend_.begin = resolved(entry.d_un.d_ptr);
            break;
        case DT_RELSZ:
            without_addend_.end = entry.d_un.d_val;
            break;
        case DT_JMPREL:
            calls_.begin = resolved(entry.d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            calls_.end = entry.d_un.d_val;
            break;
        case DT_PLTREL:
            calls_have_addend_ = entry.d_un.d_val == DT_RELA;
            break;
        default:
            break;
        }
    }

    // TABLE has a size as its end.
    template<typename Relocation, typename Visit>
    void walk(const Range& table, Visit&& visit) const noexcept {
        if (table.begin == 0) {
            return;
        }
        const Relocation* const first = at<Relocation>(table.begin);
        for (const Relocation& each : std::span(first, table.end / sizeof(Relocation))) {
            const std::size_t symbol = symbol_of(each.r_info);
            if (symbol != 0) {
                visit(base_ + each.r_offset, names_ + symbols_[symbol].st_name);
            }
        }
    }

    std::uintptr_t base_;
    const ElfW(Sym) * symbols_ = nullptr;
    const char* names_ = nullptr;
    Range with_addend_;
    Range without_addend_;
    Range calls_;
    bool calls_have_addend_ = false;
};

// What the loader has made read-only after it had filled it in, in whole pages as it rounds them.
Range protected_range(const link_map& library) noexcept {
    struct Search {
        const link_map& library;
        Range found;
    } search{library, {}};
    (void)dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* context) {
            auto& wanted = *static_cast<Search*>(context);
            if (info->dlpi_addr != wanted.library.l_addr) {
                return 0;
            }
            const auto page = ~(static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)) - 1);
            for (const ElfW(Phdr) & each : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
                if (each.p_type == PT_GNU_RELRO) {
                    const std::uintptr_t begin = info->dlpi_addr + each.p_vaddr;
                    wanted.found = {.begin = begin & page, .end = (begin + each.p_memsz) & page};
                }
            }
            return 1;
        },
        &search);
    return search.found;
}

bool set_protection(const Range& range, int protection) noexcept {
    return range.begin >= range.end ||
           mprotect(reinterpret_cast<void*>(range.begin), range.end - range.begin, protection) == 0; // NOLINT
}

// The index of NAME, or how many there are.
std::size_t index_of(std::span<const Import> imports, const char* name) noexcept {
    const auto found = std::ranges::find_if(
        imports, [name](const Import& each) { return std::strcmp(each.name, name) == 0; });
    return static_cast<std::size_t>(found - imports.begin());
}

void* volatile* word_at(std::uintptr_t address) noexcept {
    return reinterpret_cast<void* volatile*>(address); // NOLINT(performance-no-int-to-ptr)
}

} // namespace

std::size_t replace_imports(const link_map& library, std::span<const Import> imports,
                            std::size_t least) noexcept {
    const Tables tables(library);
    std::uint64_t known = 0; // one bit each: a library may have two words for one name
    bool is_done = true;
    tables.for_each([&](std::uintptr_t word, const char* name) {
        if (const std::size_t index = index_of(imports, name); index != imports.size()) {
            known |= std::uint64_t{1} << index;
            is_done = is_done && *word_at(word) == imports[index].replacement;
        }
    });
    const auto count = static_cast<std::size_t>(std::popcount(known));
    if (is_done || count < least) {
        return count;
    }
    const Range range = protected_range(library);
    if (!set_protection(range, PROT_READ | PROT_WRITE)) {
        return 0;
    }
    tables.for_each([&](std::uintptr_t word, const char* name) {
        if (const std::size_t index = index_of(imports, name); index != imports.size()) {
            *word_at(word) = imports[index].replacement;
        }
    });
    (void)set_protection(range, PROT_READ);
    return count;
}

} // namespace sluice::layers::cmdev
