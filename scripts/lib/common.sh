# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# What every script here shares: where things are, how it fails, how it shows progress.
#
# Exit statuses, the same in all scripts:
#   2  the command line is wrong; the message names the valid values
#   3  a package is missing and may not be installed; the message is the command to run
#   4  a file is neither cached nor reachable; the message names it
# Anything else is the status of the work itself.

set -euo pipefail

[ -z "${sluice_root:-}" ] || return 0

readonly kExitUsage=2 kExitPackages=3 kExitOffline=4
export kExitPackages kExitOffline

sluice_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
sluice_cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/sluice
readonly sluice_root
export sluice_cache

# Whether these are the scripts of a source tree, and not those that a package installed.
is_source_tree() { [ -e "$sluice_root/CMakeLists.txt" ]; }

# A fresh machine may have no UTF-8 locale; tools that sort or translate must not care.
export LC_ALL=C.UTF-8

say() { printf '%s\n' "$*"; }
warn() { printf '%s\n' "$*" >&2; }

# die STATUS MESSAGE: one line on stderr, named after the script, and out.
die() {
    local status=$1
    shift
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit "$status"
}

# bad_usage WHAT VALID...: the answer to an unknown option or name.
bad_usage() {
    local what=$1
    shift
    die "$kExitUsage" "$what; valid: $*"
}

# help_from_header FILE: prints the comment block that opens a script, which is its manual.
help_from_header() {
    sed -n '/^# Usage:/,/^$/{/^$/d;s/^# \{0,1\}//;p}' "$1"
}

# with_progress LABEL LOG COMMAND...: runs a command with its output in LOG. A line every two
# seconds tells that it lives (one that rewrites itself on a terminal, one per 20 seconds in
# a file), and how far a build by ninja is. On failure the end of the log is shown and the status is the command's.
with_progress() {
    local label=$1 log=$2 start=$SECONDS status=0 pid ticker
    shift 2
    mkdir -p "$(dirname "$log")"
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    progress_ticker "$label" "$start" "$pid" "$log" &
    ticker=$!
    wait "$pid" || status=$?
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    [ -t 1 ] && printf '\r\033[K'
    if [ "$status" -eq 0 ]; then
        say "  $label: done in $((SECONDS - start)) s"
    else
        say "  $label: failed with status $status after $((SECONDS - start)) s; end of $log:"
        tail -n 40 "$log" | sed 's/^/    /'
    fi
    return "$status"
}

# progress_of LOG: "n of m, ", from the last such line of ninja's in its end, or nothing.
progress_of() { tail -c 4000 "$1" | sed -n 's|^\[\([0-9]*\)/\([0-9]*\)\] .*|\1 of \2, |p' | tail -n 1; }

progress_ticker() {
    local label=$1 start=$2 pid=$3 log=$4 last=0 elapsed silence
    exec {silence}<> <(:) # before the trap: bash can't run one while it makes such a file
    trap 'exit 0' TERM
    while kill -0 "$pid" 2>/dev/null; do
        # A wait that a signal can end at once: sleep would outlive this shell.
        read -r -t 2 -u "$silence" || true
        elapsed=$((SECONDS - start))
        if [ -t 1 ]; then
            printf '\r\033[K  %s ... %s%d s' "$label" "$(progress_of "$log")" "$elapsed"
        elif [ $((elapsed - last)) -ge 20 ] || { [ "$last" -eq 0 ] && [ "$elapsed" -ge 2 ]; }; then
            printf '  %s ... %s%d s\n' "$label" "$(progress_of "$log")" "$elapsed"
            last=$elapsed
        fi
    done
}

# need_packages GROUP...: installs what the groups of scripts/packages lack, or exits with 3.
need_packages() {
    "$sluice_root/scripts/packages" install "$@"
}

# Where this branch left its upstream, or the last commit when there is none.
find_base() {
    git merge-base HEAD '@{upstream}' 2>/dev/null || git merge-base HEAD origin/main 2>/dev/null ||
        git rev-parse --verify --quiet 'HEAD^' || git rev-parse HEAD
}

# close_inherited: closes what the caller left open above standard error. mmdebstrap hands dash such numbers, and dash
# knows those of one digit only. Bash's own descriptors are closed on exec, so that what a caller left is told from them.
close_inherited() {
    local info number word value flags
    for info in "/proc/$$/fdinfo"/*; do
        number=${info##*/}
        [ "$number" -gt 2 ] || continue
        flags=
        while read -r word value; do
            [ "$word" != flags: ] || flags=$value
        done 2>/dev/null <"$info" || continue
        (( 8#${flags:-02000000} & 8#2000000 )) || eval "exec $number>&-"
    done
}
