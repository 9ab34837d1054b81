// SPDX-License-Identifier: BSD-3-Clause
//
// What a peer asks a responder for. The bytes are a request; the region's size comes from their sum, so that
// ranges are near its end now and then.
#include <cstdint>
#include <numeric>
#include <vector>

#include "rpma/gpspm.hpp"
#include "rpma/little_endian.hpp"
#include "tests/fuzz/input.hpp"

using namespace sluice::rpma;
using sluice::fuzz::must;

namespace {

void put_field(std::vector<std::byte>& bytes, unsigned field, std::uint64_t value) {
    std::array<std::byte, 8> payload{};
    put_little_endian(value, payload.data());
    bytes.push_back(static_cast<std::byte>(field << 3 | 1));
    bytes.insert(bytes.end(), payload.begin(), payload.end());
}

// What is accepted can be written plainly, and is then accepted as the same.
void check_request(const FlushRequest& request) {
    std::vector<std::byte> plain;
    put_field(plain, 1, request.offset);
    put_field(plain, 2, request.length);
    put_field(plain, 3, request.op_context);
    const auto again = flush_request_from(plain);
    must(again && again->offset == request.offset && again->length == request.length &&
         again->op_context == request.op_context);
    const auto answer = flush_response_for(request);
    must(get_little_endian<std::uint64_t>(answer.data() + 1) == request.op_context);
}

void check_range(std::uint64_t size, const FlushRequest& request) {
    __extension__ using Wide = unsigned __int128;
    const bool is_within = Wide{request.offset} + request.length <= size;
    must(is_range_of(size, request) == is_within);
}

} // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto request = flush_request_from({reinterpret_cast<const std::byte*>(data), size});
    if (!request) {
        return 0;
    }
    must(size >= 27);
    check_request(*request);
    const std::uint64_t sum = std::accumulate(data, data + size, std::uint64_t{0});
    for (const std::uint64_t region :
         {sum, request->offset, request->length, request->offset + request->length, UINT64_MAX - sum % 2}) {
        check_range(region, *request);
    }
    return 0;
}
