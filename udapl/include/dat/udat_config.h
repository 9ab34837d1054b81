/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which version of the DAT API these headers describe, and what dat_ia_open() asks for.
 */
#ifndef _UDAT_CONFIG_H_ /* NOLINT: programs know this name */
#define _UDAT_CONFIG_H_ /* NOLINT */

#define DAT_VERSION_MAJOR 1
#define DAT_VERSION_MINOR 2

/*
 * What a program asks for that opens with dat_ia_open(). A provider that is thread-safe serves a
 * program that doesn't need it, so nobody loses by the standard's choice; a program that insists
 * calls dat_ia_openv() with DAT_TRUE.
 */
#define DAT_THREADSAFE DAT_FALSE

#endif
