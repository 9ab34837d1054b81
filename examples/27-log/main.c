/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A log that the client appends to in the server's memory, and that holds whole records at each moment,
 * whatever happens: first the record, then, when that is safe, the log's new end, as one.
 *
 * The server may be given a file; in persistent memory the log survives a loss of power. Each run appends.
 */
#include <stdio.h>
#include <string.h>

#include "../rpma-common/common.h"
#include "../rpma-common/mapping.h"

enum { kRecords = 5, kRecord = 64 };
static const size_t kSize = 1 << 20;

/* How the log begins; records follow. */
struct head {
    uint64_t end; /* in bytes from the log's beginning; 0 in a new one */
    char padding[kRecord - sizeof(uint64_t)];
};

static uint64_t end_of(const struct head* head) {
    const uint64_t end = __atomic_load_n(&head->end, __ATOMIC_ACQUIRE);
    return end == 0 ? sizeof *head : end;
}

static void serve(struct rpma_peer* peer, const struct arguments* arguments) {
    const struct mapping mapping = map_file(arguments->file, kSize);
    const int flushes =
        mapping.is_persistent ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, mapping.memory, mapping.size,
                     RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | flushes, &region));
    struct offer offer = make_offer(region, mapping.is_persistent);
    struct rpma_ep* ep = listen_at(peer, arguments);
    struct rpma_conn_req* request = NULL;
    must(rpma_ep_next_conn_req(ep, NULL, &request));
    await_end(accept_request(request, &offer, sizeof offer));
    const uint64_t end = end_of((const struct head*)mapping.memory);
    require(end <= kSize && end % kRecord == 0, "the log is damaged");
    for (uint64_t at = sizeof(struct head); at < end; at += kRecord) {
        printf("%.*s\n", kRecord, mapping.memory + at);
        require(strncmp(mapping.memory + at, "record ", 7) == 0, "half a record");
    }
    require(end >= sizeof(struct head) + (size_t)kRecords * kRecord, "records are missing");
    must(rpma_ep_shutdown(&ep));
    must(rpma_mr_dereg(&region));
}

/* Record and end are flushed one after the other, and only the last is waited for. */
static void append(struct rpma_conn* conn, struct rpma_mr_remote* log, struct rpma_mr_local* record,
                   uint64_t* end, enum rpma_flush_type type) {
    const uint64_t new_end = *end + kRecord;
    must(rpma_write(conn, log, *end, record, 0, kRecord, RPMA_F_COMPLETION_ON_ERROR, NULL));
    must(rpma_flush(conn, log, *end, kRecord, type, RPMA_F_COMPLETION_ON_ERROR, NULL));
    must(rpma_atomic_write(conn, log, offsetof(struct head, end), (const char*)&new_end,
                           RPMA_F_COMPLETION_ON_ERROR, NULL));
    must(rpma_flush(conn, log, 0, sizeof(struct head), type, RPMA_F_COMPLETION_ALWAYS, end));
    await(conn, end);
    *end = new_end;
}

static void write_log(struct rpma_peer* peer, const struct arguments* arguments) {
    char* memory = make_pages(kRecord);
    struct rpma_mr_local* region = NULL;
    must(rpma_mr_reg(peer, memory, kRecord, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST, &region));
    struct rpma_conn* conn = connect_to(peer, arguments, NULL, 0);
    struct rpma_mr_remote* log = take_offer(conn);
    int types = 0;
    must(rpma_mr_remote_get_flush_type(log, &types));
    must(rpma_read(conn, region, 0, log, 0, sizeof(struct head), RPMA_F_COMPLETION_ALWAYS, memory));
    await(conn, memory);
    uint64_t end_at = end_of((const struct head*)memory);
    size_t size = 0;
    must(rpma_mr_remote_get_size(log, &size));
    require(end_at <= size && size - end_at >= (size_t)kRecords * kRecord, "the log is full");
    for (int i = 0; i < kRecords; ++i) {
        snprintf(memory, kRecord, "record %d of this run", i);
        append(conn, log, region, &end_at,
               (types & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT) != 0 ? RPMA_FLUSH_TYPE_PERSISTENT
                                                                  : RPMA_FLUSH_TYPE_VISIBILITY);
    }
    printf("the log has %llu bytes\n", (unsigned long long)end_at);
    must(rpma_mr_remote_delete(&log));
    end(conn);
    must(rpma_mr_dereg(&region));
}

int main(int argc, char** argv) {
    const struct arguments arguments = parse(argc, argv);
    struct rpma_peer* peer = open_peer(&arguments);
    (arguments.is_server ? serve : write_log)(peer, &arguments);
    must(rpma_peer_delete(&peer));
    printf("done\n");
    return 0;
}
