# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Cases of ../preload/programs for the rows that stand for several programs, or need what a namespace of their own has.
# ../preload/programs sources this file.

: "${sluice:?} ${work:?} ${server_address:?} ${client_address:?} ${server=}" # ../preload/programs sets them

# Whatever the row as a whole has moved, each of its programs must have used the device.
refused=0 # programs that failed without the device

# uses UNIT LEAST: since the last call, two processes at least have moved LEAST bytes each, or LEAST messages: an atomic operation
# is a message whose operands are in headers; or have opened LEAST connections. The connection manager's own messages, of 256 bytes
# each, don't count. What a process does to the other one's memory is taken for the other's, too.
uses() {
    "$sluice" stat --json | python3 -c '
import json, os, sys
unit, least, known = sys.argv[1], int(sys.argv[2]), sys.argv[3]
seen = set(open(known).read().split()) if os.path.exists(known) else set()
counters = {}
for use in json.load(sys.stdin)["uses"]:
    if str(use["pid"]) not in seen:
        counters.setdefault(use["pid"], []).append(use["counters"])
both = lambda path: path["bytes_sent"] + path["bytes_received"]
def own(use):
    manager = use["cm"]["messages_sent"] + use["cm"]["messages_received"]
    if unit == "connections":
        return use["cm"]["connections_opened"]
    if unit == "messages":
        return use["transport"]["messages_sent"] + use["transport"]["messages_received"] - manager
    return sum(both(path) for name, path in use["path"].items() if name != "direct") - 256 * manager
def direct(use):
    if unit == "connections":
        return 0
    return use["path"]["direct"]["requests"] if unit == "messages" else both(use["path"]["direct"])
shared = sum(direct(use) for uses in counters.values() for use in uses)
moved = sorted(sum(map(own, uses)) + shared for uses in counters.values())
print("%s over uroce, of them to the memory of the other %d:" % (unit, shared), *moved)
open(known, "a").write(" ".join(map(str, counters)) + " ")
if len(moved) < 2 or moved[-2] < least:
    sys.exit("not two processes have moved %d %s" % (least, unit))' "$1" "$2" "$work/known"
}

# moves UNIT LEAST COMMAND...: COMMAND runs a pair of processes, and `uses UNIT LEAST` is true of these. Without the device COMMAND
# must fail.
moves() {
    local unit=$1 least=$2
    shift 2
    if [ -z "${WITHOUT_DEVICE:-}" ]; then
        "$@"
        uses "$unit" "$least" || fail "$*"
        return
    fi
    if (trap '[ -z "$server" ] || kill "$server" 2>/dev/null' EXIT; "$@") >"$work/refused" 2>&1; then
        printf 'FAILED: without the device it works, too: %s\n' "$*"
        exit 2
    fi
    refused=$((refused + 1))
}

readonly blocks=$((50 * 65536))

case_perftest_all_cm() {
    local test
    for test in write send read; do
        moves bytes "$blocks" pair_over_cm "ib_${test}_bw" -R -n 50 -F -- "ib_${test}_bw" -R -n 50 -F "$server_address"
    done
    moves messages 50 pair_over_cm ib_atomic_bw -R -n 50 -F -- ib_atomic_bw -R -n 50 -F "$server_address"
}

case_perftest_queues() {
    local test
    for test in write send read; do
        moves bytes $((4 * blocks)) pair_over_tcp "ib_${test}_bw" -q 4 -n 50 -F
    done
    moves messages 200 pair_over_tcp ib_atomic_bw -q 4 -n 50 -F
}

case_perftest_atomics() {
    local operation
    for operation in FETCH_AND_ADD CMP_AND_SWAP; do
        moves messages 200 pair_over_tcp ib_atomic_bw -A "$operation" -n 200 -F
    done
}

case_perftest_each_cm() {
    local test
    for test in write_bw send_bw read_bw atomic_bw; do
        pair_over_cm "ib_$test" -R -n 50 -F -- "ib_$test" -R -n 50 -F "$server_address"
    done
}

# For as long as somebody says, instead of as often.
case_perftest_seconds() {
    local test
    for test in send write; do
        moves bytes "$blocks" pair_over_tcp "ib_${test}_bw" -D "${DURATION:-1}" -F
    done
}

# pair_of_qperf TEST: for a second, the least that it knows; with a count of messages it doesn't end.
pair_of_qperf() {
    local port=$TEST_TCP_PORT
    need qperf
    start_server qperf -lp "$port"
    until_true listens_tcp "$port" || fail "the server doesn't listen"
    client qperf -lp "$port" -cm1 -t 1 "$server_address" "$1" quit
    server_ends
    grep -qE '^ +(latency|bw|msg_rate) +=' "$work/client.out" || fail "the client didn't see a figure"
}
case_qperf_memory() {
    local test
    for test in rc_rdma_read_bw rc_rdma_write_bw; do
        moves bytes "$blocks" pair_of_qperf "$test"
    done
    for test in rc_rdma_read_lat rc_rdma_write_lat rc_rdma_write_poll_lat; do
        moves bytes 20 pair_of_qperf "$test"
    done
}
case_qperf_latency() { pair_of_qperf rc_lat; }
case_qperf_atomics() {
    local test
    for test in rc_compare_swap_mr ver_rc_fetch_add; do
        moves messages 50 pair_of_qperf "$test"
    done
}

case_rsockets() {
    moves bytes 640 case_rstream
    moves bytes 40000000 case_rstream_large
    moves bytes 640 case_riostream
    moves bytes 1000000 case_rcopy
    # The answer: until the sender knows its peer's queue pair, rsockets send through the kernel's UDP.
    moves bytes 64 case_udpong
    moves bytes 640 case_librspreload
}

# UCP takes an adapter's atomics only if that has and, or, xor and swap, too: it sends messages. UCX' lower layer takes ours.
case_ucx_atomics() {
    local test
    for test in fadd cswap; do
        moves messages 50 pair_of_ucx rc_v -d uroce0:1 -x rc_verbs -t "$test" -s 8
        moves bytes 400 pair_of_ucx rc_v -t "ucp_$test" -s 8
    done
}

case_ucx_large() {
    local size test
    for size in 65536 4194304; do
        for test in tag_bw ucp_put_bw ucp_get; do
            moves bytes $((50 * size)) pair_of_ucx rc_v -t "$test" -s "$size"
        done
    done
}

case_fio_once() { fio_pair write write 4; }

# A guest without a disk, which its firmware runs.
case_qemu_migration() {
    need qemu-system-x86_64
    moves bytes 1048576 migrated_by_rdma
}
readonly guest=(qemu-system-x86_64 -machine "q35,accel=tcg" -m 64 -nodefaults -display none)
migrated_by_rdma() {
    local uri=rdma:$server_address:$TEST_TCP_PORT source
    start_server "${guest[@]}" -qmp "unix:$work/to,server=on,wait=off" -incoming "$uri"
    until_true listens_cm || fail "QEMU doesn't listen"
    uroce_at "$client_address" "${guest[@]}" -qmp "unix:$work/from,server=on,wait=off" >"$work/client.out" 2>"$work/client.err" &
    source=$!
    until_true test -S "$work/from" || fail "the other QEMU doesn't start"
    /usr/bin/python3 "$(dirname "$0")/../clients/migrate.py" "$work/from" "$work/to" "$uri" || fail "no migration"
    wait "$source" || fail "client: status $?"
    server_ends
}

# A disk of Debian's tgt, which lets in only clients that it knows by address and by name.
case_iscsi() {
    local peers=${TEST_ISCSI:?start this with what unpack has unpacked}
    export PATH=$peers/usr/sbin:$peers/usr/bin:$PATH TGT_IPC_SOCKET=$work/tgt
    LD_LIBRARY_PATH=$(dirname "$peers"/usr/lib/*/libiscsi.so.7)
    export LD_LIBRARY_PATH
    need tgtd tgtadm iscsi-test-cu iscsi-perf
    moves bytes 4194304 disk_over_iser
}
has_begun() { listens_cm || grep -qF 'Failed to initialize RDMA' "$work/server.err"; }
tgt_target() { tgtadm --lld iser --mode target --tid 1 "$@"; }
disk_over_iser() {
    local name=iqn.2026-11.invalid.packages:disk initiator=iqn.2026-11.invalid.packages:client
    # In this namespace its own port is free; another one it refuses, whatever that is, for a call that failed before.
    local disk=iser://$server_address:3260/$name/1
    truncate -s 8M "$work/disk"
    start_server tgtd -f --iser pool_sz_mb=128
    until_true has_begun || fail "tgtd doesn't listen"
    listens_cm || fail "tgtd has no device"
    { tgt_target --op new --targetname "$name" &&
        tgtadm --lld iser --mode logicalunit --op new --tid 1 --lun 1 --backing-store "$work/disk" &&
        tgt_target --op bind --initiator-address ALL && tgt_target --op bind --initiator-name "$initiator"; } \
        >"$work/tgtadm.out" 2>"$work/tgtadm.err" || fail "no disk"
    # libiscsi 1.19 takes what malloc() gives it for zeros.
    export MALLOC_PERTURB_=255
    # It ends with 0 whatever the tests found.
    client iscsi-test-cu --dataloss --initiator-name "$initiator" \
        --test SCSI.Write10.Simple,SCSI.Read10.Simple,SCSI.Verify10.Mismatch "$disk"
    ! grep -F '[FAILED]' "$work/client.out" || fail "a test of SCSI's"
    [ "$(grep -c '^  Test: .*passed' "$work/client.out")" -eq 3 ] || fail "tests of SCSI's are missing"
    client iscsi-perf -i "$initiator" -m 8 -b 64 -t 1 -r "$disk"
    unset MALLOC_PERTURB_
    # Not by force, which calls a function that iSER hasn't; when its connections have ended.
    until_true tgt_target --op delete >"$work/tgtadm.out" 2>&1 || fail "the disk doesn't go"
    tgtadm --lld iser --mode system --op delete 2>/dev/null # tgtd may end before it answers
    server_ends
}

# The least of a cluster: a monitor, and one object store in memory.
case_ceph() {
    local peers=${TEST_CEPH:?start this with what unpack has unpacked} libraries
    libraries=$(dirname "$peers"/usr/lib/*/librados.so.2)
    export PATH=$peers/usr/bin:$PATH PYTHONPATH=$peers/usr/lib/python3/dist-packages LD_LIBRARY_PATH=$libraries:$libraries/ceph
    export CEPH_CONF=$work/ceph.conf
    need ceph-mon ceph-osd monmaptool
    moves bytes $((16 * 4194304)) objects_over_ceph
}
configure_ceph() {
    cat >"$CEPH_CONF" <<END
[global]
fsid = $1
mon host = v2:$server_address:3300/0
auth cluster required = none
auth service required = none
auth client required = none
run dir = $work
admin socket = $work/\$name.asok
log file = $work/\$name.log
erasure code dir = $libraries/ceph/erasure-code
mon data = $work/mon
osd data = $work/osd
osd pool default size = 1
osd pool default min size = 1
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 1073741824
ms type = async+rdma
ms async rdma device name = uroce0
ms async rdma receive buffers = 2048
ms async rdma receive queue len = 512
ms async rdma send buffers = 256
ms async op threads = 1
END
}
read_uuid() { read -r "$1" </proc/sys/kernel/random/uuid; }
objects_over_ceph() {
    local cluster store osd
    read_uuid cluster
    read_uuid store
    mkdir "$work/mon" "$work/osd"
    configure_ceph "$cluster"
    monmaptool --create --addv a "[v2:$server_address:3300]" --fsid "$cluster" "$work/monmap" >"$work/map.out" || fail "no map"
    ceph-mon --mkfs -i a --monmap "$work/monmap" >"$work/mon.out" 2>"$work/mon.err" || fail "no monitor"
    start_server ceph-mon -f -i a --public-addr "$server_address"
    until_true listens_tcp 3300 || fail "the monitor doesn't listen"
    client /usr/bin/python3 "$(dirname "$0")/../clients/objects.py" "$CEPH_CONF" "$store"
    uroce_at "$client_address" ceph-osd -i 0 --mkfs --osd-uuid "$store" --public-addr "$client_address" >"$work/osd.out" 2>"$work/osd.err" ||
        fail "no object store"
    uroce_at "$client_address" ceph-osd -f -i 0 --public-addr "$client_address" >"$work/osd.out" 2>"$work/osd.err" &
    osd=$!
    client /usr/bin/python3 "$(dirname "$0")/../clients/objects.py" "$CEPH_CONF"
    kill "$osd" "$server"
    wait "$osd" "$server"
    server=''
}

need_interface() {
    need fi_pingpong ip
    ! ip link show eth0 >/dev/null 2>&1 || return 0 # made by the last one in this namespace
    { ip link add eth0 type veth peer name eth1 && ip address add 10.0.0.1/24 dev eth0 && ip link set eth0 up && ip link set eth1 up; } ||
        fail "no pair of interfaces can be made here"
}
case_libfabric_msg() {
    need_interface
    pair_of_libfabric -p verbs -e msg
}
# Both processes have the device of an interface: libfabric leaves lo out.
case_libfabric_interfaces() {
    need_interface
    # ofi_rxm looks for completions, then whether its peer has closed, and loses what came between. It looks for the latter 100 times
    # a second, and on a busy machine that is often enough to happen; with this, once a second.
    export FI_OFI_RXM_CM_PROGRESS_INTERVAL=1000000
    moves bytes 20480 pair_of_libfabric -p verbs -e msg
    moves bytes 20480 pair_of_libfabric -p 'verbs;ofi_rxm' -e rdm
    moves bytes 20480 pair_of_libfabric -p 'verbs;ofi_rxd' -e rdm
}
pair_of_libfabric() {
    run_at eth0 fi_pingpong "$@" -I 5 -c -B "$TEST_TCP_PORT" >"$work/server.out" 2>"$work/server.err" &
    server=$!
    until_true listens_tcp "$TEST_TCP_PORT" || fail "the server doesn't listen"
    run_at eth0 fi_pingpong "$@" -I 5 -c -P "$TEST_TCP_PORT" 127.0.0.1 >"$work/client.out" 2>"$work/client.err" ||
        fail "client: status $?"
    server_ends
}
run_at() { SLUICE_UROCE=$1 timeout 60 "$sluice" run --device uroce -- "${@:2}"; }

# shellcheck source=tests/clients/mpi.sh
. "$(dirname "$0")/../clients/mpi.sh"
# shellcheck source=tests/clients/rpma.sh
. "$(dirname "$0")/../clients/rpma.sh"
