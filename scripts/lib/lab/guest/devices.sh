# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # arch, device, hosts, net come from the config
#
# Guest side: brings up the RDMA devices, their link and the persistent memory. Everything is
# awaited by its state; nothing sleeps for a fixed time. `fail` comes from init.

readonly kNearAddr=10.1.1.1

# await SECONDS WHAT COMMAND...: polls until the command succeeds.
await() {
    local limit=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        [ "$SECONDS" -lt "$limit" ] || fail "timed out waiting for $what"
        /run/busybox usleep 20000
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
    local module
    while read -r module; do
        [ -e "/sys/module/$(basename "${module//-/_}" .ko)" ] ||
            must /run/busybox insmod "/run/modules/$module"
    done <"/run/modules/$1-order"
}

prepare_devices() {
    [ "$device" != none ] || return 0
    load_modules "$device"
    must ip link add veth0 mtu 4500 type veth peer name veth1 mtu 4500
    if [ "$hosts" = 1 ]; then
        link_one_host
    elif [ "$device" = rxe ]; then
        link_two_ports
    else
        link_two_namespaces
    fi
    export LAB_DEVICE=${device}0 LAB_NETDEV=veth0 LAB_ADDR=$kNearAddr
    await 20 "$LAB_DEVICE to be ready" device_ready "$LAB_DEVICE" "$LAB_ADDR"
    LAB_GID_INDEX=$(gid_index "$LAB_DEVICE" "$LAB_ADDR")
    export LAB_GID_INDEX
}

add_device() {
    must rdma link add "$1" type "$device" netdev "$2"
}

link_one_host() {
    must ip addr add $kNearAddr/24 dev veth0
    must ip link set veth0 up
    must ip link set veth1 up
    add_device "${device}0" veth0
}

# Prints the index of the RoCEv2 GID made from an IPv4 address; 0 for iWARP, which has none.
gid_index() {
    local gids=/sys/class/infiniband/$1/ports/1/gids a b c d want index
    if [ "$device" = siw ]; then
        printf 0
        return
    fi
    IFS=. read -r a b c d <<<"$2"
    printf -v want '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' "$a" "$b" "$c" "$d"
    for ((index = 0; index < 16; index++)); do
        if [ "$(cat "$gids/$index" 2>/dev/null)" = "$want" ] &&
            grep -q 'RoCE v2' "/sys/class/infiniband/$1/ports/1/gid_attrs/types/$index"; then
            printf '%s' "$index"
            return
        fi
    done
    return 1
}

device_ready() {
    grep -q ACTIVE "/sys/class/infiniband/$1/ports/1/state" 2>/dev/null &&
        [ -e /dev/infiniband/uverbs0 ] && gid_index "$1" "$2" >/dev/null
}
