/* SPDX-License-Identifier: BSD-3-Clause */
#include <dat/udat.h>

#include "both_registries.h"

void* open_first(char* name) {
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    return dat_ia_open(name, 8, &async_evd, &ia) == DAT_SUCCESS ? ia : NULL;
}

int close_first(void* ia) {
    return dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS;
}

int version_of_first(void* ia) {
    DAT_PROVIDER_ATTR attr;
    const DAT_RETURN status = dat_ia_query(ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &attr);
    return status == DAT_SUCCESS ? (int)(attr.dapl_version_major * 100 + attr.dapl_version_minor) : 0;
}
