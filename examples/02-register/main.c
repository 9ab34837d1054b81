/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registers memory: what that gives, what privileges are, and what the device refuses.
 *
 *     register ADAPTER
 */
#include <stdio.h>
#include <string.h>

#include "../dat-common/common.h"

static const DAT_VLEN kSize = 8192;

/* A region, and what can be asked of it. */
static void look_at(const struct region* region) {
    DAT_LMR_PARAM param;
    must(dat_lmr_query(region->lmr, DAT_LMR_FIELD_ALL, &param));
    printf("registered: %llu bytes at 0x%llx for %llu that were asked for\n",
           (unsigned long long)param.registered_size, (unsigned long long)param.registered_address,
           (unsigned long long)param.length);
    require(param.length == region->size && param.lmr_context == region->context &&
                param.rmr_context == region->key,
            "the query tells something else");
    require(param.registered_address <= (uintptr_t)region->memory && param.registered_size >= region->size,
            "less was registered than was asked for");
}

/* The memory of one region a second time, with other privileges: a peer may read it, and nothing else. */
static void register_again(const struct side* side, const struct region* region) {
    DAT_REGION_DESCRIPTION description;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context = 0;
    DAT_RMR_CONTEXT key = 0;
    DAT_VLEN size = 0;
    description.for_lmr_handle = region->lmr;
    must(dat_lmr_create(side->ia, DAT_MEM_TYPE_LMR, description, 0, side->zone, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                        &lmr, &context, &key, &size, NULL));
    printf("once more, for a peer to read: %llu bytes\n", (unsigned long long)size);
    require(size >= region->size && key != 0 && context != region->context, "it isn't a region of its own");
    must(dat_lmr_free(lmr));
}

/* Before a peer reads what the program has written: see 05-rdma-read. All segments are checked first. */
static void synchronise(const struct side* side, const struct region* region) {
    DAT_LMR_TRIPLET parts[2];
    parts[0] = part_of(region, 0, 100);
    parts[1] = part_of(region, 4096, 4096);
    must(dat_lmr_sync_rdma_read(side->ia, parts, 2));
    parts[1] = part_of(region, 4096, 4097); /* one byte too many */
    must_fail(dat_lmr_sync_rdma_read(side->ia, parts, 2), DAT_INVALID_PARAMETER);
}

int main(int argc, char** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s ADAPTER\n", argv[0]);
        return 2;
    }
    struct side side = open_side(argv[1]);
    struct region own =
        make_region(&side, kSize, DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    require(own.key == 0, "a peer could get in");
    look_at(&own);
    struct region open = make_region(&side, kSize, DAT_MEM_PRIV_ALL_FLAG);
    require(open.key != 0, "a peer could not get in");
    look_at(&open);
    register_again(&side, &own);
    synchronise(&side, &open);
    /* A zone with regions in it stays. */
    must_fail(dat_pz_free(side.zone), DAT_INVALID_STATE);
    free_region(&open);
    free_region(&own);
    close_side(&side);
    printf("done\n");
    return 0;
}
