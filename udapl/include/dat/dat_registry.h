/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For providers: how they and the registry find each other.
 *
 * Opening the first IA of an entry in dat.conf(5), the registry loads the entry's library and calls
 * dat_provider_init(), which must call dat_registry_add_provider() for that name. After the last IA
 * was closed it calls dat_provider_fini(), which must call dat_registry_remove_provider(), and
 * unloads the library. Both run without a lock of the registry's, and never at the same time for
 * one entry.
 */
#ifndef _DAT_REGISTRY_H_ /* NOLINT: programs know this name */
#define _DAT_REGISTRY_H_ /* NOLINT */

#include <dat/udat.h>
#include <dat/udat_redirection.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * PROVIDER is kept as a pointer, PROVIDER_INFO is copied. DAT_PROVIDER_ALREADY_REGISTERED when name,
 * version and thread safety are all taken.
 */
DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER* provider, const DAT_PROVIDER_INFO* provider_info);

/* DAT_PROVIDER_IN_USE while an IA of it is open. */
DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER* provider, const DAT_PROVIDER_INFO* provider_info);

/* Every provider exports these two. INSTANCE_DATA is the seventh field of the entry in dat.conf. */
void dat_provider_init(const DAT_PROVIDER_INFO* provider_info, const char* instance_data);
void dat_provider_fini(const DAT_PROVIDER_INFO* provider_info);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
