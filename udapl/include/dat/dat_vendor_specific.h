/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The place for what a vendor adds to dat.h. We add nothing.
 */
#ifndef _DAT_VENDOR_SPECIFIC_H_ /* NOLINT: programs know this name */
#define _DAT_VENDOR_SPECIFIC_H_ /* NOLINT */

#endif
