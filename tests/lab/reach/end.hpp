// SPDX-License-Identifier: BSD-3-Clause
//
// One side's device and what it needs of it, the same calls for a device of the kernel and for ours.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "report.hpp"

namespace reach {

// "kernel:DEVICE:ADDRESS" or "uroce:ADDRESS"; with "@NAME" behind it in that network namespace.
struct Spec {
    bool kernel = false;
    std::string device;
    std::string address;
    std::string name_space;

    static Spec parse(const std::string& text);
};

// Opened for as long as the process lives.
struct Device {
    explicit Device(const Spec& spec);

    bool kernel;
    ibv_context* context = nullptr;
    union ibv_gid gid {};
    int gid_index = -1;
    std::uint32_t mtu_bytes = 0; // of the port
};

constexpr std::uint32_t kQkey = 0x11223344;
constexpr int kRemoteAccess = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::size_t kGuard = 64;

struct Options {
    ibv_qp_type type = IBV_QPT_RC;
    std::size_t block_bytes = std::size_t{4} << 20;
    std::uint32_t path_mtu = 4096;
    std::uint32_t depth = 64;
    unsigned queue_pairs = 1;
    bool with_srq = false;
    std::uint64_t extended_ops = 0; // 0: a plain queue pair
    int region_access = IBV_ACCESS_LOCAL_WRITE | kRemoteAccess | IBV_ACCESS_MW_BIND;
    int queue_pair_access = kRemoteAccess;
    std::uint8_t timeout = 17; // 0.5 s: emulation makes answers slow, and a repeated one hides nothing
    std::uint8_t retries = 7;
    std::uint8_t rnr_retries = 7;
    std::uint8_t min_rnr_timer = 12; // 0.64 ms
};

// What the other side has to know.
struct Card {
    union ibv_gid gid;
    std::uint64_t addr;
    std::uint32_t rkey;
    std::uint32_t qpn[2];
    std::uint32_t psn;
    bool kernel;
};

class End {
  public:
    End(const Device& device, const Options& options);
    ~End();
    End(const End&) = delete;
    End& operator=(const End&) = delete;

    // Both sides call it: exchanges the cards and leads all queue pairs to RTS.
    void connect(const Talk& talk);
    const Card& peer() const { return peer_; }

    std::uint64_t addr(std::size_t offset) const {
        return reinterpret_cast<std::uintptr_t>(block_.get()) + offset;
    }
    std::uint8_t* bytes(std::size_t offset) { return block_.get() + offset; }
    ibv_sge sge(std::size_t offset, std::size_t len) const;
    std::uint64_t word(std::size_t offset) const;
    void set_word(std::size_t offset, std::uint64_t value);
    // LEN bytes at OFFSET that follow from TAG, with a guard on each side that follows from it, too.
    void paint(std::size_t offset, std::size_t len, std::uint64_t tag);
    void paint_bytes(std::size_t offset, std::size_t len, std::uint64_t tag);
    void expect_bytes(std::size_t offset, std::size_t len, std::uint64_t tag, const std::string& what) const;
    // The bytes are TAG's, and the guards around them GUARD_TAG's.
    void expect(std::size_t offset, std::size_t len, std::uint64_t tag, std::uint64_t guard_tag,
                const std::string& what) const;

    // A request with one piece of the block, nothing else set but the peer's address and key.
    ibv_send_wr request(ibv_wr_opcode opcode, const ibv_sge& list, std::size_t peer_offset) const;
    void post(ibv_send_wr& wr, unsigned queue_pair = 0);
    void receive(const ibv_sge& into, std::uint64_t id = 0, unsigned queue_pair = 0);
    ibv_wc wait() const;
    bool idle() const;
    ibv_wc wait_for_success(const std::string& what) const;
    ibv_qp_state state(unsigned queue_pair = 0) const;

    const Options options;
    const Device& device;
    ibv_pd* pd = nullptr;
    ibv_cq* cq = nullptr;
    ibv_mr* mr = nullptr;
    ibv_srq* srq = nullptr;
    std::vector<ibv_qp*> qps;

  private:
    ibv_qp* make_queue_pair();
    Card card() const;
    void lead(ibv_qp* qp, std::uint32_t peer_qpn);
    void lead_datagrams(ibv_qp* qp);

    struct Unmap {
        std::size_t bytes;
        void operator()(std::uint8_t* block) const;
    };
    std::unique_ptr<std::uint8_t[], Unmap> block_;
    Card peer_{};
};

// splitmix64: numbers without a pattern that are the same on both sides.
inline std::uint64_t mix(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return value ^ value >> 31;
}

const char* state_name(ibv_qp_state state);

} // namespace reach
