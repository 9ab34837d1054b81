// SPDX-License-Identifier: BSD-3-Clause
//
// Points at which bpftrace, perf, SystemTap and gdb may look at a running process. A probe is one instruction
// that does nothing, and a note in the library's file that says where it is and where its arguments are. So
// an argument should lie in a register or in memory already. docs/probes.md lists them for users.
//
// Arguments are integers and pointers.
#pragma once

#if defined(SLUICE_PROBES)
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define SLUICE_PROBE(name, ...) STAP_PROBEV(sluice, name, __VA_ARGS__)
#else
#define SLUICE_PROBE(name, ...) static_cast<void>(0)
#endif
