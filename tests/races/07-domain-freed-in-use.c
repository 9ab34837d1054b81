// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a protection domain is freed while one of its regions is still registered.
//
// What happens: ibv_dealloc_pd() answers EBUSY. Most programs ignore that at their end, and keep the domain,
// the region and its pinned memory. A process that opens and closes connections for weeks runs out of them.
//
// Reported: perftest couldn't free its domain, for two reasons, years apart (linux-rdma/perftest 77 and
// 215); spead2 leaked queues of up to 128 MB, because it destroyed objects in the wrong order (ska-sa/spead2
// 134); in VCCL one thread frees the domain while another still has regions (sii-research/VCCL 36).
//
// Remedy: destroy objects in the reverse order of their creation, and look at what each call returns.
#include <string.h>

#include "pair.h"

int main(void) {
    static char memory[4096];
    const struct options options = {0};
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_pd* const domain = ibv_alloc_pd(pair.a.id->verbs);
    must(domain != NULL, "ibv_alloc_pd");
    struct ibv_mr* const region = ibv_reg_mr(domain, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    must(region != NULL, "ibv_reg_mr");

#ifdef CORRECTED
    must(ibv_dereg_mr(region) == 0, "ibv_dereg_mr");
    const int error = ibv_dealloc_pd(domain);
#else
    const int error = ibv_dealloc_pd(domain);
    must(ibv_dereg_mr(region) == 0, "ibv_dereg_mr");
#endif

    pair_close(&pair);
    return verdict(error == 0 ? NULL : strerror(error));
}
