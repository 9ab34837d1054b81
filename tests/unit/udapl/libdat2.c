/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A libdat2 in little, so that the provider for it is tested where nobody has installed one: it keeps the
 * tables that are registered, and knows adapters by small numbers.
 */
#include "tests/unit/udapl/libdat2.h"

#include <stddef.h>
#include <string.h>

#define MAX_ADAPTERS 64
#define MAX_PROVIDERS 8

static struct {
    const DAT_PROVIDER* table; /* NULL: free */
    DAT_PROVIDER_INFO info;
} providers[MAX_PROVIDERS];

static DAT_IA_HANDLE adapters[MAX_ADAPTERS]; /* the first is never used */

static int is_same(const DAT_PROVIDER_INFO* one, const DAT_PROVIDER_INFO* other) {
    return strcmp(one->ia_name, other->ia_name) == 0 &&
           one->dapl_version_major == other->dapl_version_major &&
           one->dapl_version_minor == other->dapl_version_minor &&
           one->is_thread_safe == other->is_thread_safe;
}

DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER* provider, const DAT_PROVIDER_INFO* info) {
    size_t i = 0;

    for (i = 0; i < MAX_PROVIDERS; ++i) {
        if (providers[i].table == NULL) {
            providers[i].table = provider;
            providers[i].info = *info;
            return DAT_SUCCESS;
        }
    }
    return DAT_CLASS_ERROR | (DAT_RETURN)DAT_INSUFFICIENT_RESOURCES;
}

DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER* provider, const DAT_PROVIDER_INFO* info) {
    size_t i = 0;

    for (i = 0; i < MAX_PROVIDERS; ++i) {
        if (providers[i].table == provider && is_same(&providers[i].info, info)) {
            providers[i].table = NULL;
            return DAT_SUCCESS;
        }
    }
    return DAT_CLASS_ERROR | (DAT_RETURN)DAT_INVALID_PARAMETER;
}

/* A number is below all addresses. */
DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE* other) {
    const size_t number = (size_t)handle;
    size_t i = 0;

    if (number < MAX_ADAPTERS && adapters[number] != DAT_HANDLE_NULL) {
        *other = adapters[number];
        return DAT_SUCCESS;
    }
    for (i = 1; number >= MAX_ADAPTERS && i < MAX_ADAPTERS; ++i) {
        if (adapters[i] == handle) {
            *other = (DAT_IA_HANDLE)i;
            return DAT_SUCCESS;
        }
    }
    return DAT_CLASS_ERROR | (DAT_RETURN)DAT_INVALID_HANDLE | (DAT_RETURN)DAT_INVALID_HANDLE_IA;
}

const DAT_PROVIDER* test_dat2_provider(const DAT_PROVIDER_INFO* info) {
    size_t i = 0;

    for (i = 0; i < MAX_PROVIDERS; ++i) {
        if (providers[i].table != NULL && is_same(&providers[i].info, info)) {
            return providers[i].table;
        }
    }
    return NULL;
}

DAT_IA_HANDLE test_dat2_number(DAT_IA_HANDLE handle) {
    size_t i = 1;

    while (i < MAX_ADAPTERS && adapters[i] != DAT_HANDLE_NULL) {
        ++i;
    }
    if (i == MAX_ADAPTERS) {
        return DAT_HANDLE_NULL;
    }
    adapters[i] = handle;
    return (DAT_IA_HANDLE)i;
}

void test_dat2_forget(DAT_IA_HANDLE number) {
    adapters[(size_t)number] = DAT_HANDLE_NULL;
}
