# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # ours, mixed and work are the includer's
#
# Pairs of programs over rdma-core's interfaces, each end with our provider or with the stock
# one. Source it with $ours set to what RDMAV_DRIVERS must be for our provider, and $mixed to both or by_turns.

# Runs a command with the provider of that name.
with_ours() { RDMAV_DRIVERS=$ours "$@"; }
with_stock() { env -u RDMAV_DRIVERS "$@"; }

# What programs say on stderr by themselves, whoever provides: rping how it ended, perftest that
# it knows neither of these devices by name and that a busy machine's clock is hard to measure.
own_remarks='^((server|client) DISCONNECT EVENT|wait for RDMA_READ_ADV state|Device not recognized to implement inline|Correlation coefficient r\^2|Conflicting CPU frequency|$)'
complaints() { grep -hvE "$own_remarks" "$work/server.err" "$work/client.err"; }

# pair NAME SERVER_PROVIDER CLIENT_PROVIDER READY SERVER_COMMAND CLIENT_COMMAND
# Both must succeed and say nothing on stderr. READY is a command that succeeds when the client
# may start.
pair() {
    local name="$1 ($2 and $3)"
    if up_to_four_times "$name" clean_pair "${@:2}"; then pass "$name"; else miss "$name"; fi
}

clean_pair() {
    run_pair "$@"
    ! complaints >"$work/complaints" && [ "$status" -eq 0 ] && return
    printf 'status %s\n' "$status"
    tail -n 5 "$work/complaints" "$work/server.out" "$work/client.out"
    return 1
}

# run_pair SERVER_PROVIDER CLIENT_PROVIDER READY SERVER_COMMAND CLIENT_COMMAND, which sets status
run_pair() {
    local server_provider=$1 client_provider=$2 ready=$3 server
    status=0
    # shellcheck disable=SC2086  # commands are lists of words
    {
        "with_$server_provider" timeout 30 stdbuf -oL $4 >"$work/server.out" 2>"$work/server.err" &
        server=$!
        until_true 15 $ready || status=1
        "with_$client_provider" timeout 30 $5 >"$work/client.out" 2>"$work/client.err" || status=2
        wait "$server" || status=$((status + 4))
    }
}

# Ours on both ends, and ours against stock: where $mixed is both, stock at either end, otherwise by turns.
served_by=stock
pairs() {
    local name=$1
    shift
    pair "$name" ours ours "$@"
    if [ "$served_by" = stock ]; then served_by=ours; else served_by=stock; fi
    [[ "$mixed $served_by" = 'by_turns stock' ]] || pair "$name" ours stock "$@"
    [[ "$mixed $served_by" = 'by_turns ours' ]] || pair "$name" stock ours "$@"
}

server_says() { grep -q "$1" "$work/server.out"; }
