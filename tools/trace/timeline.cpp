// SPDX-License-Identifier: BSD-3-Clause
#include "tools/trace/timeline.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/trace/calls.hpp"
#include "tools/trace/names.hpp"

namespace sluice::tools::trace {

namespace {

using TimelineJson = nlohmann::ordered_json;

// Microseconds, with all three digits below.
std::string microseconds(std::uint64_t nanoseconds) {
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%llu.%03u", static_cast<unsigned long long>(nanoseconds / 1000),
                  static_cast<unsigned>(nanoseconds % 1000));
    return text.data();
}

// The array of events, one a line.
class TimelineWriter {
  public:
    explicit TimelineWriter(std::ostream& out) : out_(out) {}

    // OBJECT without its time, which is no number of JSON's here: a double would round it.
    void put(const TimelineJson& object, const std::string& times) {
        std::string text = object.dump(-1, ' ', false, TimelineJson::error_handler_t::replace);
        text.insert(1, times);
        out_ << (std::exchange(is_first_, false) ? "\n" : ",\n") << text;
    }

  private:
    std::ostream& out_;
    bool is_first_ = true;
};

// One process's events.
class ProcessTimeline {
  public:
    ProcessTimeline(TimelineWriter& to, const TracedProcess& process, std::uint64_t start_ns,
                    std::uint64_t& slices)
        : to_(to), recording_(process.recording), requests_(process.requests), start_ns_(start_ns),
          slices_(slices) {}

    void write() {
        write_names();
        for (std::size_t i = 0; i < recording_.events.size(); ++i) {
            take(i);
        }
        for (const TracedCall& call : calls_of(recording_)) {
            write_call(call);
        }
        for (const TracedRequest& request : requests_.all) {
            write_request(request);
        }
    }

  private:
    std::int32_t tid_of(std::uint32_t thread) const { return recording_.threads[thread].tid; }

    std::string time_of(const file::Event& event) const {
        return "\"ts\":" + microseconds(event.time_ns - start_ns_) + ",";
    }

    TimelineJson object(const char* phase, const std::string& name, const char* category,
                        std::uint32_t thread) const {
        return {{"ph", phase},
                {"name", name},
                {"cat", category},
                {"pid", recording_.pid},
                {"tid", tid_of(thread)}};
    }

    void write_name(const char* what, std::int32_t tid, const std::string& name) {
        to_.put(
            {{"ph", "M"}, {"name", what}, {"pid", recording_.pid}, {"tid", tid}, {"args", {{"name", name}}}},
            "\"ts\":0,");
    }

    void write_names() {
        write_name("process_name", recording_.pid,
                   recording_.program.substr(recording_.program.find_last_of('/') + 1));
        for (const TracedThread& thread : recording_.threads) {
            write_name("thread_name", thread.tid, thread.name);
        }
    }

    std::string device_of(const file::Event& event) const {
        const auto found = devices_.find(event.device);
        return found != devices_.end() ? found->second : "?";
    }

    void put_instant(std::size_t index, const std::string& name, const char* category,
                     TimelineJson arguments) {
        const TracedEvent& each = recording_.events[index];
        TimelineJson instant = object("i", name, category, each.thread);
        instant["s"] = "t";
        instant["args"] = std::move(arguments);
        to_.put(instant, time_of(each.event));
    }

    void take(std::size_t index) {
        const file::Event& event = recording_.events[index].event;
        switch (event.kind) {
        case file::Kind::kPost:
        case file::Kind::kReceive:
        case file::Kind::kSharedReceive:
            put_instant(index, "post " + name_of_post(event), "post", arguments_of_post(event));
            break;
        case file::Kind::kRefused:
            put_instant(index, "post refused", "post", {{"qp", event.queue_pair}});
            break;
        case file::Kind::kCompletion:
            put_instant(index, event.status == 0 ? "completion" : name_of_status(event.status), "completion",
                        arguments_of_completion(event));
            break;
        case file::Kind::kConnection:
            put_instant(index, name_of_connection_event(event.code), "connection",
                        {{"status", static_cast<std::int32_t>(event.bytes)}, {"qp", event.queue_pair}});
            break;
        case file::Kind::kQueuePair:
            put_instant(index, "queue pair made", "object",
                        {{"qp", event.queue_pair},
                         {"type", name_of_pair_type(event.code)},
                         {"device", device_of(event)}});
            break;
        case file::Kind::kQueuePairEnded:
            put_instant(index, "queue pair destroyed", "object", {{"qp", event.queue_pair}});
            break;
        case file::Kind::kDevice:
            devices_[event.device] = device_name_in(event);
            put_instant(index, "device opened", "object", {{"device", device_of(event)}});
            break;
        case file::Kind::kUnseen:
            put_instant(index, "an object whose requests aren't recorded", "object",
                        {{"device", device_of(event)}});
            break;
        case file::Kind::kNothing:
        case file::Kind::kHead:
        case file::Kind::kRegister:
        case file::Kind::kRegistered:
        case file::Kind::kDeregister:
        case file::Kind::kDeregistered:
        case file::Kind::kSync:
        case file::Kind::kSynced:
            break; // calls_of() has them
        }
    }

    TimelineJson arguments_of_post(const file::Event& event) const {
        const char* const queue = event.kind == file::Kind::kSharedReceive ? "srq" : "qp";
        TimelineJson arguments = {{queue, event.queue_pair},
                                  {"device", device_of(event)},
                                  {"wr_id", event.id},
                                  {"bytes", event.bytes}};
        if (event.kind == file::Kind::kPost) {
            arguments["signaled"] = (event.flags & file::kSignaled) != 0;
            arguments["inline"] = (event.flags & file::kInline) != 0;
        }
        return arguments;
    }

    TimelineJson arguments_of_completion(const file::Event& event) const {
        TimelineJson arguments = {{"wr_id", event.id}, {"status", name_of_status(event.status)}};
        if ((event.flags & file::kNoQueuePair) == 0) {
            arguments["qp"] = event.queue_pair;
        }
        arguments["device"] = device_of(event);
        return arguments;
    }

    void write_call(const TracedCall& call) {
        const TracedEvent& begin = recording_.events[call.begin];
        TimelineJson slice = object(call.end ? "X" : "B", name_of_call(begin.event),
                                    category_of_call(begin.event), begin.thread);
        std::string times = time_of(begin.event);
        if (call.end) {
            const file::Event& end = recording_.events[*call.end].event;
            slice["args"] = {{"bytes", end.id}, {"address", begin.event.id}, {"failed", end.status != 0}};
            times += "\"dur\":" + microseconds(end.time_ns - begin.event.time_ns) + ",";
        }
        to_.put(slice, times);
    }

    void write_request(const TracedRequest& request) {
        if (request.ending == Ending::kRefused) {
            return;
        }
        const TracedEvent& post = recording_.events[request.post];
        const bool is_shared = post.event.kind == file::Kind::kSharedReceive;
        const std::string name = (is_shared ? "SRQ " : "QP ") + std::to_string(post.event.queue_pair) + " " +
                                 name_of_post(post.event);
        const char* const category = post.event.kind == file::Kind::kPost ? "request" : "receive";
        const std::string id = std::to_string(++slices_);
        TimelineJson begin = object("b", name, category, post.thread);
        begin["id"] = id;
        begin["args"] = arguments_of_post(post.event);
        to_.put(begin, time_of(post.event));
        if (request.ending == Ending::kOpen) {
            return;
        }
        const TracedEvent& last = recording_.events[request.end];
        TimelineJson end = object("e", name, category, last.thread);
        end["id"] = id;
        end["args"] = {{"end", name_of_ending(request.ending)}};
        if (request.ending == Ending::kCompleted) {
            end["args"]["status"] = name_of_status(last.event.status);
        }
        to_.put(end, time_of(last.event));
    }

    TimelineWriter& to_;
    const Recording& recording_;
    const Requests& requests_;
    const std::uint64_t start_ns_;
    std::uint64_t& slices_; // asynchronous slices so far, of all processes
    std::map<std::uint32_t, std::string> devices_;
};

TimelineJson lost_in(std::span<const TracedProcess> processes) {
    TimelineJson lost = TimelineJson::array();
    for (const TracedProcess& process : processes) {
        for (const TracedThread& thread : process.recording.threads) {
            if (thread.lost != 0) {
                lost.push_back(
                    {{"pid", process.recording.pid}, {"tid", thread.tid}, {"events", thread.lost}});
            }
        }
        if (process.recording.lost_of_others != 0) {
            lost.push_back({{"pid", process.recording.pid}, {"events", process.recording.lost_of_others}});
        }
    }
    return lost;
}

} // namespace

TraceTotals totals_of(const TracedProcess& process) {
    TraceTotals totals;
    for (const TracedRequest& request : process.requests.all) {
        totals.posts += request.ending != Ending::kRefused ? 1 : 0;
    }
    for (const TracedEvent& each : process.recording.events) {
        totals.completions += each.event.kind == file::Kind::kCompletion ? 1 : 0;
        totals.unseen += each.event.kind == file::Kind::kUnseen ? 1 : 0;
    }
    totals.lost = process.recording.lost_of_others;
    for (const TracedThread& thread : process.recording.threads) {
        totals.lost += thread.lost;
    }
    totals.unreadable = process.recording.unreadable;
    return totals;
}

void write_timeline(std::ostream& out, std::span<const TracedProcess> processes, const std::string& command) {
    std::uint64_t start_ns = std::numeric_limits<std::uint64_t>::max();
    for (const TracedProcess& process : processes) {
        if (!process.recording.events.empty()) { // in the order of time
            start_ns = std::min(start_ns, process.recording.events.front().event.time_ns);
        }
    }
    out << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
    TimelineWriter writer(out);
    std::uint64_t slices = 0;
    for (const TracedProcess& process : processes) {
        ProcessTimeline(writer, process, start_ns, slices).write();
    }
    const TimelineJson other = {{"schema", 1}, {"command", command}, {"lost", lost_in(processes)}};
    out << "\n],\"otherData\":" << other.dump(-1, ' ', false, TimelineJson::error_handler_t::replace)
        << "}\n";
}

} // namespace sluice::tools::trace
