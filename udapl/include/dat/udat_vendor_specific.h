/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The place for what a vendor adds to udat.h. We add nothing.
 */
#ifndef _UDAT_VENDOR_SPECIFIC_H_ /* NOLINT: programs know this name */
#define _UDAT_VENDOR_SPECIFIC_H_ /* NOLINT */

#endif
