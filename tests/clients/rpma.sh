# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Cases of ../preload/programs for the original librpma with its own examples, which build_rpma has made in $TEST_RPMA.

: "${work:?} ${server_address:?} ${client_address:?} ${server=}" # ../preload/programs sets them

rpma_port=7204

# need_rpma: that it is there, and theirs, not ours. All are built in one way.
need_rpma() {
    local program=${TEST_RPMA:-}/01-connection/rpma-client library
    [ -x "$program" ] || {
        printf "skipped: the original librpma isn't there; clients.build_rpma has the reason\n"
        exit 77
    }
    library=$(uroce_at "$server_address" ldd "$program" | sed -n 's/^.*librpma\.so\.0 => \([^ ]*\) .*/\1/p')
    [ -n "${WITHOUT_DEVICE:-}" ] || [ "$library" -ef "$TEST_RPMA/lib/librpma.so.0" ] || fail "it runs with '$library'"
}

# says SIDE LINE...
says() {
    local side=$1 line
    shift
    for line in "$@"; do
        grep -qxF -- "$line" "$work/$side.out" || fail "the $side doesn't say '$line'"
    done
}

# rpma_server EXAMPLE ARGUMENT...
rpma_server() {
    start_server "$TEST_RPMA/$1/rpma-server" "$server_address" "$rpma_port" "${@:2}"
    until_true listens_cm || fail "the server doesn't listen"
}
# rpma_client EXAMPLE ARGUMENT...
rpma_client() { client "$TEST_RPMA/$1/rpma-client" "$server_address" "$rpma_port" "${@:2}"; }

# pair_of_rpma EXAMPLE SERVER-ARGUMENT... -- CLIENT-ARGUMENT...
pair_of_rpma() {
    local example=$1 arguments=()
    shift
    while [ "$1" != -- ]; do
        arguments+=("$1")
        shift
    done
    rpma_server "$example" "${arguments[@]}"
    rpma_client "$example" "${@:2}"
    server_ends
}

rpma_connection() {
    pair_of_rpma 01-connection --
    says server 'Received a message: Hello server!'
    says client 'Received a message: Hello client!'
}
rpma_read() {
    pair_of_rpma 02-read-to-volatile --
    says client 'Read a message: Hello client!'
}

# rpma_hello EXAMPLE: in memory of the processes.
rpma_hello() {
    pair_of_rpma "$1" --
    says server 'New value: Hello world!'
    says client 'Next value: Hello world!' 'Translation: ¡Hola Mundo!'
}
# rpma_hello_in_files EXAMPLE SERVER-ARGUMENT...: in files that libpmem2 takes for persistent memory.
rpma_hello_in_files() {
    local -x PMEM2_FORCE_GRANULARITY=CACHE_LINE
    rm -f "$work"/*.pmem
    truncate -s 1M "$work/server.pmem" "$work/client.pmem"
    pair_of_rpma "$1" "$work/server.pmem" "${@:2}" -- "$work/client.pmem"
    says server 'New value: Hello world!'
    says client 'Next value: Hello world!'
    grep -qF 'Hello world!' "$work/server.pmem" || fail "the server's file doesn't have it"
}
rpma_direct_writes() {
    rpma_hello_in_files 05-flush-to-persistent on
    says client 'RPMA_FLUSH_TYPE_PERSISTENT is supported'
}

# rpma_words SERVER-ARGUMENT...
rpma_words() {
    pair_of_rpma 07-atomic-write "$@" -- one two three
    says server one two three
}
rpma_words_in_a_file() {
    local -x PMEM2_FORCE_GRANULARITY=CACHE_LINE
    rm -f "$work/server.pmem"
    truncate -s 1M "$work/server.pmem"
    rpma_words "$work/server.pmem"
}

# rpma_counts EXAMPLE [SERVER-WORD CLIENT-WORD]: begins at 7, and has two rounds at least.
rpma_counts() {
    pair_of_rpma "$1" -- 7 3
    says server "${2:-}Value received: 8" "${2:-}Value sent: 9"
    says client "${3:-}Value sent: 8" "${3:-}Value received: 9"
}
rpma_send_with_immediate() {
    pair_of_rpma 10-send-with-imm -- 1234 word
    says server "Received value 'word' with immediate data '1234'"
}
rpma_write_with_immediate() {
    pair_of_rpma 11-write-with-imm -- 1234
    says server "The value '1234' was written together with immediate data '1234'"
}

# rpma_crowd: three at once, and a server that waits a second for more.
rpma_crowd() {
    local seed clients=() one
    rpma_server 13-messages-ping-pong-with-srq 1
    for seed in 1 5 10; do
        uroce_at "$client_address" "$TEST_RPMA/13-messages-ping-pong-with-srq/rpma-client" "$server_address" "$rpma_port" \
            "$seed" 3 >"$work/client$seed.out" 2>"$work/client$seed.err" &
        clients+=($!)
    done
    for one in "${clients[@]}"; do
        wait "$one" || fail "client: status $?"
    done
    server_ends
    for seed in 1 5 10; do
        grep -q "value received: $((seed + 3))\$" "$work/client$seed.out" || fail "the client from $seed hasn't counted"
    done
}

# Servers that end 15 seconds after their last client. The others' turn comes meanwhile.
rpma_idle=()
rpma_visitors() {
    local seed
    rpma_server "$1"
    for seed in 8 9 11 12; do
        rpma_client "$1" "$seed"
        cat "$work/client.out" >>"$work/$1.clients"
    done
}
# rpma_leaves EXAMPLE: its server, on its own.
rpma_leaves() {
    [ -z "${WITHOUT_DEVICE:-}" ] || return 0
    mv "$work/server.out" "$work/$1.server"
    rpma_idle+=("$1:$server")
    server=''
    rpma_port=$((rpma_port + 1))
}
rpma_idle_end() {
    local one
    for one in "${rpma_idle[@]}"; do
        wait "${one#*:}" || fail "$one: status $?"
        [ "$(sed -n 's/^My names is: //p' "$work/${one%:*}.clients" | sort)" = \
            "$(sed -n 's/^- //p' "$work/${one%:*}.server" | sort)" ] || fail "$one has had other visitors"
        [ "$(wc -l <"$work/${one%:*}.clients")" = 4 ] || fail "$one hasn't had four visitors"
    done
}

case_rpma_original() {
    local example
    need_rpma
    for example in 06-multiple-connections 06scch-multiple-connections; do
        moves bytes 32 rpma_visitors "$example"
        rpma_leaves "$example"
    done
    moves connections 1 rpma_connection
    moves bytes 14 rpma_read
    for example in 03-read-to-persistent 04-write-to-persistent 05-flush-to-persistent 09-flush-to-persistent-GPSPM \
        09scch-flush-to-persistent-GPSPM; do
        moves bytes 1024 rpma_hello "$example"
        moves bytes 1024 rpma_hello_in_files "$example"
    done
    moves bytes 1024 rpma_direct_writes
    moves bytes 94 rpma_words
    moves bytes 94 rpma_words_in_a_file
    moves bytes 40 rpma_counts 08-messages-ping-pong
    moves bytes 40 rpma_counts 08srq-simple-messages-ping-pong-with-srq
    moves bytes 40 rpma_counts 12-receive-completion-queue 'SERVER: ' 'CLIENT: '
    moves bytes 40 rpma_counts 12scch-receive-completion-queue 'SERVER: ' 'CLIENT: '
    moves bytes 1024 rpma_send_with_immediate
    moves bytes 1024 rpma_write_with_immediate
    moves bytes 56 rpma_crowd
    rpma_idle_end
}

# Those whose order of completions and events has been wrong, or may be.
case_rpma_original_few() {
    need_rpma
    rpma_connection
    rpma_hello 09scch-flush-to-persistent-GPSPM
    rpma_counts 08-messages-ping-pong
    rpma_counts 12scch-receive-completion-queue 'SERVER: ' 'CLIENT: '
}
