// SPDX-License-Identifier: BSD-3-Clause
#include "provider/attributes/cpu_cache.hpp"

#include <charconv>

#include "core/coherence/cacheflush.hpp"
#include "core/log.hpp"

namespace sluice::attributes {

namespace {

constexpr const char* kLineSize = "/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size";
constexpr std::uint64_t kMaxLine = 4096;

Finding line_size_from_files(const FileTree& tree) {
    const std::string text = tree.read_line(kLineSize);
    std::uint64_t bytes = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
    const bool is_size = error == std::errc{} && bytes > 0 && bytes <= kMaxLine && (bytes & (bytes - 1)) == 0;
    return is_size ? Finding{bytes, SLUICE_SOURCE_KERNEL, SLUICE_CONFIDENCE_LIKELY} : Finding{};
}

} // namespace

CpuCache find_cpu_cache(const FileTree& tree) {
    CpuCache cache;
    cache.line_bytes = line_size_from_files(tree);
    if (!tree.is_live()) {
        return cache;
    }
    const Result<const coherence::Ops*> ops = coherence::native_ops();
    if (!ops) {
        SLUICE_LOG(kInfo, "attributes", "no cache instruction for user space: %s", ops.error().text());
        cache.clean = cache.invalidate = {"none", SLUICE_SOURCE_CPU, SLUICE_CONFIDENCE_CERTAIN};
        return cache;
    }
    cache.clean = {(*ops)->clean.name, SLUICE_SOURCE_CPU, SLUICE_CONFIDENCE_CERTAIN};
    cache.invalidate = {(*ops)->invalidate.name, SLUICE_SOURCE_CPU, SLUICE_CONFIDENCE_CERTAIN};
    cache.line_bytes = {(*ops)->line_bytes, SLUICE_SOURCE_CPU, SLUICE_CONFIDENCE_CERTAIN};
    cache.granule_bytes = {(*ops)->granule_bytes, SLUICE_SOURCE_CPU, SLUICE_CONFIDENCE_CERTAIN};
    return cache;
}

} // namespace sluice::attributes
