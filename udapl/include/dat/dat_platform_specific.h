/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What DAT's types are on Linux.
 */
#ifndef _DAT_PLATFORM_SPECIFIC_H_ /* NOLINT: programs know this name */
#define _DAT_PLATFORM_SPECIFIC_H_ /* NOLINT */

#if !defined(__linux__)
#error "these are DAT's headers for Linux"
#endif

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* The standard writes them before parameters, and so do programs. They mean nothing. */
#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif
#ifndef INOUT
#define INOUT
#endif

/*
 * A program may pass any number where an enumeration is expected, and gets an error for it. In
 * C++ that is defined only for enumerations that name their type; in C it always is. Size and
 * calls are the same.
 */
#ifdef __cplusplus
#define DAT_ENUM_BASE : int
#else
#define DAT_ENUM_BASE
#endif

typedef uint32_t DAT_UINT32;
typedef uint64_t DAT_UINT64;
typedef unsigned long long DAT_UVERYLONG;
typedef void* DAT_PVOID;
typedef int DAT_COUNT;
typedef DAT_UINT64 DAT_PADDR;

typedef struct sockaddr DAT_SOCK_ADDR;
typedef struct sockaddr_in6 DAT_SOCK_ADDR6;
#define DAT_AF_INET AF_INET
#define DAT_AF_INET6 AF_INET6

/* An alignment in bytes that suits every device; the provider's own is in its attributes. */
#define DAT_OPTIMAL_ALIGNMENT 256

#endif
