# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # ours and work are the includer's
#
# Pairs of programs over rdma-core's interfaces, each end with our provider or with the stock
# one. Source it with $ours set to what RDMAV_DRIVERS must be for our provider.

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
    local name="$1 ($2 and $3)" server_provider=$2 client_provider=$3 ready=$4 server status=0
    # shellcheck disable=SC2086  # commands are lists of words
    {
        "with_$server_provider" timeout 30 stdbuf -oL $5 >"$work/server.out" 2>"$work/server.err" &
        server=$!
        until_true 15 $ready || status=1
        "with_$client_provider" timeout 30 $6 >"$work/client.out" 2>"$work/client.err" || status=2
        wait "$server" || status=$((status + 4))
    }
    if [ "$status" -ne 0 ] || complaints >"$work/complaints"; then
        miss "$name: status $status; $(cat "$work/complaints"); $(tail -n 5 "$work/server.out" "$work/client.out")"
    else
        pass "$name"
    fi
}

# Ours on both ends, and ours against stock on either end.
pairs() {
    local name=$1
    shift
    pair "$name" ours ours "$@"
    pair "$name" ours stock "$@"
    pair "$name" stock ours "$@"
}

# The same with fewer boots of programs, for those whose ends do the same or where one end is idle.
few_pairs() {
    local name=$1
    shift
    pair "$name" ours ours "$@"
    pair "$name" stock ours "$@"
}

server_says() { grep -q "$1" "$work/server.out"; }
