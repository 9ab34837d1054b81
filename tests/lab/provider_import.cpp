// SPDX-License-Identifier: BSD-3-Clause
//
// A device, a protection domain and a memory region of another process:
//   provider_import DEVICE GID_INDEX
//
// The parent opens the device and registers memory that both processes have at one address; its
// file goes to the child through a socket. The child imports all three and, on a device that
// needs no connection manager, writes by RDMA from one half of the memory to the other.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/lab/verbs_loop.hpp"

namespace {

using namespace sluice::lab;

constexpr std::size_t kBytes = 8192;

// What the child must know besides the file.
struct Shared {
    std::uint32_t pd = 0;
    std::uint32_t mr = 0;
    std::uint32_t lkey = 0;
    std::uint32_t rkey = 0;
};

// A message with a file beside it.
struct Parcel {
    explicit Parcel(Shared& shared) : bytes{.iov_base = &shared, .iov_len = sizeof shared} {
        message.msg_iov = &bytes;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
    }

    iovec bytes;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
};

void send_file(int socket, int file, Shared shared) {
    Parcel parcel(shared);
    cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
    require(sendmsg(socket, &parcel.message, 0) == sizeof shared, "send the file");
}

int receive_file(int socket, Shared& shared) {
    Parcel parcel(shared);
    require(recvmsg(socket, &parcel.message, 0) == sizeof shared, "receive the file");
    const cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
    require(header != nullptr && header->cmsg_type == SCM_RIGHTS, "find the file");
    int file = -1;
    std::memcpy(&file, CMSG_DATA(header), sizeof file);
    return file;
}

void write_across(const Loop& it, char* memory) {
    ibv_sge sge{};
    sge.addr = reinterpret_cast<std::uintptr_t>(memory);
    sge.length = kBytes / 2;
    sge.lkey = it.mr->lkey;
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = sge.addr + kBytes / 2;
    wr.wr.rdma.rkey = it.mr->rkey;
    ibv_send_wr* bad = nullptr;
    require((errno = ibv_post_send(it.qp[0], &wr, &bad)) == 0, "post from the imported region");
    require(await_completion(it.cq).status == IBV_WC_SUCCESS, "complete it");
}

void use(Loop& it, char* memory) {
    it.cq = ibv_create_cq(it.context, kDepth, nullptr, nullptr, 0);
    require(it.cq != nullptr, "create a CQ");
    for (ibv_qp*& qp : it.qp) {
        ibv_qp_init_attr attr = qp_request(it.cq, IBV_QPT_RC);
        qp = ibv_create_qp(it.pd, &attr);
        require(qp != nullptr, "create a QP in the imported PD");
        to_init(qp);
    }
    connect(it.qp[0], it.qp[1]->qp_num);
    connect(it.qp[1], it.qp[0]->qp_num);
    std::memset(memory, 'i', kBytes / 2);
    write_across(it, memory);
    for (ibv_qp* qp : it.qp) {
        require(ibv_destroy_qp(qp) == 0, "destroy a QP");
    }
    require(ibv_destroy_cq(it.cq) == 0, "destroy the CQ");
}

int import_all(int socket, char* memory, bool datagrams) {
    Shared shared;
    const int file = receive_file(socket, shared);
    Loop& it = loop();
    it.context = ibv_import_device(file);
    require(it.context != nullptr, "import the device");
    require(it.context->num_comp_vectors >= 1, "know a completion vector");
    it.pd = ibv_import_pd(it.context, shared.pd);
    require(it.pd != nullptr, "import the PD");
    it.mr = ibv_import_mr(it.pd, shared.mr);
    require(it.mr != nullptr, "import the MR");
    require(it.mr->lkey == shared.lkey && it.mr->rkey == shared.rkey, "the keys are the same");
    require(it.mr->length == kBytes, "the length is the same");
    if (datagrams) {
        use(it, memory);
    }
    ibv_unimport_mr(it.mr);
    ibv_unimport_pd(it.pd);
    require(ibv_close_device(it.context) == 0, "close the imported device");
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    errno = EINVAL;
    require(argc == 3, "usage: provider_import DEVICE GID_INDEX");
    gid_index = static_cast<int>(std::strtol(argv[2], nullptr, 10));
    const bool datagrams = std::string(argv[1]).rfind("rxe", 0) == 0;
    void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(mapped != MAP_FAILED, "map memory");
    auto* memory = static_cast<char*>(mapped);
    std::array<int, 2> sockets{};
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()) == 0, "make a socket pair");
    const pid_t child = fork();
    require(child >= 0, "fork");
    if (child == 0) {
        close(sockets[0]);
        return import_all(sockets[1], memory, datagrams);
    }
    close(sockets[1]);
    ibv_context* context = open_device(argv[1]);
    ibv_pd* pd = ibv_alloc_pd(context);
    ibv_mr* mr = ibv_reg_mr(pd, memory, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    require(mr != nullptr, "register memory");
    send_file(sockets[0], context->cmd_fd,
              {.pd = pd->handle, .mr = mr->handle, .lkey = mr->lkey, .rkey = mr->rkey});
    int status = 0;
    require(waitpid(child, &status, 0) == child && status == 0, "the child succeeds");
    for (std::size_t i = kBytes / 2; datagrams && i < kBytes; ++i) {
        require(memory[i] == 'i', "the child's bytes have arrived");
    }
    // What the child imported is still ours.
    require(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0, "close");
    std::printf("imported and used\n");
    return 0;
}
