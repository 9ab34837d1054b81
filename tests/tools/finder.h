// SPDX-License-Identifier: BSD-3-Clause
//
// A library that writes findings about the program that calls it, as those do that `sluice check` preloads.
#pragma once

// The caller is the finding's first side.
void finder_note(void);
// A finding of that rule, with the caller as the second side.
void finder_find(const char* rule);
void finder_find_blind_spot(const char* what);
