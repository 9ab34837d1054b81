/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libdat asks of libdapl-sluice beyond what every provider of DAT has: which devices there are,
 * and which addresses its handles have.
 *
 * The two libraries are installed together but found by the loader one by one, so that the names
 * are versioned. A change that isn't a new member at the end of the structure gets a new name
 * (dapl_sluice_v2), and libdat asks for both for a while. A provider without it is a foreign one.
 */
#ifndef SLUICE_UDAPL_REGISTRY_PROVIDER_V1_H
#define SLUICE_UDAPL_REGISTRY_PROVIDER_V1_H

#include <dat/dat_registry.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dapl_sluice_v1 { /* NOLINT(readability-identifier-naming): a name of C */
    size_t size;        /* of this structure, in bytes, as the provider knows it */

    /*
     * Every handle of this provider lies in [HANDLES, HANDLES + HANDLES_SIZE), and no other object in
     * the process does, until the process ends. libdat sends every call with such a handle to
     * FUNCTIONS without looking at what the handle points to; these functions tell live handles from
     * stale and random ones by themselves. FUNCTIONS need not be a table that is registered.
     */
    const void* handles;
    size_t handles_size;
    const DAT_PROVIDER* functions;

    /*
     * Calls FOUND with the name of each device that is there now. 0 or a positive errno. FOUND neither
     * throws nor calls libdat, and keeps no pointer.
     */
    int (*list_devices)(void (*found)(void* context, const char* name), void* context);

    /*
     * 1 if NAME is that of a device, of its network interface or of an IP address there, also of one that
     * somebody else has at this moment; 0 otherwise.
     * For such a name dat_provider_init() is called with it as ia_name and with empty instance data. From
     * a dat.conf, instance data that isn't empty is such a name, and ia_name may be anything.
     */
    int (*knows)(const char* name);
};

/*
 * Exported by libdapl-sluice.so.1. The structure is valid until the process ends: libdat keeps the
 * library loaded. NULL when there is no address space for handles.
 */
typedef const struct dapl_sluice_v1* (*dapl_sluice_query_v1_function)(void);
#define DAPL_SLUICE_QUERY_V1 "dapl_sluice_query_v1"

#ifdef __cplusplus
}
#endif

#endif
