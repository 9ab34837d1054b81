// SPDX-License-Identifier: BSD-3-Clause
//
// The simulated host on which this process is: which files it shares with others, and the lines that move
// between its image of them and memory.
//
//   clean        a dirty line goes to memory, whole
//   invalidate   the same, as no architecture has a pure one; then the line is read from memory, at once:
//   what
//                others write there later is news only after the next invalidate
//
// A range moves line by line, in an order that is drawn, and other hosts' lines move in between. Where a line
// goes to memory that is dirty on another host, too, that one's is evicted right behind it, or stays, as is
// drawn. Nothing else moves by itself, unless evictions are asked for. ADR 14 has the reasons.
//
// Which range is an image's, /proc/self/maps tells at each call: so munmap(), mremap(), MAP_FIXED and fork()
// need no hook, and mappings that no hook could see are looked at, too.
//
// Thread safety: all of it, from any thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/coherence/cacheflush.hpp"
#include "core/old_pages/old_pages.hpp"
#include "core/random.hpp"
#include "core/report/finding.hpp"
#include "core/report/timeline.hpp"
#include "core/sync.hpp"
#include "layers/hosts/publications.hpp"
#include "layers/hosts/shared_file.hpp"
#include "layers/hosts/shared_lock.hpp"

namespace sluice::layers::hosts {

class Host {
  public:
    // This process's; null where SLUICE_SYNC_HOST isn't set. The same each time.
    static Result<Host*> find() noexcept;

    // Leaves an empty file, by which `sluice sync run` sees that this host's programs use the library at all.
    void note_use() const;

    // The mapping that begins at MAPPED, which mmap() has made with these arguments, becomes one of the
    // host's image, if hosts share FILE. An error leaves it as it is.
    Result<void> put_image(void* mapped, std::size_t length, int protection, int flags, int file,
                           off_t offset);

    // RUN, as far as it is of an image. DROP: invalidate.
    void move(coherence::LineRun run, bool drop) noexcept;

    // For a checker, around the calls of a flag.
    bool is_watched() const noexcept
        SLUICE_TSA(no_thread_safety_analysis) { // set once, before others know it
        return publications_.has_value();
    }
    void before_publish(const std::uint64_t* flag) noexcept;
    static void before_observe() noexcept;
    void after_publish(const std::uint64_t* flag, std::uint64_t value) noexcept;
    void after_observe(const std::uint64_t* flag, std::uint64_t value) noexcept;
    // The process ends by itself.
    void leave() noexcept;

  private:
    // Bytes of a mapping, when a flag is published or observed: more would take too long.
    static constexpr std::uint64_t kMostLookedAt = std::uint64_t{16} << 20;
    using Words = std::array<Line::Word, kLineBytes / sizeof(Line::Word)>; // of a line
    static std::uint64_t hash_of(const Words& words) noexcept;

    Host(Place place, SharedLock lock);
    static Result<Host*> make();

    SharedFile& file_locked(const std::string& name) SLUICE_TSA(requires_capability(mutex_));
    const SharedFile* file_at_locked(std::string_view path) const SLUICE_TSA(requires_capability(mutex_));
    // What a call finds that takes lines from memory.
    struct Look {
        const report::Stack* stack = nullptr;  // of the program's call; null: an eviction
        std::optional<unsigned> conflict_with; // the host, or this one: nobody knows which
        std::string conflict_at;
        bool has_news = false;
        unsigned publisher = 0;
        std::string path;
        std::string file;                  // its name
        std::vector<std::uint64_t> missed; // offsets of lines
        std::string published;             // there, as frames
    };

    // Calls VISIT(file, first, last) for each part of RUN that is of an image.
    using Visitor = std::function<void(const SharedFile& file, std::uint64_t first, std::uint64_t last)>;
    Result<void> visit_mapped(coherence::LineRun run, const Visitor& visit);
    Result<void> move_mapped(coherence::LineRun run, bool drop, Look& look, const report::Stack& stack);
    void look_at_line_locked(const SharedFile& file, std::uint64_t offset, Look& look)
        SLUICE_TSA(requires_capability(mutex_));
    void note_dirty_locked(const Publications::Publication& now) SLUICE_TSA(requires_capability(mutex_));
    void visit_flag(const std::uint64_t* flag,
                    const std::function<void(const SharedFile& file, std::uint64_t offset)>& visit) noexcept;
    void note_written_locked(const SharedFile& file, std::uint64_t offset)
        SLUICE_TSA(requires_capability(mutex_));
    void forget_dirty_locked(unsigned host, const SharedFile& file, std::uint64_t offset)
        SLUICE_TSA(requires_capability(mutex_));
    void watch();
    void report_missed(Look& look, const report::Stack& stack);
    void look_for_conflict_locked(const SharedFile& file, std::uint64_t offset, Look& look)
        SLUICE_TSA(requires_capability(mutex_));
    void report_conflict(const Look& look, const report::Stack& stack) const;
    struct Unpublished { // a flag
        std::string where;
        unsigned host; // that has stored to it
    };
    std::optional<Unpublished> find_stored_flag_locked(const SharedFile& file, std::uint64_t offset)
        SLUICE_TSA(requires_capability(mutex_));
    void report_stored_flag(const Unpublished& flag, const report::Stack& stack) const;
    // What another host has stored to a flag that this one observes, as long as it stays so.
    struct StoredFlag {
        std::uint64_t since_ns = 0;
        std::uint64_t value = 0;
        std::uint32_t observations = 0; // of that host, by then
        std::uint32_t times = 0;        // that this process has seen it; 0: it isn't so
        bool is_told = false;
    };

    // A line of the program's that another host has written and published, which this thread's host has from
    // before.
    struct OldLine {
        std::string path; // of the file
        std::uint64_t offset;
        Words words; // as the host has them
    };
    Result<void> close_old(const report::Stack& observed);
    void close_old_locked(std::string_view maps, const report::Stack& observed)
        SLUICE_TSA(requires_capability(mutex_));
    void close_old_page_locked(const SharedFile& file, std::uintptr_t page, std::uint64_t offset,
                               std::uint32_t event) SLUICE_TSA(requires_capability(mutex_));
    void report_loads();
    void report_load_locked(const old_pages::Touch& load, const OldLine& line)
        SLUICE_TSA(requires_capability(mutex_));

    // For the coherence timeline (ADR 104), which is_watched() is needed for.
    static report::Occasion occasion_of(const report::Stack& stack, const std::string& call);
    report::RegionTimeline& timeline_locked(const SharedFile& file, std::uint64_t now_ns)
        SLUICE_TSA(requires_capability(mutex_));
    bool look_at_lines_locked(const SharedFile& file, std::uint64_t first, std::uint64_t last,
                              const report::Occasion& occasion) SLUICE_TSA(requires_capability(mutex_));
    void look_at_all_locked(const report::Occasion& occasion) SLUICE_TSA(requires_capability(mutex_));
    void move_recorded_locked(const SharedFile& file, std::uint64_t first, std::uint64_t last, bool drop,
                              Look& look, const report::Occasion& occasion)
        SLUICE_TSA(requires_capability(mutex_));
    void move_lines_locked(const SharedFile& file, std::uint64_t first, std::uint64_t last, bool drop,
                           Look& look) SLUICE_TSA(requires_capability(mutex_));
    void move_line_locked(const SharedFile& file, std::uint64_t offset, bool drop, Look& look)
        SLUICE_TSA(requires_capability(mutex_));
    void write_back_locked(const SharedFile& file, std::uint64_t offset)
        SLUICE_TSA(requires_capability(mutex_));
    void evict_some_locked(const SharedFile& file) SLUICE_TSA(requires_capability(mutex_));

    const Place place_;
    Mutex mutex_; // before the SharedLock
    SharedLock shared_ SLUICE_TSA(guarded_by(mutex_));
    RandomStream random_ SLUICE_TSA(guarded_by(mutex_));
    std::map<std::string, SharedFile> files_ SLUICE_TSA(guarded_by(mutex_));
    std::optional<Publications> publications_ SLUICE_TSA(guarded_by(mutex_)); // none: nobody wants to know
    std::map<std::tuple<std::string, std::uint64_t, unsigned>, StoredFlag>
        stored_flags_ SLUICE_TSA(guarded_by(mutex_)); // by file, offset and host
    std::unordered_map<std::uintptr_t, OldLine> old_lines_ SLUICE_TSA(guarded_by(mutex_)); // by address
    report::Stack observed_ SLUICE_TSA(guarded_by(mutex_)); // where that was known last
    std::map<std::string, report::RegionTimeline> timelines_ SLUICE_TSA(guarded_by(mutex_)); // by file
};

} // namespace sluice::layers::hosts
