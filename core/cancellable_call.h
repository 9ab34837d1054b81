/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A call in which a thread can be cancelled although its caller has something to undo then: C++ that has an
 * unwinder of its own (ADR 106) can't run destructors for the C library's.
 *
 * No frame between the two, and none of the caller's callers in the same library, may have anything to
 * destroy during the call. */
#ifndef SLUICE_CORE_CANCELLABLE_CALL_H
#define SLUICE_CORE_CANCELLABLE_CALL_H

#ifdef __cplusplus
extern "C" {
#endif

/* What CALL gives for ARGUMENT. UNDO is called with WHAT if the thread is cancelled in CALL, and not
 * otherwise. */
int sluice_cancellable_call(int (*call)(void* argument), void* argument, void (*undo)(void* what),
                            void* what);

#ifdef __cplusplus
}
#endif

#endif
