# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034  # used by who includes it
#
# A link in the guest between the kernel's device rxe1 in the first network namespace, which is the only
# one that rxe serves, and a namespace "uroce" for devices without a kernel.

declare -A kernel_address=([v4]=10.2.2.1 [v6]=fd00:2::1) uroce_address=([v4]=10.2.2.2 [v6]=fd00:2::2)

# Addresses that are being tried for duplicates can't be bound; nodad leaves that out.
make_link() {
    ip netns add uroce
    ip link add link0 mtu 4500 type veth peer name link1 mtu 4500 netns uroce
    ip addr add "${kernel_address[v4]}/24" dev link0
    ip addr add "${kernel_address[v6]}/64" dev link0 nodad
    ip -n uroce addr add "${uroce_address[v4]}/24" dev link1
    ip -n uroce addr add "${uroce_address[v6]}/64" dev link1 nodad
    ip -n uroce link set lo up
    ip -n uroce link set link1 up
    ip link set link0 up
    rdma link add rxe1 type rxe netdev link0
    expect "rxe1 is active" until_true 20 grep -q ACTIVE /sys/class/infiniband/rxe1/ports/1/state
    expect "rxe1 has its addresses" until_true 20 rxe_has_addresses
}

unmake_link() {
    rdma link delete rxe1
    ip link delete link0
    ip netns delete uroce
}

rxe_has_addresses() {
    local gids
    gids=$(cat /sys/class/infiniband/rxe1/ports/1/gids/* 2>/dev/null)
    grep -q 'ffff:0a02:0201' <<<"$gids" && grep -q '^fd00:0002' <<<"$gids"
}

set_mtu() {
    ip link set link0 mtu "$1"
    ip -n uroce link set link1 mtu "$1"
}

# impair SPEC...: what netem does to both directions, until mend.
impair() {
    tc qdisc replace dev link0 root netem "$@" && tc -n uroce qdisc replace dev link1 root netem "$@"
}

mend() {
    tc qdisc del dev link0 root
    tc -n uroce qdisc del dev link1 root
}
