# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # variables of ci.sh and ci/deb
#
# Programs of another release of Debian's, which are newer than this machine's, over uroce from our packages: rows of tests/clients, as they
# run here, in a root of that release.

readonly newest_programs=(ibverbs-utils ibverbs-providers rdmacm-utils perftest ucx-utils libfabric-bin openmpi-bin python3-mpi4py iproute2)
# Rows of tests/clients, each with the device and, to fail, without. Debian 13's ucx_perftest is built with MPI, and wants two processes of
# mpirun; UCX is below Open MPI here, unless its packages leave the part for verbs out, as unstable's do.
newest_rows() {
    printf '%s\n' rc_pingpong rping rc_send_bw libfabric libfabric_interfaces mpi_libfabric
    if compgen -G "$root/usr/lib/*/ucx/libuct_ib.so.0" >/dev/null; then
        echo mpi
    else
        say "  no row mpi: the UCX of $release has no libuct_ib" >&2
    fi
}

root_with_programs() { debian_root "newest-$release" --release "$release" -- "${newest_programs[@]}"; }

# The root has no compiler, and its C library may be older than this machine's.
tests_for_root() {
    mkdir -p "$1/tests" &&
        cp -r "$sluice_root/tests/clients" "$sluice_root/tests/preload" "$1/tests/" &&
        g++ -std=c++20 -O1 -static -I "$sluice_root" -o "$1/own_loopback" "$sluice_root/tests/own_loopback.cpp"
}

# row_in_root NAME WAY: as nobody, in user and network namespaces of its own.
row_in_root() {
    setpriv --reuid=65534 --regid=65534 --clear-groups -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 INSIDE=yes \
        unshare -Urn --root="$root" --wd=/tmp /opt/sluice-ci/tests/clients/client /opt/sluice-ci/own_loopback /usr/bin/sluice "$1" "$2"
}

step_newest_there() {
    local tar all rows name way said status
    need_root
    may_mount || return 0
    tar=$(root_with_programs) && unpack_root "newest-$release" "$tar" || return
    mkdir -p "$root/opt/sluice-ci/old" "$root/dev/shm"
    chmod 1777 "$root/dev/shm" "$root/tmp"
    cp "$out"/old/*.deb "$root/opt/sluice-ci/old/"
    mapfile -t all < <(packages_there)
    expect "install the programs" apt_in_root install "${newest_programs[@]}"
    install_from old "${all[@]}"
    tests_for_root "$root/opt/sluice-ci" || return
    # shellcheck disable=SC2016  # dpkg-query expands it
    in_root dpkg-query --show --showformat='  with ${Package} ${Version}\n' libibverbs1 "${newest_programs[@]}" 2>/dev/null
    mapfile -t rows < <(newest_rows)
    for name in "${rows[@]}"; do
        for way in memory packets without; do
            said=$(row_in_root "$name" "$way" 2>&1 | tr -d '\0')
            status=$?
            expect_equal "$name, $way" "$status" 0
            [ "$status" = 0 ] || say "$said"
        done
    done
    remove_root
}
