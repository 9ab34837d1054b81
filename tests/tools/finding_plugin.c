// SPDX-License-Identifier: BSD-3-Clause
//
// What finding_program loads by a path from its working directory.
#include "finder.h"

__attribute__((visibility("default"))) void plugin_be_wrong(void);

void plugin_be_wrong(void) {
    finder_note();
    finder_find("plugin-rule");
    __asm__ volatile("");
}
