/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sluice: RDMA for user space with memory coherence taken seriously.
 *
 * Plain C, usable from C99 and C++. Every function may be called from any thread. Functions
 * that can fail return 0 or a positive errno; the log tells the reason in words.
 */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * The version of the library that is loaded, as "MAJOR.MINOR.PATCH". The text is valid as long
 * as the library stays loaded. Never fails.
 */
const char* sluice_version(void);

/* How much a message matters. Asking for a level asks for all that stand above it here. */
enum sluice_log_level {
    SLUICE_LOG_NONE = 0,    /* nothing at all */
    SLUICE_LOG_ERROR = 1,   /* a call fails and the reason is worth a line */
    SLUICE_LOG_WARNING = 2, /* it goes on, but not as you may think (the default) */
    SLUICE_LOG_INFO = 3,    /* decisions: which device, which provider, which instruction */
    SLUICE_LOG_DEBUG = 4,   /* every object's birth and death */
    SLUICE_LOG_TRACE = 5    /* every event */
};

/*
 * Receives one message. LEVEL is one of enum sluice_log_level. AREA names the part that speaks ("cm",
 * "provider"); MESSAGE is one line without a newline. Both are valid during the call only. May be called from
 * several threads at once, with no lock held; must not throw.
 */
typedef void (*sluice_log_sink)(void* context, int level, const char* area, const char* message);

/*
 * Sends messages to SINK instead of standard error; NULL restores standard error. When it
 * returns, the former sink is not running and will not be called again, so its context may be
 * freed. Called from inside a sink it takes effect without that promise.
 */
void sluice_set_log_sink(sluice_log_sink sink, void* context);

/*
 * Chooses what is logged: LEVEL[,AREA=LEVEL...], for example "info,cm=debug", with the levels
 * none, error, warning, info, debug and trace. Replaces what the environment variable
 * SLUICE_LOG asked for. EINVAL when the text can't be understood or is NULL, E2BIG or ENOMEM
 * when it names too many areas; then nothing changes.
 */
int sluice_set_log_levels(const char* levels);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
