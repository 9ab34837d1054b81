// SPDX-License-Identifier: BSD-3-Clause
//
// The bytes come from a library in this process, which could do worse than write wrong ones. What is checked
// is what the kernel checks: that the command is whole, and that the answer has room.
#include "layers/cmdev/commands.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/log.hpp"
#include "ibverbs-glue/adaptors.hpp"
#include "layers/cmdev/multicast.hpp"
#include "layers/cmdev/queries.hpp"
#include "layers/cmdev/queue_pair.hpp"
#include "layers/cmdev/request.hpp"
#include "layers/cmdev/translate.hpp"

namespace sluice::layers::cmdev {

namespace {

constexpr std::uint32_t kWriteCmEvent = 24; // newer than some headers

// Gives the kernel a command of ours.
template<typename Command>
Result<void> ask_kernel(const File& file, std::uint32_t number, const Command& command, std::size_t room) {
    struct [[gnu::packed]] {
        rdma_ucm_cmd_hdr header;
        Command command;
    } whole{.header = {.cmd = number, .in = sizeof command, .out = static_cast<std::uint16_t>(room)},
            .command = command};
    if (write(file.kernels(), &whole, sizeof whole) != static_cast<ssize_t>(sizeof whole)) {
        return Error::from_errno(errno, "giving a command to the kernel's connection manager");
    }
    return {};
}

// librdmacm tries whether there are addresses of InfiniBand's family, in each process that connects.
bool is_trial(const Error& error) noexcept {
    return error.os_errno() == EAFNOSUPPORT;
}

Result<Answer> create_id(const Request& request) {
    const Result<rdma_ucm_create_id> command = request.as<rdma_ucm_create_id>();
    if (!command) {
        return command.error().clone();
    }
    const bool is_in_kernel = request.file().kernels() >= 0;
    rdma_ucm_create_id_resp made{};
    if (is_in_kernel) {
        rdma_ucm_create_id kernels = *command;
        kernels.response = reinterpret_cast<std::uintptr_t>(&made);
        Result<void> done = ask_kernel(request.file(), RDMA_USER_CM_CMD_CREATE_ID, kernels, sizeof made);
        if (!done) {
            return std::move(done).error();
        }
    } else {
        made.id = ids::next_handle();
    }
    Result<void> answered = request.answer(command->response, made);
    if (!answered) {
        return std::move(answered).error();
    }
    auto id = std::make_shared<SharedId>(made.id, *command, is_in_kernel);
    {
        const LockGuard guard(id->mutex);
        id->id.file = request.shared_file();
    }
    ids::add(std::move(id));
    return Answer::kDone;
}

Result<Answer> destroy_id(const Request& request) {
    const Result<rdma_ucm_destroy_id> command = request.as<rdma_ucm_destroy_id>();
    if (!command) {
        return command.error().clone();
    }
    const Result<Answer> known = with_id(request, command->id, [](Id&) { return Answer::kDone; });
    if (!known || *known == Answer::kByKernel) {
        return known ? Result<Answer>(Answer::kByKernel) : known.error().clone();
    }
    const std::shared_ptr<SharedId> id = ids::take(command->id);
    if (id == nullptr) {
        return Error(ErrorKind::kNotFound, "another thread has destroyed the id", ENOENT);
    }
    rdma_ucm_destroy_id_resp ended{.events_reported = 0};
    if (id->is_in_kernel) {
        rdma_ucm_destroy_id kernels = *command;
        kernels.response = reinterpret_cast<std::uintptr_t>(&ended);
        Result<void> done = ask_kernel(request.file(), RDMA_USER_CM_CMD_DESTROY_ID, kernels, sizeof ended);
        if (!done) {
            return std::move(done).error();
        }
    }
    ended.events_reported += destroy(*id);
    return done_if(request.answer(command->response, ended));
}

Result<Answer> bind_to(const Request& request, std::uint32_t handle, const Result<glue::Address>& address) {
    return with_id(request, handle, [&](Id& id) -> Result<Answer> {
        if (!address) {
            return id.is_in_kernel ? Result<Answer>(Answer::kByKernel) : address.error().clone();
        }
        return bind_address(id, *address);
    });
}

Result<Answer> bind_ip(const Request& request) {
    const Result<rdma_ucm_bind_ip> command = request.as<rdma_ucm_bind_ip>();
    return command ? bind_to(request, command->id, address_in(command->addr)) : command.error().clone();
}

Result<Answer> bind(const Request& request) {
    const Result<rdma_ucm_bind> command = request.as<rdma_ucm_bind>();
    return command ? bind_to(request, command->id, address_in(command->addr, command->addr_size))
                   : command.error().clone();
}

Result<Answer> resolve(const Request& request, std::uint32_t handle, const Result<glue::Address>& source,
                       const Result<glue::Address>& destination) {
    return with_id(request, handle, [&](Id& id) -> Result<Answer> {
        if (!source || !destination) {
            const Error& wrong = source ? destination.error() : source.error();
            return id.is_in_kernel ? Result<Answer>(Answer::kByKernel) : wrong.clone();
        }
        return resolve_address(id, *source, *destination);
    });
}

Result<Answer> resolve_ip(const Request& request) {
    const Result<rdma_ucm_resolve_ip> command = request.as<rdma_ucm_resolve_ip>();
    if (!command) {
        return command.error().clone();
    }
    const bool has_source = command->src_addr.sin6_family != AF_UNSPEC;
    return resolve(request, command->id, has_source ? address_in(command->src_addr) : glue::Address(),
                   address_in(command->dst_addr));
}

Result<Answer> resolve_any(const Request& request) {
    const Result<rdma_ucm_resolve_addr> command = request.as<rdma_ucm_resolve_addr>();
    if (!command) {
        return command.error().clone();
    }
    const bool has_source = command->src_size != 0;
    return resolve(request, command->id,
                   has_source ? address_in(command->src_addr, command->src_size) : glue::Address(),
                   address_in(command->dst_addr, command->dst_size));
}

Result<Answer> find_route(const Request& request) {
    const Result<rdma_ucm_resolve_route> command = request.as<rdma_ucm_resolve_route>();
    return command ? with_device(request, command->id, [](Id& id) { return resolve_route(id); })
                   : command.error().clone();
}

// Queue pairs are librdmacm's: uroce's connection manager gets a number.
sluice_cm_params parameters_of(const Id& id, const rdma_ucm_conn_param& wanted) {
    sluice_cm_params params{};
    sluice_cm_default_params(&params, sizeof params);
    params.private_data = wanted.private_data;
    params.private_data_len = wanted.private_data_len;
    params.responder_resources = wanted.responder_resources;
    params.initiator_depth = wanted.initiator_depth;
    params.flow_control = wanted.flow_control;
    params.retry_count = wanted.retry_count;
    params.rnr_retry_count = wanted.rnr_retry_count;
    params.srq = wanted.srq;
    params.qp_num = wanted.qp_num;
    params.qkey = wanted.qkey != 0 ? wanted.qkey : kDatagramKey;
    params.local_port = id.source.port();
    params.local = id.source.get();
    return params;
}

Result<Answer> connect(const Request& request) {
    const Result<rdma_ucm_connect> command =
        request.as<rdma_ucm_connect>(offsetof(rdma_ucm_connect, reserved));
    if (!command) {
        return command.error().clone();
    }
    return with_device(request, command->id, [&](const Id& id) -> Result<void> {
        if (command->conn_param.valid == 0 || !id.destination.is_set()) {
            return invalid("connecting needs parameters and a resolved address");
        }
        const sluice_cm_params params = parameters_of(id, command->conn_param);
        return glue::from_rc(sluice_cm_connect(id.cm, id.destination.get(), &params, sizeof params),
                             "connecting");
    });
}

// The port that the kernel has chosen for an id at the wildcard address; 0 without one.
std::uint16_t kernels_port_of(const File& file, std::uint32_t handle) {
    rdma_ucm_query_route_resp answer{};
    rdma_ucm_query command{};
    command.id = handle;
    command.response = reinterpret_cast<std::uintptr_t>(&answer);
    if (!ask_kernel(file, RDMA_USER_CM_CMD_QUERY_ROUTE, command, sizeof answer)) {
        return 0;
    }
    return ntohs(answer.src_addr.sin6_port); // where an IPv4 address has it, too
}

Result<Answer> listen_at(const Request& request) {
    const Result<rdma_ucm_listen> command = request.as<rdma_ucm_listen>();
    if (!command) {
        return command.error().clone();
    }
    const int backlog = static_cast<int>(command->backlog);
    return with_id(request, command->id, [&](Id& id) -> Result<Answer> {
        Result<void> taken = take_device(id);
        if (!taken) {
            return std::move(taken).error();
        }
        if (id.device) {
            return done_if(listen(id, backlog));
        }
        if (id.is_kernels) {
            return Answer::kByKernel;
        }
        std::uint16_t port = 0;
        if (id.is_in_kernel) {
            Result<void> done = ask_kernel(request.file(), RDMA_USER_CM_CMD_LISTEN, *command, 0);
            if (!done) {
                return std::move(done).error();
            }
            port = kernels_port_of(request.file(), id.handle);
        }
        return done_if(listen_everywhere(id, backlog, port));
    });
}

// Without parameters it is the active side's answer to an answer.
Result<Answer> accept(const Request& request) {
    const Result<rdma_ucm_accept> command = request.as<rdma_ucm_accept>(offsetof(rdma_ucm_accept, reserved));
    if (!command) {
        return command.error().clone();
    }
    return with_device(request, command->id, [&](Id& id) -> Result<void> {
        if (command->conn_param.valid == 0) {
            return glue::from_rc(sluice_cm_establish(id.cm), "establishing a connection");
        }
        const std::uint64_t before = std::exchange(id.uid, command->uid); // events may follow at once
        const sluice_cm_params params = parameters_of(id, command->conn_param);
        Result<void> done =
            glue::from_rc(sluice_cm_accept(id.cm, &params, sizeof params), "accepting a connection");
        if (!done) {
            id.uid = before;
        }
        return done;
    });
}

Result<Answer> reject(const Request& request) {
    const Result<rdma_ucm_reject> command = request.as<rdma_ucm_reject>();
    if (!command) {
        return command.error().clone();
    }
    return with_device(request, command->id, [&](const Id& id) {
        return glue::from_rc(
            sluice_cm_reject(id.cm, command->reason, command->private_data, command->private_data_len),
            "rejecting a connection");
    });
}

Result<Answer> disconnect(const Request& request) {
    const Result<rdma_ucm_disconnect> command = request.as<rdma_ucm_disconnect>();
    if (!command) {
        return command.error().clone();
    }
    return with_device(request, command->id, [](const Id& id) {
        return glue::from_rc(sluice_cm_disconnect(id.cm), "disconnecting");
    });
}

Result<Answer> init_qp_attr(const Request& request) {
    const Result<rdma_ucm_init_qp_attr> command = request.as<rdma_ucm_init_qp_attr>();
    if (!command) {
        return command.error().clone();
    }
    return with_device(request, command->id, [&](const Id& id) -> Result<void> {
        const Result<ib_uverbs_qp_attr> found =
            queue_pair_attributes(id, static_cast<ibv_qp_state>(command->qp_state));
        return found ? request.answer(command->response, *found) : found.error().clone();
    });
}

Result<void> take_option(Id& id, const rdma_ucm_set_option& option) {
    const auto take = [&](std::uint8_t& to) -> Result<void> {
        if (option.optlen != sizeof to) {
            return invalid("this option is one byte");
        }
        std::memcpy(&to, Request::at(option.optval), sizeof to);
        return {};
    };
    if (option.level == RDMA_OPTION_ID && option.optname == RDMA_OPTION_ID_TOS) {
        return take(id.type_of_service);
    }
    if (option.level == RDMA_OPTION_ID && option.optname == RDMA_OPTION_ID_ACK_TIMEOUT) {
        return take(id.ack_timeout);
    }
    // Ports of uroce's are free as soon as nobody listens, and a program may listen at both wildcards.
    const bool is_so_already =
        option.level == RDMA_OPTION_ID &&
        (option.optname == RDMA_OPTION_ID_REUSEADDR || option.optname == RDMA_OPTION_ID_AFONLY);
    return is_so_already ? Result<void>()
                         : Error(ErrorKind::kNotSupported, "uroce has no such option", EOPNOTSUPP);
}

// Before the id has an address, both take it.
Result<Answer> set_option(const Request& request) {
    const Result<rdma_ucm_set_option> command = request.as<rdma_ucm_set_option>();
    if (!command) {
        return command.error().clone();
    }
    return with_id(request, command->id, [&](Id& id) -> Result<Answer> {
        Result<void> done = take_option(id, *command);
        return !id.device && id.is_in_kernel ? Result<Answer>(Answer::kByKernel) : done_if(std::move(done));
    });
}

Result<Answer> notify(const Request& request) {
    const Result<rdma_ucm_notify> command = request.as<rdma_ucm_notify>();
    if (!command) {
        return command.error().clone();
    }
    return with_device(request, command->id, [&](const Id& id) -> Result<void> {
        if (command->event != IBV_EVENT_COMM_EST) {
            return invalid("rdma_notify() takes IBV_EVENT_COMM_EST of a connection only");
        }
        return glue::from_rc(sluice_cm_notify(id.cm), "reporting that the peer is ready");
    });
}

// Written to the channel that the id goes to; the command has the descriptor of the other.
Result<Answer> migrate_id(const Request& request) {
    Result<rdma_ucm_migrate_id> command = request.as<rdma_ucm_migrate_id>();
    if (!command) {
        return std::move(command).error();
    }
    const std::shared_ptr<File> from = files::find(static_cast<int>(command->fd)).file;
    const std::shared_ptr<SharedId> id = ids::find(command->id);
    if (from == nullptr) {
        return Error(ErrorKind::kInvalidArgument, "the channel that an id shall leave isn't one", EINVAL);
    }
    rdma_ucm_migrate_resp moved{.events_reported = 0};
    if (id == nullptr || id->is_in_kernel) {
        rdma_ucm_migrate_id kernels = *command;
        kernels.fd = static_cast<std::uint32_t>(from->kernels());
        kernels.response = reinterpret_cast<std::uintptr_t>(&moved);
        Result<void> done = ask_kernel(request.file(), RDMA_USER_CM_CMD_MIGRATE_ID, kernels, sizeof moved);
        if (!done) {
            return std::move(done).error();
        }
    }
    if (id != nullptr) {
        const LockGuard guard(id->mutex);
        Result<void> done = id->id.is_destroyed || id->id.file != from
                                ? invalid("the id is destroyed, or of another channel")
                                : migrate(id->id, request.shared_file());
        if (!done) {
            return std::move(done).error();
        }
        moved.events_reported += id->id.reported;
    }
    return done_if(request.answer(command->response, moved));
}

// What librdmacm calls what the event is about; 0: it doesn't know that yet, or not any more.
std::uint64_t uid_of(const Event& event, Id& id) noexcept {
    if (!is_of_group(event)) {
        return id.uid;
    }
    const Id::Group* const group = group_of(event, id);
    return group == nullptr ? 0 : group->uid;
}

// librdmacm counts a group's events twice: for the group and for its id.
void count(const Event& event, Id& id) noexcept {
    ++id.reported;
    if (is_of_group(event)) {
        ++group_of(event, id)->reported;
    }
}

// False: its id is destroyed, or nobody knows what it is about.
Result<bool> report(const Request& request, std::uint64_t to, Event& event) {
    const std::shared_ptr<SharedId> id = ids::find(event.handle);
    if (id == nullptr) {
        return false;
    }
    const LockGuard guard(id->mutex);
    event.response.uid = uid_of(event, id->id);
    if (id->id.is_destroyed || event.response.uid == 0) {
        return false;
    }
    Result<void> done = request.answer(to, event.response, offsetof(rdma_ucm_event_resp, reserved));
    if (!done) {
        return std::move(done).error();
    }
    count(event, id->id);
    return true;
}

void drop(const Event& event) {
    const bool is_request = event.response.event == static_cast<std::uint32_t>(EventType::kConnectRequest);
    const std::shared_ptr<SharedId> request = is_request ? ids::take(event.response.id) : nullptr;
    if (request != nullptr) {
        (void)destroy(*request);
    }
}

Result<bool> report_or_drop(const Request& request, std::uint64_t to, Event& event) {
    Result<bool> reported = report(request, to, event);
    if (!reported || !*reported) {
        drop(event);
    }
    return reported;
}

std::optional<Event> translate_and_acknowledge(sluice_cm_event& source) {
    const std::unique_ptr<sluice_cm_event, decltype(&sluice_cm_ack_event)> taken(&source,
                                                                                 sluice_cm_ack_event);
    return translate(source);
}

Result<bool> take_event_of(sluice_cm_channel* channel, const Request& request, std::uint64_t to) {
    for (;;) {
        sluice_cm_event* source = nullptr;
        const int rc = sluice_cm_get_event(channel, 0, &source);
        if (rc != 0) {
            return rc == EAGAIN ? Result<bool>(false) : Error::from_errno(rc, "taking an event of uroce's");
        }
        std::optional<Event> event = translate_and_acknowledge(*source);
        Result<bool> reported = event ? report_or_drop(request, to, *event) : Result<bool>(false);
        if (!reported || *reported) {
            return reported;
        }
    }
}

Result<Answer> get_event(const Request& request) {
    const Result<rdma_ucm_get_event> command = request.as<rdma_ucm_get_event>();
    if (!command) {
        return command.error().clone();
    }
    if (request.room() < offsetof(rdma_ucm_event_resp, reserved)) {
        return Error(ErrorKind::kOutOfRange, "there is no room for an event", ENOSPC);
    }
    while (std::optional<Event> posted = request.file().take_posted()) {
        const Result<bool> reported = report_or_drop(request, command->response, *posted);
        if (!reported || *reported) {
            return reported ? Result<Answer>(Answer::kDone) : reported.error().clone();
        }
    }
    for (sluice_cm_channel* each : request.file().channels()) {
        const Result<bool> reported = take_event_of(each, request, command->response);
        if (!reported || *reported) {
            return reported ? Result<Answer>(Answer::kDone) : reported.error().clone();
        }
    }
    return request.file().kernels() >= 0 ? Result<Answer>(Answer::kByKernel)
                                         : Error(ErrorKind::kTimedOut, "there is no event", EAGAIN);
}

// librdmacm's own, since version 58: an event that comes back to the one who writes it.
struct WriteEvent {
    std::uint32_t id;
    std::uint32_t reserved;
    std::uint32_t event;
    std::uint32_t status;
    std::uint64_t argument; // and, behind it, what no event of these has
};

Result<Answer> write_event(const Request& request) {
    const Result<WriteEvent> command = request.as<WriteEvent>();
    if (!command) {
        return command.error().clone();
    }
    return with_id(request, command->id, [&](Id& id) -> Result<Answer> {
        if (id.is_in_kernel) {
            return Answer::kByKernel; // whose channel it may use, whoever's the id is
        }
        Event event = make_event(id.handle, static_cast<EventType>(command->event));
        if (event.response.event != static_cast<std::uint32_t>(EventType::kUser) &&
            event.response.event != static_cast<std::uint32_t>(EventType::kInternal)) {
            return invalid("only events of the program's own can be written");
        }
        event.response.status = command->status;
        std::memcpy(&event.response.param, &command->argument, sizeof command->argument);
        id.file->post(event);
        return Answer::kDone;
    });
}

struct Command {
    std::uint32_t number;
    const char* name;
    Result<Answer> (*execute)(const Request&);
};

constexpr std::array kCommands = {
    Command{RDMA_USER_CM_CMD_CREATE_ID, "create id", create_id},
    Command{RDMA_USER_CM_CMD_DESTROY_ID, "destroy id", destroy_id},
    Command{RDMA_USER_CM_CMD_BIND_IP, "bind", bind_ip},
    Command{RDMA_USER_CM_CMD_RESOLVE_IP, "resolve address", resolve_ip},
    Command{RDMA_USER_CM_CMD_RESOLVE_ROUTE, "resolve route", find_route},
    Command{RDMA_USER_CM_CMD_QUERY_ROUTE, "query route", query_route},
    Command{RDMA_USER_CM_CMD_CONNECT, "connect", connect},
    Command{RDMA_USER_CM_CMD_LISTEN, "listen", listen_at},
    Command{RDMA_USER_CM_CMD_ACCEPT, "accept", accept},
    Command{RDMA_USER_CM_CMD_REJECT, "reject", reject},
    Command{RDMA_USER_CM_CMD_DISCONNECT, "disconnect", disconnect},
    Command{RDMA_USER_CM_CMD_INIT_QP_ATTR, "queue pair's attributes", init_qp_attr},
    Command{RDMA_USER_CM_CMD_GET_EVENT, "get event", get_event},
    Command{RDMA_USER_CM_CMD_SET_OPTION, "set option", set_option},
    Command{RDMA_USER_CM_CMD_NOTIFY, "notify", notify},
    Command{RDMA_USER_CM_CMD_JOIN_IP_MCAST, "join multicast", join_multicast_ip},
    Command{RDMA_USER_CM_CMD_LEAVE_MCAST, "leave multicast", leave_multicast},
    Command{RDMA_USER_CM_CMD_MIGRATE_ID, "migrate id", migrate_id},
    Command{RDMA_USER_CM_CMD_QUERY, "query", query},
    Command{RDMA_USER_CM_CMD_BIND, "bind", bind},
    Command{RDMA_USER_CM_CMD_RESOLVE_ADDR, "resolve address", resolve_any},
    Command{RDMA_USER_CM_CMD_JOIN_MCAST, "join multicast", join_multicast},
    Command{kWriteCmEvent, "write event", write_event},
};

Result<rdma_ucm_cmd_hdr> header_of(std::span<const std::byte> written) noexcept {
    rdma_ucm_cmd_hdr header{};
    if (written.size() < sizeof header) {
        return invalid("a command of the rdma_cm device begins with eight bytes");
    }
    std::memcpy(&header, written.data(), sizeof header);
    if (written.size() - sizeof header < header.in) {
        return invalid("a command of the rdma_cm device is shorter than it says");
    }
    return header;
}

} // namespace

bool waits(std::span<const std::byte> written) noexcept {
    const Result<rdma_ucm_cmd_hdr> header = header_of(written);
    return header && header->cmd == RDMA_USER_CM_CMD_GET_EVENT;
}

Result<Answer> execute(const std::shared_ptr<File>& file, std::span<const std::byte> written) {
    const Result<rdma_ucm_cmd_hdr> header = header_of(written);
    if (!header) {
        return header.error().clone();
    }
    const auto command = std::ranges::find(kCommands, header->cmd, &Command::number);
    if (command == kCommands.end()) {
        return file->kernels() >= 0
                   ? Result<Answer>(Answer::kByKernel)
                   : Error(ErrorKind::kNotSupported, "uroce doesn't know this command", ENOSYS);
    }
    Result<Answer> answer =
        command->execute(Request(file, written.subspan(sizeof *header, header->in), header->out));
    if (!answer && answer.error().to_errno() != EAGAIN && !is_trial(answer.error())) {
        SLUICE_LOG(kInfo, "preload", "%s: %s", command->name, answer.error().text());
    }
    return answer;
}

} // namespace sluice::layers::cmdev
