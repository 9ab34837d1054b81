// SPDX-License-Identifier: BSD-3-Clause
//
// Which instructions load and which store, found in the fault that each of them causes.
#include "core/fault_access.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "tests/cmocka.hpp"

using sluice::Access;
using sluice::kKnowsAccesses;

namespace {

// A page with RIGHTS, and with all for the instruction that has just faulted.
class ClosedPage {
  public:
    explicit ClosedPage(int rights = PROT_NONE)
        : rights_(rights),
          bytes_(mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        assert_ptr_not_equal(bytes_, MAP_FAILED);
        std::memset(bytes_, 1, size());
        page = this;
        struct sigaction action = {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO;
        assert_int_equal(sigaction(SIGSEGV, &action, &former_), 0);
    }
    ~ClosedPage() {
        page = nullptr;
        (void)sigaction(SIGSEGV, &former_, nullptr);
        munmap(bytes_, size());
    }
    ClosedPage(const ClosedPage&) = delete;
    ClosedPage& operator=(const ClosedPage&) = delete;

    // Of the one fault that INSTRUCTION causes, which gets an address in the page.
    template<typename Instruction>
    Access access_of(Instruction&& instruction) {
        faults_ = 0;
        assert_int_equal(mprotect(bytes_, size(), rights_), 0);
        instruction(static_cast<unsigned char*>(bytes_) + 64);
        assert_int_equal(faults_, 1);
        return access_;
    }

  private:
    static std::size_t size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
    static void on_fault(int /*signal*/, siginfo_t* /*info*/, void* context) {
        page->access_ = sluice::access_of_fault(*static_cast<const ucontext_t*>(context));
        page->faults_ = page->faults_ + 1;
        (void)mprotect(page->bytes_, size(), PROT_READ | PROT_WRITE);
    }
    static inline ClosedPage* page = nullptr;

    int rights_;
    void* bytes_;
    struct sigaction former_ = {};
    volatile int faults_ = 0;
    volatile Access access_ = Access::kUnknown;
};

// An instruction is a literal. %0 is the address.
// NOLINTBEGIN(bugprone-macro-parentheses): clobbers can't be in parentheses
// clang-format off
#define LOADS(TEXT) assert_int_equal(page.access_of([](void* at) { asm volatile(TEXT : : "r"(at) : CLOBBERED); }), Access::kLoad)
#define STORES(TEXT) assert_int_equal(page.access_of([](void* at) { asm volatile(TEXT : : "r"(at) : CLOBBERED); }), Access::kStore)
// clang-format on
// NOLINTEND(bugprone-macro-parentheses)

#if defined(__x86_64__)
#define CLOBBERED "memory", "rax", "rcx", "rdx", "rsi", "rdi", "xmm0", "cc"

TEST(x86_64__loads_and_stores) {
    ClosedPage page;
    LOADS("movb (%0), %%al");
    LOADS("movq 8(%0), %%rax");
    LOADS("movups (%0), %%xmm0");
    LOADS("cmpq $0, (%0)");
    LOADS("mov %0, %%rsi; lodsq");
    STORES("movb %%al, (%0)");
    STORES("movups %%xmm0, (%0)");
    STORES("movnti %%rax, (%0)");
    STORES("mov %0, %%rdi; mov $64, %%ecx; rep stosb");
    STORES("lock addq $1, (%0)");
}
#elif defined(__aarch64__)
#define CLOBBERED "memory", "x2", "x3", "x4", "x5", "v0", "v1"

TEST(aarch64__registers) {
    ClosedPage page;
    LOADS("ldr x2, [%0]");
    LOADS("ldr w2, [%0, #8]");
    LOADS("ldrb w2, [%0]");
    LOADS("ldrsb x2, [%0]");
    LOADS("ldrsb w2, [%0]");
    LOADS("ldrsh w2, [%0]");
    LOADS("ldrsw x2, [%0]");
    LOADS("ldur x2, [%0, #-3]");
    LOADS("ldtr x2, [%0]");
    LOADS("mov x3, %0; ldr x2, [x3], #8");
    LOADS("mov x3, %0; ldr x2, [x3, #8]!");
    LOADS("mov x3, #8; ldr x2, [%0, x3]");
    LOADS("ldp x2, x3, [%0]");
    LOADS("ldpsw x2, x3, [%0]");
    LOADS("ldnp x2, x3, [%0]");
    STORES("str x2, [%0]");
    STORES("strb w2, [%0, #1]");
    STORES("strh w2, [%0]");
    STORES("stur x2, [%0, #-3]");
    STORES("sttr x2, [%0]");
    STORES("mov x3, %0; str x2, [x3], #8");
    STORES("mov x3, #8; str x2, [%0, x3]");
    STORES("stp x2, x3, [%0]");
    STORES("stnp x2, x3, [%0]");
}

TEST(aarch64__vectors) {
    ClosedPage page;
    LOADS("ldr b0, [%0]");
    LOADS("ldr d0, [%0]");
    LOADS("ldr q0, [%0]");
    LOADS("ldur q0, [%0, #3]");
    LOADS("ldp q0, q1, [%0]");
    LOADS("ld1 {v0.16b, v1.16b}, [%0]");
    LOADS("ld1 {v0.s}[1], [%0]");
    LOADS("ld1r {v0.4s}, [%0]");
    STORES("str b0, [%0]");
    STORES("str d0, [%0]");
    STORES("str q0, [%0]");
    STORES("stur q0, [%0, #3]");
    STORES("stp q0, q1, [%0]");
    STORES("st1 {v0.16b, v1.16b}, [%0]");
    STORES("st1 {v0.s}[1], [%0]");
}

TEST(aarch64__ordered_and_exclusive) {
    ClosedPage page;
    LOADS("ldar x2, [%0]");
    LOADS("ldarb w2, [%0]");
    LOADS("ldxr x2, [%0]; clrex");
    LOADS("ldaxp x2, x3, [%0]; clrex");
    LOADS(".arch armv8.4-a; ldapr x2, [%0]");
    LOADS(".arch armv8.4-a; ldapur x2, [%0, #8]");
    LOADS(".arch armv8.4-a; ldapursw x2, [%0, #8]");
    STORES("stlr x2, [%0]");
    STORES("stlrb w2, [%0]");
    STORES(".arch armv8.4-a; stlur x2, [%0, #8]");
}

TEST(aarch64__atomic_operations__are_stores_where_they_may_load) {
    ClosedPage page(PROT_READ);
    STORES(".arch armv8.1-a; ldadd x2, x3, [%0]");
    STORES(".arch armv8.1-a; ldumaxb w2, w3, [%0]");
    STORES(".arch armv8.1-a; swpal x2, x3, [%0]");
    STORES(".arch armv8.1-a; cas x2, x3, [%0]");
    STORES(".arch armv8.1-a; casalb w2, w3, [%0]");
    STORES(".arch armv8.1-a; casp x2, x3, x4, x5, [%0]");
    STORES("str x2, [%0]");
    STORES("mov x3, %0; str x2, [x3, #8]!");
}

#elif defined(__riscv)
#define CLOBBERED "memory", "a2", "a3", "fa0"

TEST(riscv64__integers) {
    ClosedPage page;
    LOADS(".option push; .option norvc; lb a2, 1(%0); .option pop");
    LOADS(".option push; .option norvc; lhu a2, 2(%0); .option pop");
    LOADS(".option push; .option norvc; lw a2, 4(%0); .option pop");
    LOADS(".option push; .option norvc; ld a2, 8(%0); .option pop");
    STORES(".option push; .option norvc; sb a2, 1(%0); .option pop");
    STORES(".option push; .option norvc; sd a2, 8(%0); .option pop");
}

TEST(riscv64__floating_point) {
    ClosedPage page;
    LOADS(".option push; .option norvc; flw fa0, 4(%0); .option pop");
    LOADS(".option push; .option norvc; fld fa0, 8(%0); .option pop");
    STORES(".option push; .option norvc; fsw fa0, 4(%0); .option pop");
    STORES(".option push; .option norvc; fsd fa0, 8(%0); .option pop");
}

TEST(riscv64__compressed) {
    ClosedPage page;
    LOADS("mv a3, %0; c.lw a2, 4(a3)");
    LOADS("mv a3, %0; c.ld a2, 8(a3)");
    LOADS("mv a3, %0; c.fld fa0, 8(a3)");
    STORES("mv a3, %0; c.sw a2, 4(a3)");
    STORES("mv a3, %0; c.sd a2, 8(a3)");
    STORES("mv a3, %0; c.fsd fa0, 8(a3)");
}

TEST(riscv64__atomic_operations__are_stores) {
    ClosedPage page;
    LOADS("lr.d a2, (%0)");
    STORES("amoadd.d a2, a3, (%0)");
    STORES("amoswap.w a2, a3, (%0)");
}
#else
#define CLOBBERED "memory"
#endif

TEST(load_and_store__of_the_compilers) {
    ClosedPage page;
    const Access load =
        page.access_of([](unsigned char* at) { (void)*static_cast<volatile int*>(static_cast<void*>(at)); });
    const Access store =
        page.access_of([](unsigned char* at) { *static_cast<volatile int*>(static_cast<void*>(at)) = 1; });
    assert_int_equal(load, kKnowsAccesses ? Access::kLoad : Access::kUnknown);
    assert_int_equal(store, kKnowsAccesses ? Access::kStore : Access::kUnknown);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
