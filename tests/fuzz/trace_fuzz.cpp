// SPDX-License-Identifier: BSD-3-Clause
//
// A file that claims to be a process's recording: read, its requests matched, and written as a timeline. The
// input is the header's begin, two threads and the blocks; what lies between them is zero, to spare the
// fuzzer a long way.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/fuzz/input.hpp"
#include "tools/trace/requests.hpp"
#include "tools/trace/timeline.hpp"

using namespace sluice::tools::trace;
using sluice::fuzz::must;

namespace {

constexpr std::size_t kHeaderBytes = 64;
constexpr std::size_t kThreadsBytes = 64;

std::string unfolded(std::string_view input) {
    std::string whole(file::kBlocksAt, '\0');
    const std::string_view header = input.substr(0, kHeaderBytes);
    std::copy(header.begin(), header.end(), whole.begin());
    input.remove_prefix(header.size());
    const std::string_view threads = input.substr(0, kThreadsBytes);
    std::copy(threads.begin(), threads.end(), whole.begin() + file::kThreadsAt);
    input.remove_prefix(threads.size());
    return whole.append(input);
}

} // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string whole = unfolded({reinterpret_cast<const char*>(data), size});
    const auto read = [&](std::uint64_t offset, char* to, std::size_t bytes) {
        const std::size_t there =
            offset >= whole.size() ? 0 : std::min<std::size_t>(bytes, whole.size() - offset);
        std::copy_n(whole.data() + std::min<std::size_t>(offset, whole.size()), there, to);
        return there;
    };
    std::optional<Recording> recording = read_recording(read, 4);
    if (!recording) {
        return 0;
    }
    must(recording->events.size() < std::size_t{4} * file::kBlockEvents);
    must(recording->threads.size() <= file::kMostThreads);
    for (const TracedEvent& each : recording->events) {
        must(each.thread < recording->threads.size());
    }
    Requests requests = requests_of(*recording);
    for (const TracedRequest& each : requests.all) {
        must(each.post < recording->events.size() && each.end < recording->events.size());
        must(each.ending == Ending::kOpen || each.end > each.post);
    }
    const std::vector<TracedProcess> processes = {
        {.recording = std::move(*recording), .requests = std::move(requests)}};
    (void)totals_of(processes.front());
    std::ostringstream out;
    write_timeline(out, processes, "command");
    must(nlohmann::json::accept(out.str()));
    return 0;
}
