/* SPDX-License-Identifier: BSD-3-Clause */
/* Read before the ring of examples/30-sync-ring: leaves out what a call does for other hosts, and keeps the
 * rest of it. */
#include <string.h>

#include <sluice/sync.h>

#if defined(FORGET_copy)
#define sluice_sync_copy(to, from, length) (memcpy(to, from, length), 0)
#elif defined(FORGET_invalidate)
#define sluice_sync_invalidate(address, length) ((void)(address), 0)
#elif defined(FORGET_publish)
#define sluice_sync_publish(flag, value) (*(flag) = (value), 0)
#elif defined(FORGET_observe)
#define sluice_sync_observe(flag, value) (*(value) = *(flag), 0)
#else
#error "nothing to forget"
#endif
