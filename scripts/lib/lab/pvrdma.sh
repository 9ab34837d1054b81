# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # the other variables are those of scripts/lab
#
# The adapter that QEMU emulates: a PCI function. VMware wrote its driver (vmw_pvrdma) and its provider (libvmw_pvrdma). What the
# guest asks of it QEMU asks of a verbs device of this machine, and that is uroce: QEMU runs under `sluice run`.

# The sluice command that shows uroce to QEMU.
sluice_command() {
    local candidate
    for candidate in "${LAB_SLUICE:-}" "$sluice_root"/build/{dev,release}/tools/sluice; do
        if [ -n "$candidate" ] && [ -x "$candidate" ]; then
            realpath "$candidate"
            return
        fi
    done
    command -v sluice
}

check_pvrdma() {
    [ "$lab_arch" = x86_64 ] || die "$kExitUsage" "--device pvrdma is not to be had on aarch64; valid: --arch x86_64"
    [ -z "$lab_net" ] || die "$kExitUsage" \
        "--net is for links of the kernel's; with --device pvrdma, SLUICE_UROCE_FAULTS injects faults (see sluice.conf(5))"
    [ -z "${LAB_SLUICE:-}" ] || [ -x "$LAB_SLUICE" ] || die "$kExitUsage" "LAB_SLUICE: no such program: $LAB_SLUICE"
    sluice_command >/dev/null || die "$kExitPackages" "--device pvrdma needs the sluice command on this machine, for uroce:" \
        "cmake --preset dev && cmake --build --preset dev --target sluice, or install sluice-tools, or set LAB_SLUICE"
}

# pvrdma_numbers: a directory with numbers.so, made of this source.
pvrdma_numbers() {
    local key
    key=$(sha256sum <"$sluice_lab/pvrdma/numbers.c" | head -c 12)
    artefact "pvrdma-$key" "numbers of queue pairs" build_pvrdma_numbers
}

build_pvrdma_numbers() {
    gcc -shared -fPIC -O2 -Wall -Wextra -Werror -o "$1/numbers.so" "$sluice_lab/pvrdma/numbers.c" -libverbs
}

# add_pvrdma MEMORY RUN_DIR: an adapter for each host, each behind a network card in the same slot, which its driver wants; and the
# wrapper that puts uroce under them. The cards are on one segment.
add_pvrdma() {
    local memory=$1 run=$2 numbers sluice i
    # Not -q: QEMU would be ended while it writes.
    qemu-system-x86_64 -device help 2>&1 | grep '"pvrdma"' >/dev/null || die "$kExitPackages" \
        "this machine's QEMU has no adapter pvrdma, which QEMU 9.1 dropped; Debian 12's has it"
    # The address of a Unix socket has 107 characters.
    [ "${#run}" -lt 100 ] || die "$kExitGuest" "the path of this run is too long for a socket in it: $run"
    numbers=$(pvrdma_numbers) || exit
    sluice=$(sluice_command)
    qemu+=(-object "memory-backend-ram,id=lab-memory,size=$memory,share=on")
    for ((i = 0; i < lab_hosts; i++)); do
        qemu+=(-netdev "hubport,id=lab-net$i,hubid=0"
            -device "vmxnet3,netdev=lab-net$i,addr=0x1$i.0,multifunction=on,mac=52:54:00:12:34:0$i"
            -chardev "socket,id=lab-mads$i,path=$run/mads$i"
            -device "pvrdma,addr=0x1$i.1,ibdev=uroce_lab$i,ibport=1,netdev=lab$i,mad-chardev=lab-mads$i,dev-caps-max-qp=32768")
    done
    qemu=("$sluice_lab/pvrdma/run" "$sluice" "$numbers/numbers.so" "$run" "$lab_hosts" "${qemu[@]}")
}
