// SPDX-License-Identifier: BSD-3-Clause
//
// Preloaded into QEMU: queue pairs of its adapter get numbers that the adapter's driver has room for. It
// keeps them in a table, as large as the device's max_qp, and when one goes it writes to the table at its
// number, unchecked; so does its provider at the low 16 bits. uroce draws all 24 bits of a number, so numbers
// are drawn until one fits. The larger the table, the sooner that is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#include <infiniband/verbs.h>

enum { PLACES = 32768, MOST_DRAWN = 20000 }; // one in 512 fits: none does in one case of 10^17

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

// QEMU offers the guest no more queue pairs than its device has; that many will never be there at once.
int ibv_query_device(struct ibv_context* context, struct ibv_device_attr* attributes) {
    const int error = NEXT(ibv_query_device)(context, attributes);
    if (error == 0 && attributes->max_qp < PLACES) {
        attributes->max_qp = PLACES;
    }
    return error;
}

struct ibv_qp* ibv_create_qp(struct ibv_pd* pd, struct ibv_qp_init_attr* wanted) {
    for (int drawn = 0; drawn < MOST_DRAWN; drawn++) {
        struct ibv_qp_init_attr attributes = *wanted;
        struct ibv_qp* qp = NEXT(ibv_create_qp)(pd, &attributes);
        if (qp == NULL || qp->qp_num < PLACES) {
            *wanted = attributes;
            return qp;
        }
        ibv_destroy_qp(qp);
    }
    fputs("sluice-lab: no queue pair has got a number that the adapter's driver has room for\n", stderr);
    errno = EAGAIN;
    return NULL;
}
