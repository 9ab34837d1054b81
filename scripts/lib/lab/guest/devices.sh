# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # arch, device, hosts, net come from the config
#
# Guest side: brings up the RDMA devices, their link and the persistent memory. Everything is
# awaited by its state; nothing sleeps for a fixed time. `fail` comes from init.

readonly kNearAddr=10.1.1.1 kFarAddr=10.1.1.2
# The adapter pvrdma brings its own network cards, on one segment; all others stand on a pair of veth.
if [ "$device" = pvrdma ]; then
    readonly kNetdev=eth kDevice=vmw_pvrdma kLink="" kGidType="IB/RoCE v1"
else
    readonly kNetdev=veth kDevice=$device kLink="link add veth0 mtu 4500 type veth peer name veth1 mtu 4500" kGidType="RoCE v2"
fi

# await SECONDS WHAT COMMAND...: polls until the command succeeds.
await() {
    local limit=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null; do
        [ "$SECONDS" -lt "$limit" ] || fail "timed out waiting for $what"
        bb usleep 10000
    done
}

# must COMMAND...: the lab can't go on without this.
must() {
    local text
    text=$("$@" 2>&1) || fail "$*: ${text//$'\n'/; }"
}

# The modules lie in the initramfs, in an order that insmod can follow: modprobe would have
# to read the whole module index over 9p.
load_modules() {
    local module name
    while read -r module; do
        name=${module%.ko}
        [ -e "/sys/module/${name//-/_}" ] || bb insmod "/run/modules/$module" ||
            fail "cannot load $module"
    done <"/run/modules/$1-order"
}

prepare_devices() {
    load_modules "$device"
    case $device in
        siw) must bb insmod "$lab/siw.ko" ;;
        # Behind its network cards, whose names and addresses it takes.
        pvrdma) must bb insmod "$lab/vmw_pvrdma.ko" ;;
    esac
    if [ "$hosts" = 1 ]; then
        link_one_host
    elif [ "$device" = rxe ] || [ "$device" = pvrdma ]; then
        link_two_ports
    else
        link_two_namespaces
    fi
    export_names LAB 0 "$kNearAddr"
    [ "$hosts" = 1 ] || export_names LAB_PEER 1 "$kFarAddr"
    [ -z "$net" ] || impair_link
}

# export_names PREFIX NUMBER ADDRESS: waits for the device and names it to the command.
export_names() {
    local prefix=$1 name=''
    if [ "$device" != none ]; then
        name=$kDevice$2
        await 20 "$name to be ready" device_ready "$name" "$3"
        printf -v "${prefix}_GID_INDEX" '%s' "$gid_index"
    fi
    printf -v "${prefix}_DEVICE" '%s' "$name"
    printf -v "${prefix}_NETDEV" '%s' "$kNetdev$2"
    printf -v "${prefix}_ADDR" '%s' "$3"
    export "${prefix}_DEVICE" "${prefix}_NETDEV" "${prefix}_ADDR" "${prefix}_GID_INDEX"
}

# add_device NAME NETDEV [WRAPPER...]
add_device() {
    local name=$1 netdev=$2
    shift 2
    case $device in
        none | pvrdma) ;;
        *) must "$@" rdma link add "$name" type "$device" netdev "$netdev" ;;
    esac
}

link_one_host() {
    must ip -batch - <<BATCH
$kLink
addr add $kNearAddr/24 dev ${kNetdev}0
link set ${kNetdev}0 up
${kLink:+link set veth1 up}
BATCH
    add_device "${device}0" veth0
}

# rxe of these kernels serves the first network namespace only, and so does the adapter pvrdma, so that both ends live in it.
# Left alone, the kernel would hand packets for its own other address over internally. These
# rules send each end's packets through its own interface, and look up local addresses only
# for what came in over the link or stays on one end.
link_two_ports() {
    local netdev
    [ -z "$kLink" ] || must ip -batch - <<<"$kLink"
    for netdev in ${kNetdev}0 ${kNetdev}1; do
        printf '1\n' >"/proc/sys/net/ipv4/conf/$netdev/accept_local"
        printf '1\n' >"/proc/sys/net/ipv4/conf/$netdev/arp_ignore"
        printf '0\n' >"/proc/sys/net/ipv4/conf/$netdev/rp_filter"
    done
    printf '0\n' >/proc/sys/net/ipv4/conf/all/rp_filter
    must ip -batch - <<BATCH
addr add $kNearAddr/32 dev ${kNetdev}0
addr add $kFarAddr/32 dev ${kNetdev}1
link set ${kNetdev}0 up
link set ${kNetdev}1 up
route add $kFarAddr/32 dev ${kNetdev}0 src $kNearAddr table 100
route add $kNearAddr/32 dev ${kNetdev}1 src $kFarAddr table 101
rule add pref 1 iif ${kNetdev}0 lookup local
rule add pref 2 iif ${kNetdev}1 lookup local
rule add pref 3 from $kNearAddr to $kNearAddr lookup local
rule add pref 4 from $kFarAddr to $kFarAddr lookup local
rule add pref 5 to $kFarAddr lookup 100
rule add pref 6 to $kNearAddr lookup 101
rule add pref 100 lookup local
rule del pref 0
BATCH
    add_device "${device}0" veth0
    add_device "${device}1" veth1
}

link_two_namespaces() {
    must ip netns add lab-peer
    must ip -batch - <<BATCH
$kLink
link set veth1 netns lab-peer
addr add $kNearAddr/24 dev veth0
link set veth0 up
BATCH
    must ip -n lab-peer -batch - <<BATCH
link set lo up
addr add $kFarAddr/24 dev veth1
link set veth1 up
BATCH
    add_device "${device}0" veth0
    add_device "${device}1" veth1 ip netns exec lab-peer
}

# netem works on what leaves an interface: one on each end makes both directions.
impair_link() {
    local text far=()
    load_modules netem
    [ ! -e /run/netns/lab-peer ] || far=(-n lab-peer)
    # shellcheck disable=SC2086  # the specification is a list of words
    text=$({ tc qdisc add dev veth0 root netem $net && tc "${far[@]}" qdisc add dev veth1 root netem $net; } 2>&1) ||
        refuse "usage --net '$net' is nothing that netem takes: ${text%%$'\n'*}; valid: 'loss 1%', 'delay 5ms 1ms', 'duplicate 1%', 'corrupt 1%', 'reorder 25% delay 1ms', 'rate 10mbit', or several of them"
}

# Sets gid_index to the index of the RoCE GID made from an IPv4 address; 0 for iWARP, which
# has none.
find_gid() {
    local port=/sys/class/infiniband/$1/ports/1 a b c d want gid type
    gid_index=0
    [ "$device" != siw ] || return 0
    IFS=. read -r a b c d <<<"$2"
    printf -v want '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' "$a" "$b" "$c" "$d"
    for ((gid_index = 0; gid_index < 16; gid_index++)); do
        gid='' type=''
        read -r gid 2>/dev/null <"$port/gids/$gid_index"
        read -r type 2>/dev/null <"$port/gid_attrs/types/$gid_index"
        [ "$gid $type" != "$want $kGidType" ] || return 0
    done
    return 1
}

device_ready() {
    local state=''
    read -r state 2>/dev/null <"/sys/class/infiniband/$1/ports/1/state"
    [ "$state" = '4: ACTIVE' ] && [ -e /dev/infiniband/uverbs"${1#"$kDevice"}" ] && find_gid "$1" "$2"
}

# A region that the boot option memmap= set aside comes up as a persistent memory disk. Made
# into device DAX by the writes to sysfs that ndctl would do, without the package and what it
# pulls in. Only device DAX serves here: the kernel refuses to register memory of a DAX file
# system (EOPNOTSUPP).
prepare_pmem() {
    local bus=/sys/bus/nd dax
    load_modules pmem
    await 20 "the persistent memory region" test -e $bus/devices/namespace0.0
    # Bound to the disk driver or not yet: either way it must not be.
    printf 'namespace0.0\n' >$bus/drivers/nd_pmem/unbind 2>/dev/null
    dax=$(<$bus/devices/region0/dax_seed)
    write_sysfs "$bus/devices/$dax/namespace" namespace0.0
    write_sysfs "$bus/devices/$dax/align" $((2 << 20))
    write_sysfs "$bus/devices/$dax/mode" pmem
    write_sysfs "$bus/devices/$dax/uuid" "$(</proc/sys/kernel/random/uuid)"
    write_sysfs $bus/drivers/dax_pmem/bind "$dax"
    await 20 "the device DAX node" compgen -G '/dev/dax*'
    LAB_PMEM=$(compgen -G '/dev/dax*')
    export LAB_PMEM
}

write_sysfs() {
    printf '%s\n' "$2" >"$1" || fail "cannot write '$2' to $1"
}
