/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that uses both registries, ours for DAT 1.2, which it is linked to, and the system's libdat2,
 * which it loads so that its names are everybody's. Both export dat_registry_add_provider(); each provider
 * goes to its own registry, in both orders of opening, and answers its own handles alone.
 *
 * Usage: both_registries LIBDAT2 FIRST SECOND: an adapter's name for each, both of one device.
 */
#include <dat/udat.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "both_registries.h"

/* Ours declare what a provider does; these are of libdat2. */
typedef DAT_RETURN open_function(const char*, DAT_COUNT, DAT_EVD_HANDLE*, DAT_IA_HANDLE*, DAT_UINT32,
                                 DAT_UINT32, DAT_BOOLEAN);
typedef DAT_RETURN close_function(DAT_IA_HANDLE, DAT_CLOSE_FLAGS);
typedef DAT_RETURN query_function(DAT_IA_HANDLE, DAT_EVD_HANDLE*, DAT_IA_ATTR_MASK, DAT_IA_ATTR*,
                                  DAT_PROVIDER_ATTR_MASK, DAT_PROVIDER_ATTR*);

static open_function* open_ia;
static close_function* close_ia;
static query_function* query_ia;

static void must(int is_right, const char* what) {
    if (!is_right) {
        (void)fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

static void load(const char* library) {
    void* const loaded = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
    must(loaded != NULL, "libdat2 can't be loaded");
    open_ia = (open_function*)dlsym(loaded, "dat_ia_openv");
    close_ia = (close_function*)dlsym(loaded, "dat_ia_close");
    query_ia = (query_function*)dlsym(loaded, "dat_ia_query");
    must(open_ia != NULL && close_ia != NULL && query_ia != NULL, "libdat2 lacks a function");
}

static DAT_IA_HANDLE open_second(const char* name) {
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    must(open_ia(name, 8, &async_evd, &ia, 2, 0, DAT_FALSE) == DAT_SUCCESS, "2.0 doesn't open");
    return ia;
}

static void must_be_second(DAT_IA_HANDLE ia) {
    DAT_PROVIDER_ATTR attr;
    must(query_ia(ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &attr) == DAT_SUCCESS, "2.0 doesn't answer");
    must(attr.dapl_version_major == 2, "2.0 has another provider");
}

static void must_be_first(void* ia) {
    must(version_of_first(ia) == 102, "1.2 doesn't answer, or has another provider");
}

static void close_both(void* first, DAT_IA_HANDLE second) {
    must(version_of_first(second) == 0, "1.2 knows a handle of 2.0");
    must(close_ia(second, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS, "2.0 doesn't close");
    must_be_first(first);
    must(close_first(first), "1.2 doesn't close");
}

int main(int argc, char** argv) {
    must(argc == 4, "usage: both_registries LIBDAT2 FIRST SECOND");
    load(argv[1]);
    for (int i = 0; i < 3; ++i) {
        void* first = open_first(argv[2]);
        must(first != NULL, "1.2 doesn't open");
        DAT_IA_HANDLE second = open_second(argv[3]);
        must_be_first(first);
        must_be_second(second);
        close_both(first, second);

        second = open_second(argv[3]);
        first = open_first(argv[2]);
        must(first != NULL, "1.2 doesn't open behind 2.0");
        must_be_second(second);
        must_be_first(first);
        close_both(first, second);
    }
    (void)puts("both");
    return 0;
}
