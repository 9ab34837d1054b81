// SPDX-License-Identifier: BSD-3-Clause
//
// Usage: locked_memory DEVICE limits|group
//
// Registers memory of a kernel's device at and beyond limits, and looks at what the errors say. As root;
// limits: on what a process may lock, which it tries as nobody. group: in a control group that may have two
// objects.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ibverbs-glue/memory.hpp"

using namespace sluice;
using namespace sluice::glue;

namespace {

int failures = 0;

void expect(bool holds, const std::string& what) {
    std::printf("%s: %s\n", holds ? "ok" : "FAILED", what.c_str());
    failures += holds ? 0 : 1;
}

const std::size_t kPageBytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

// Two pages more than is registered, so that it may begin anywhere in its first page.
class Block {
  public:
    explicit Block(std::size_t bytes)
        : at_(static_cast<char*>(std::aligned_alloc(kPageBytes, bytes + 2 * kPageBytes))) {
        std::memset(at_, 1, bytes + 2 * kPageBytes);
    }
    ~Block() { std::free(at_); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    Result<MemoryRegion> add(const ProtectionDomain& domain, std::size_t bytes, std::size_t offset = 0) {
        char* const from = at_ + offset;
        return MemoryRegion::make(domain, from, bytes, reinterpret_cast<std::uintptr_t>(from),
                                  IBV_ACCESS_LOCAL_WRITE);
    }

  private:
    char* const at_;
};

void set_limit(std::size_t bytes) {
    rlimit limit{};
    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    limit.rlim_cur = bytes;
    expect(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "a limit of " + std::to_string(bytes) + " bytes");
}

void expect_refused(const Result<MemoryRegion>& region, const std::string& what, const std::string& says) {
    if (region) {
        expect(false, what + " is registered");
        return;
    }
    const std::string text = region.error().text();
    expect(region.error().kind() == ErrorKind::kInsufficientResources, what + " is refused");
    expect(text.find(says) != std::string::npos, "with '" + says + "' in: " + text);
}

void try_limits(const ProtectionDomain& domain) {
    constexpr std::size_t kLimit = 65536;
    constexpr std::size_t kExact = std::size_t{1} << 20;
    Block block(kExact);
    Block other(kPageBytes);
    set_limit(0);
    expect_refused(block.add(domain, 8), "a page at a limit of 0", "may lock 0 bytes in all");
    set_limit(kLimit);
    {
        const Result<MemoryRegion> all = block.add(domain, kLimit);
        expect(all.ok(), "as much as the limit is registered");
        expect_refused(other.add(domain, 8), "a page more",
                       "may lock 65536 bytes in all and has no page left");
    }
    expect(other.add(domain, 8).ok(), "when it is freed, there is room again");
    expect_refused(
        block.add(domain, kLimit + 1), "a byte more in one piece",
        "registering 65537 bytes: this process may lock 65536 bytes in all; raise that with ulimit -l");
    set_limit(kExact);
    expect(block.add(domain, kExact).ok(), "exactly enough is registered");
    expect_refused(block.add(domain, kExact, 1), "as much, but over one page more",
                   "may lock 1048576 bytes in all");
}

void try_group(const ProtectionDomain& domain) {
    Block block(2 * kPageBytes);
    const Result<MemoryRegion> one = block.add(domain, kPageBytes);
    expect(one.ok(), "the second object is made");
    expect_refused(block.add(domain, kPageBytes), "a third one", "raise hca_object in rdma.max");
}

int run(const ProtectionDomain& domain, const std::string& what) {
    if (what == "group") {
        try_group(domain);
        return failures == 0 ? 0 : 1;
    }
    constexpr uid_t kNobody = 65534;
    expect(setresuid(kNobody, kNobody, kNobody) == 0, "the process is nobody's");
    prctl(PR_SET_DUMPABLE, 1); // its own files below /proc stay its own
    try_limits(domain);
    return failures == 0 ? 0 : 1;
}

int fail(const Error& error) {
    std::printf("FAILED: %s\n", error.text());
    return 1;
}

int open_and_run(const std::string& device, const std::string& what) {
    const Result<Context> context = Context::open(device);
    if (!context) {
        return fail(context.error());
    }
    const Result<ProtectionDomain> domain = ProtectionDomain::make(*context);
    return domain ? run(*domain, what) : fail(domain.error());
}

} // namespace

int main(int argc, char** argv) {
    return argc == 3 ? open_and_run(argv[1], argv[2]) : 2;
}
