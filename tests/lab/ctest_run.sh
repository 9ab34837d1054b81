# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash

# The run of ctest that started this script: its process id, and when that was started.
ctest_run() { printf '%s %s\n' "$PPID" "$(sed 's/.*) //' "/proc/$PPID/stat" | cut -d ' ' -f 20)"; }
