// SPDX-License-Identifier: BSD-3-Clause
//
// Recordings of packets: classic pcap and pcapng, of either byte order, with any resolution of time.
//
// The bytes of a file are hostile: every length is checked before it is used, and no more than one
// record of bounded size is in memory. What can't be understood ends the reading with a Failure
// that says where.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::tools {

struct Captured {
    std::uint64_t seconds = 0;
    std::uint32_t nanoseconds = 0;
    std::uint32_t link_type = 0;
    bool is_whole = true; // false: the end of the packet wasn't recorded
    std::span<const std::uint8_t> bytes;
};

// The IP datagram in a packet of that link type; empty when there is none in it.
std::span<const std::uint8_t> ip_datagram(const Captured& packet);

class CaptureFile {
  public:
    // NAME is for error texts. Reads the beginning, which tells the format.
    CaptureFile(std::istream& in, std::string name);

    // The next packet, valid until the next call; false at the end.
    bool next(Captured& packet);

    std::uint64_t bytes_read() const noexcept { return at_; }

  private:
    struct Interface {
        std::uint32_t link_type = 0;
        std::uint64_t ticks_per_second = 1000000;
    };

    [[noreturn]] void fail(const std::string& what) const;
    bool take(std::uint8_t* to, std::size_t count, bool may_end);
    void take_bytes(std::size_t count);
    std::uint32_t load32(const std::uint8_t* from) const;
    std::uint16_t load16(const std::uint8_t* from) const;
    void begin_section();
    bool next_classic(Captured& packet);
    bool next_block(Captured& packet);
    void add_interface();
    bool take_enhanced(Captured& packet);
    bool take_simple(Captured& packet);

    std::istream& in_;
    std::string name_;
    std::uint64_t at_ = 0;   // in the file
    bool is_blocks_ = false; // pcapng
    bool is_big_endian_ = false;
    bool at_first_block_ = true;
    std::vector<Interface> interfaces_; // classic files have one
    std::vector<std::uint8_t> bytes_;
};

} // namespace sluice::tools
