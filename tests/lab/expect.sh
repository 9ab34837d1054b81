# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# What the lab's tests share, on the host and in the guest: each check prints a line, and the
# test fails at its end if one of them didn't hold.

set -uo pipefail

failures=0

pass() { printf 'ok: %s\n' "$*"; }

miss() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}

# expect WHAT COMMAND...: the command succeeds.
expect() {
    local what=$1
    shift
    if "$@"; then pass "$what"; else miss "$what (status $? of: $*)"; fi
}

# expect_equal WHAT ACTUAL WANTED
expect_equal() {
    if [ "$2" = "$3" ]; then pass "$1"; else miss "$1: got '$2', wanted '$3'"; fi
}

# expect_match WHAT TEXT REGEX: some line of the text matches.
expect_match() {
    if grep -qE -- "$3" <<<"$2"; then pass "$1"; else miss "$1: nothing matches '$3' in: $2"; fi
}

# expect_no_match WHAT TEXT REGEX
expect_no_match() {
    if ! grep -qE -- "$3" <<<"$2"; then pass "$1"; else miss "$1: '$3' is in: $2"; fi
}

# expect_above WHAT ACTUAL LIMIT
expect_above() {
    if [ "$2" -gt "$3" ] 2>/dev/null; then pass "$1 ($2)"; else miss "$1: got '$2', wanted more than $3"; fi
}

# until_true SECONDS COMMAND...: polls; nothing here sleeps for a fixed time and hopes. The seconds are those of a quiet
# machine, and a busy one gets four times as many: how long it is waited for what never comes doesn't matter.
until_true() {
    local limit=$((SECONDS + 4 * $1))
    shift
    # Reading a pipe that nobody writes to waits without a process: those are slow in the guest.
    [ -n "${unwritten:-}" ] || exec {unwritten}<> <(:)
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$limit" ] || return 1
        read -r -t 0.05 -u "$unwritten"
    done
    return 0
}

# Somebody waits for connections at this port: of the connection manager, or TCP's own.
listens() { rdma resource show cm_id | grep -q "LISTEN.*$1\|$1.*LISTEN"; }
is_active() { rdma link show "$1/1" | grep -q 'state ACTIVE'; }
listens_tcp() {
    local sockets port
    printf -v port ':%04X 0+:0000 0A ' "$1"
    mapfile -t sockets < <(cat /proc/net/tcp /proc/net/tcp6)
    [[ ${sockets[*]} =~ $port ]]
}

# The kernel's siw loses one connection in twenty, on a busy machine one in three, with stock's provider on both ends
# as well: a connect is never answered, or fails with EINVAL when the server's first message overtakes the answer, or a
# last message is cut off by the peer's disconnect. What fails there is tried three times more, but only as often in
# all as such luck explains: a provider that loses connections by itself still fails.
if [[ ${LAB_DEVICE-} == siw* ]]; then again_left=9; else again_left=0; fi

# up_to_four_times WHAT COMMAND...: a command that connects once, and fails if the connection is lost.
up_to_four_times() {
    local what=$1 tries
    shift
    for tries in 3 2 1 0; do
        "$@" && return 0
        if [ "$tries" -eq 0 ] || [ "$again_left" -eq 0 ]; then return 1; fi
        again_left=$((again_left - 1))
        printf 'again: %s\n' "$what"
    done
}

# expect_pair WHAT COMMAND...: the command connects a pair of programs, and succeeds.
expect_pair() {
    local what=$1
    shift
    if up_to_four_times "$what" "$@"; then pass "$what"; else miss "$what (of: $*)"; fi
}

# A directory that goes when the test ends.
fresh_dir() {
    work=$(mktemp -d "${TMPDIR:-/tmp}/sluice-lab-test.XXXXXX")
    trap 'rm -rf "$work"' EXIT
}

finish() {
    [ "$failures" -eq 0 ] || printf '%s checks failed\n' "$failures"
    [ "$failures" -eq 0 ]
    exit
}
