/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program for DAT of somebody else's: asks for an interface adapter that isn't there, and prints
 * what the library says to that.
 */
#include <dat/udat.h>
#include <stdio.h>

int main(void) {
    char name[] = "no such adapter";
    const char* major = "";
    const char* minor = "";
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_RETURN status = dat_ia_open(name, 8, &async_evd, &ia);

    if (dat_strerror(status, &major, &minor) != DAT_SUCCESS) {
        return 1;
    }
    printf("%s %s\n", major, minor);
    return DAT_GET_TYPE(dat_ia_close(ia, DAT_CLOSE_DEFAULT)) == DAT_INVALID_HANDLE ? 0 : 1;
}
