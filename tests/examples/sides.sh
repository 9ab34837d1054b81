# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Sourced by the runners of examples that are two processes: server and client, of which each ends with the line "done".

work=$(mktemp -d)
server=
# shellcheck disable=SC2317  # the trap calls it
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

# run_both PROGRAM SERVER-ARGUMENT... -- CLIENT-ARGUMENT...: prints what they say, the client's first; what the server
# said is in $work/rest.
run_both() {
    local program=$1 line status=0 server_arguments=()
    shift
    while [ "$1" != -- ]; do
        server_arguments+=("$1")
        shift
    done
    shift
    rm -f "$work/server"
    mkfifo "$work/server"
    timeout 60 "$program" server "${server_arguments[@]}" >"$work/server" &
    server=$!
    exec 3<"$work/server"
    read -r line <&3 || fail "the server says nothing"
    [ "$line" = listening ] || fail "the server says: $line"
    timeout 60 "$program" client "$@" >"$work/client" || {
        status=$?
        # It hears of that within a second, and may have something to say.
        timeout 3 tail -s 0.05 --pid="$server" -f /dev/null || true
        fail "the client ends with $status"
    }
    cat <&3 >"$work/rest"
    exec 3<&-
    wait "$server" || status=$?
    server=
    [ "$status" -eq 0 ] || fail "the server ends with $status: $(cat "$work/rest")"
    for side in client rest; do
        [ "$(tail -n 1 "$work/$side")" = "done" ] || fail "$side: $(cat "$work/$side")"
    done
    cat "$work/client" "$work/rest"
}

refuses_a_wrong_command_line() {
    local status=0
    "$1" frobnicate and more >/dev/null 2>&1 || status=$?
    [ "$status" -eq 2 ] || fail "a wrong command line gives $status"
}
