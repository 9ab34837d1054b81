// SPDX-License-Identifier: BSD-3-Clause
//
// How the programs about verbs end.
#ifndef TESTS_RACES_OUTCOME_H
#define TESTS_RACES_OUTCOME_H

#include <infiniband/verbs.h>

// How long to wait for what may never come: RACES_PATIENCE_MS, or 5000.
int patience_ms(void);
// Where a call may never return: ends the program with status 1 and SYMPTOM when patience_ms() are over.
void watch(const char* symptom);
// Ends the program with status 2, unless FINE.
_Noreturn void end_with_error(const char* what);
static inline void must(int fine, const char* what) {
    if (!fine) {
        end_with_error(what);
    }
}
// The program's status: 0 if SYMPTOM is null, otherwise 1, and it is printed.
int verdict(const char* symptom);
// For a symptom that has a status: "what: status".
const char* with_status(const char* what, enum ibv_wc_status status);

#endif
