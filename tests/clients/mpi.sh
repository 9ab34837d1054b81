# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Cases of ../preload/programs for Open MPI: four ranks pass the message of mpi4py's own benchmark round.

: "${sluice:?} ${work:?} ${server_address:?}" # ../preload/programs sets them

need_mpi() {
    need mpirun
    /usr/bin/python3 -c 'import mpi4py' 2>/dev/null || need python3-mpi4py
    # Who runs the tests may be root, if only in a namespace.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}
went_round() { grep -q '^time for 10 loops = .*(4 processes, 10000 bytes)' "$work/$1.out" || fail "$1: no ring"; }

readonly ring=(/usr/bin/python3 -m mpi4py.bench ringtest -n 10000 -l 10)
# on_one_host NAME OPTION... -- COMMAND...
on_one_host() {
    local name=$1 options=() attempt watcher status
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    # mpirun removes a directory that all others of the user have, too. At SIGTERM it ends whatever its processes do. If it doesn't, it
    # hangs itself, in which there's nothing of ours, and has another try.
    for attempt in 1 2; do
        {
            read -rt 50 <>"$work/never" || threads_of_mpirun >"$work/$name.hangs.out"
        } &
        watcher=$!
        timeout --kill-after 5 60 mpirun --oversubscribe -n 4 --mca orte_tmpdir_base "$work" --mca btl self "${options[@]}" "${@:2}" \
            >"$work/$name.out" 2>"$work/$name.err"
        status=$?
        kill "$watcher" 2>/dev/null
        wait "$watcher" 2>/dev/null
        [ "$status" -eq 137 ] || return "$status"
        printf '%s, attempt %d: mpirun took no notice of SIGTERM\n' "$name" "$attempt"
        cat "$work/$name.hangs.out"
    done
    return "$status"
}
# What each thread of it and of its processes waits in.
threads_of_mpirun() {
    ps -eLo ppid,pid,tid,stat,wchan:24,args |
        awk -v work="$work" 'index($0, work) { mpirun[$2] = 1 } $2 in mpirun || $1 in mpirun'
}
# ring_over NAME OPTION...
ring_over() {
    on_one_host "$@" -- "$sluice" run --device uroce -- "${ring[@]}" || fail "$1: status $?"
    went_round "$1"
}

# Each way that UCX knows; without the device there is none.
case_mpi() {
    local transport ucx=(--mca pml ucx --mca osc ucx)
    need_mpi
    export UCX_NET_DEVICES=uroce0:1 SLUICE_UROCE=uroce0=$server_address
    for transport in rc_v ud_v; do
        UCX_TLS=$transport,self ring_over "$transport" "${ucx[@]}"
    done
    ! UCX_TLS=rc_v,self on_one_host none "${ucx[@]}" -- "${ring[@]}" || fail "it went another way"
}

# The other library that Open MPI goes by leaves lo out.
case_mpi_libfabric() {
    need_mpi
    need_interface
    SLUICE_UROCE=eth0 FI_PROVIDER='verbs;ofi_rxm' ring_over libfabric --mca pml cm --mca mtl ofi
}

# Between hosts nothing but packets goes.
case_mpi_hosts() {
    need_mpi_of_hosts
    moves bytes 100000 mpi_on_two_hosts
}
mpi_on_two_hosts() { ring_of_hosts 42-mpirun/two-hosts; }

case_slurm() {
    need_mpi_of_hosts
    need slurmctld slurmd munged sbatch
    moves bytes 100000 mpi_under_slurm
}
mpi_under_slurm() { ring_of_hosts 44-slurm/two-nodes; }

# The examples call the programs by their names.
need_mpi_of_hosts() {
    need_mpi
    need ip unshare nsenter
    mkdir "$work/bin"
    ln -s /usr/bin/python3 "$work/bin/"
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$sluice" >"$work/bin/sluice"
    chmod +x "$work/bin/sluice"
}

# ring_of_hosts EXAMPLE
ring_of_hosts() {
    INSIDE='' PATH=$work/bin:$PATH timeout 120 "$(dirname "$0")/../../examples/$1" >"$work/mpi.out" 2>"$work/mpi.err" ||
        fail "status $?"
    went_round mpi
}
