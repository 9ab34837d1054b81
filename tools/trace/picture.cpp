// SPDX-License-Identifier: BSD-3-Clause
#include "tools/trace/picture.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "tools/page/page.hpp"
#include "tools/trace/calls.hpp"
#include "tools/trace/names.hpp"
#include "tools/trace/picture.css.hpp"
#include "tools/trace/picture.html.hpp"
#include "tools/trace/picture.js.hpp"

namespace sluice::tools::trace {

namespace {

using page::Json;

constexpr int kPictureSchema = 1;
constexpr std::uint64_t kMostNanoseconds = std::uint64_t{1} << 53; // that a script can count

// Lists, one for each property: an object for each request would have the same names over and over.
class Columns {
  public:
    template<typename... Values>
    bool add(std::initializer_list<const char*> names, Values&&... values) {
        if (count_ == kMostPictured) {
            ++left_out_;
            return false;
        }
        ++count_;
        const char* const* name = names.begin();
        (lists_[*name++].push_back(std::forward<Values>(values)), ...);
        return true;
    }
    // With lists of these NAMES, even if they are empty.
    Json json(std::initializer_list<const char*> names) const {
        Json object = Json::object();
        for (const char* const name : names) {
            const auto found = lists_.find(name);
            object[name] = found != lists_.end() ? found->second : Json::array();
        }
        return object;
    }
    std::uint64_t left_out() const { return left_out_; }

  private:
    std::map<std::string, Json> lists_;
    std::size_t count_ = 0;
    std::uint64_t left_out_ = 0;
};

// Numbers for texts that come again and again.
class TextNumbers {
  public:
    std::size_t number(const std::string& text) {
        const auto [found, is_new] = numbers_.emplace(text, texts_.size());
        if (is_new) {
            texts_.push_back(text);
        }
        return found->second;
    }
    Json json() const { return texts_; }

  private:
    std::map<std::string, std::size_t> numbers_;
    std::vector<std::string> texts_;
};

constexpr std::initializer_list<const char*> kRequestColumns = {
    "queue", "operation", "thread", "start", "length", "bytes", "id", "status", "ending"};
constexpr std::initializer_list<const char*> kCallColumns = {"thread", "name",  "start",
                                                             "length", "bytes", "failed"};
constexpr std::initializer_list<const char*> kMarkColumns = {"thread", "name", "start"};

class PictureData {
  public:
    explicit PictureData(std::span<const TracedProcess> processes) {
        for (const TracedProcess& process : processes) {
            if (!process.recording.events.empty()) { // in the order of time
                start_ns_ = std::min(start_ns_, process.recording.events.front().event.time_ns);
            }
        }
        for (const TracedProcess& process : processes) {
            add(process);
        }
    }

    Json json(const std::string& command) const {
        return {{"schema", kPictureSchema},
                {"name", command},
                {"note", note()},
                {"threads", threads_},
                {"queues", queues_},
                {"texts", texts_.json()},
                {"requests", requests_.json(kRequestColumns)},
                {"calls", calls_.json(kCallColumns)},
                {"marks", marks_.json(kMarkColumns)}};
    }

  private:
    using QueueOf = std::tuple<std::uint32_t, std::uint32_t, file::Kind>; // device, number, kind of the posts

    std::string note() const {
        std::string text;
        if (lost_ != 0) {
            text = std::to_string(lost_) + " events weren't recorded. ";
        }
        const std::uint64_t left = requests_.left_out() + calls_.left_out() + marks_.left_out();
        if (left != 0) {
            text += std::to_string(left) + " of " + std::to_string(all_) +
                    " requests, calls and instants are left out here; trace events (-o) have them all.";
        }
        return text;
    }

    std::uint64_t since_start(std::uint64_t time_ns) const {
        return std::min(time_ns - start_ns_, kMostNanoseconds);
    }
    // -1: it hasn't ended.
    Json length_of(const file::Event& begin, const file::Event* end) const {
        return end != nullptr ? Json(since_start(end->time_ns) - since_start(begin.time_ns)) : Json(-1);
    }

    void add(const TracedProcess& process) {
        const Recording& recording = process.recording;
        const std::size_t first_thread = threads_.size();
        for (const TracedThread& thread : recording.threads) {
            threads_.push_back(
                {{"pid", recording.pid},
                 {"program", recording.program.substr(recording.program.find_last_of('/') + 1)},
                 {"tid", thread.tid},
                 {"name", thread.name}});
            lost_ += thread.lost;
        }
        lost_ += recording.lost_of_others;
        devices_.clear();
        queue_numbers_.clear();
        for (const TracedEvent& each : recording.events) {
            add_mark(each, first_thread);
        }
        for (const TracedRequest& request : process.requests.all) {
            if (request.ending != Ending::kRefused) {
                add_request(recording, request, first_thread);
            }
        }
        for (const TracedCall& call : calls_of(recording)) {
            const TracedEvent& begin = recording.events[call.begin];
            const file::Event* const end = call.end ? &recording.events[*call.end].event : nullptr;
            ++all_;
            calls_.add(kCallColumns, first_thread + begin.thread, texts_.number(name_of_call(begin.event)),
                       since_start(begin.event.time_ns), length_of(begin.event, end),
                       end != nullptr ? end->id : 0, end != nullptr && end->status != 0);
        }
    }

    void add_mark(const TracedEvent& each, std::size_t first_thread) {
        const file::Event& event = each.event;
        std::string text;
        if (event.kind == file::Kind::kConnection) {
            text = name_of_connection_event(event.code);
        } else if (event.kind == file::Kind::kRefused) {
            text = "post refused";
        } else if (event.kind == file::Kind::kCompletion && event.status != 0) {
            text = name_of_status(event.status);
        } else if (event.kind == file::Kind::kQueuePair || event.kind == file::Kind::kQueuePairEnded) {
            text = event.kind == file::Kind::kQueuePair ? "queue pair made" : "queue pair destroyed";
        } else if (event.kind == file::Kind::kDevice) {
            devices_[event.device] = device_name_in(event);
            text = "device opened: " + devices_[event.device];
        }
        if (!text.empty()) {
            ++all_;
            marks_.add(kMarkColumns, first_thread + each.thread, texts_.number(text),
                       since_start(event.time_ns));
        }
    }

    std::size_t queue_of(const file::Event& post, std::int32_t pid) {
        const auto [found, is_new] =
            queue_numbers_.emplace(QueueOf{post.device, post.queue_pair, post.kind}, queues_.size());
        if (is_new) {
            const char* const what = post.kind == file::Kind::kPost      ? "sends"
                                     : post.kind == file::Kind::kReceive ? "receives"
                                                                         : "shared receives";
            queues_.push_back({{"pid", pid},
                               {"number", post.queue_pair},
                               {"what", what},
                               {"device", devices_[post.device]}});
        }
        return found->second;
    }

    void add_request(const Recording& recording, const TracedRequest& request, std::size_t first_thread) {
        const TracedEvent& post = recording.events[request.post];
        const file::Event* const end =
            request.ending != Ending::kOpen ? &recording.events[request.end].event : nullptr;
        const std::string status =
            request.ending == Ending::kCompleted && end != nullptr ? name_of_status(end->status) : "";
        ++all_;
        // A wr_id is a text: a script would round it.
        requests_.add(kRequestColumns, queue_of(post.event, recording.pid),
                      texts_.number(name_of_post(post.event)), first_thread + post.thread,
                      since_start(post.event.time_ns), length_of(post.event, end), post.event.bytes,
                      std::to_string(post.event.id), texts_.number(status),
                      texts_.number(name_of_ending(request.ending)));
    }

    std::uint64_t start_ns_ = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t lost_ = 0;
    std::uint64_t all_ = 0;
    Json threads_ = Json::array();
    Json queues_ = Json::array();
    TextNumbers texts_;
    Columns requests_;
    Columns calls_;
    Columns marks_;
    std::map<std::uint32_t, std::string> devices_; // of the process that is added
    std::map<QueueOf, std::size_t> queue_numbers_; // likewise
};

} // namespace

void write_picture(std::ostream& out, std::span<const TracedProcess> processes, const std::string& command) {
    const PictureData data(processes);
    const std::string title = command + " - trace";
    page::write(out, {.title = title, .style = kPictureCss, .body = kPictureHtml, .script = kPictureJs},
                data.json(command));
}

} // namespace sluice::tools::trace
