# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# What the pipelines of all package formats share: steps, a snapshot of the source tree, checks of
# the binaries, and a clean root to install into.

# shellcheck source=../../scripts/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/common.sh"
close_inherited
# shellcheck source=../../tests/lab/expect.sh
. "$sluice_root/tests/lab/expect.sh"
sluice_lab=$sluice_root/scripts/lib/lab
readonly sluice_lab
# shellcheck source=../../scripts/lib/lab/cache.sh
. "$sluice_lab/cache.sh"
# shellcheck source=../../scripts/lib/lab/debian_root.sh
. "$sluice_lab/debian_root.sh"

# The one place where the version stands.
sluice_version=$(sed -n 's/^project(sluice VERSION \([0-9.]*\).*/\1/p' "$sluice_root/CMakeLists.txt")
readonly sluice_version

# parse_steps STEP... -- ARGUMENT...: sets `steps` to the steps wanted, all of them in their order
# unless some are named.
parse_steps() {
    local known=() argument
    while [ "$1" != -- ]; do
        known+=("$1")
        shift
    done
    shift
    steps=()
    local options=(--list --help)
    for argument in "$@"; do
        [[ $argument != -* ]] || [[ " -h ${options[*]} " = *" $argument "* ]] ||
            bad_usage "unknown option '$argument'" "${options[@]}"
        case $argument in
            -h | --help) help_from_header "$0" && exit 0 ;;
            --list) printf '%s\n' "${known[@]}" && exit 0 ;;
            *)
                [[ " ${known[*]} " = *" $argument "* ]] || bad_usage "unknown step '$argument'" "${known[@]}"
                steps+=("$argument")
                ;;
        esac
    done
    [ "${#steps[@]}" -gt 0 ] || steps=("${known[@]}")
}

# source_files: those of the tree, without what is ignored.
source_files() {
    git -C "$sluice_root" ls-files -co --exclude-standard | while read -r file; do
        [ ! -e "$sluice_root/$file" ] || printf '%s\n' "$file"
    done
}

# run_steps: each with its time; ends with the status of all checks. A check that fails doesn't keep
# the next from being made, but a step that could not be gone through ends the run.
run_steps() {
    local name start count=0
    for name in "${steps[@]}"; do
        start=$SECONDS
        count=$((count + 1))
        say "== $name ($count of ${#steps[@]})"
        "step_$name" || { miss "step $name ended with $?" && break; }
        say "== $name: $((SECONDS - start)) s"
    done
    finish
}

# Installing into a root, and only that, can't be done without being root.
need_root() {
    [ "$(id -u)" -eq 0 ] || die "$kExitPackages" \
        "installing into a root of its own needs root; run: sudo $0 ${steps[*]}"
}

commit_time() { git -C "$sluice_root" log -1 --format=%ct; }

# snapshot DIR: the tree as it stands, without what is ignored. Files have the commit's time: a package keeps theirs, if they are
# older than its changelog.
snapshot() {
    mkdir -p "$1"
    source_files | tar -c -C "$sluice_root" --no-recursion --mtime="@$(commit_time)" -T - | tar -x -C "$1"
}

# plain_tar DIR NAME [OPTION...]: what DIR holds, under NAME, to standard output. The same tree gives the same bytes: order, owners,
# modes and times are fixed.
plain_tar() {
    local dir=$1 name=$2
    shift 2
    tar -c -C "$dir" "$@" --sort=name --owner=0 --group=0 --numeric-owner --mode=go+rX,go-w \
        --mtime="@$(commit_time)" --transform "s|^\.|$name|S" .
}

# source_tarball DIR FILE: a snapshot as a release has it, without the directory debian.
source_tarball() { plain_tar "$1" "sluice-$sluice_version" --exclude=./debian | gzip -n >"$2"; }

# elf_files DIR: the programs and libraries below DIR.
elf_files() {
    find "$1" -type f -not -path '*/usr/lib/debug/*' | while read -r file; do
        [ "$(head -c 4 "$file" | od -A n -t x1 | tr -d ' \n')" != 7f454c46 ] || printf '%s\n' "$file"
    done
}

# check_hardening FILE NAME: what a linker and a compiler can do against an attacker was done.
check_hardening() {
    local file=$1 name=$2 headers dynamic
    headers=$(readelf -hlW "$file")
    dynamic=$(readelf -dW "$file")
    expect_match "$name: read-only relocations" "$headers" GNU_RELRO
    expect_match "$name: bound at load time" "$dynamic" 'BIND_NOW|Flags:.* NOW'
    expect_no_match "$name: no executable stack" "$headers" 'GNU_STACK.* RWE '
    expect_match "$name: position independent" "$headers" 'Type: +DYN'
    # The drop-ins lead to what lies beside them.
    [[ $name == */drop-in/* ]] || expect_no_match "$name: no search path of its own" "$dynamic" 'RPATH|RUNPATH'
    expect_no_match "$name: no relocation of code" "$dynamic" TEXTREL
}

# check_libstdcxx DIR: what is unpacked there has the distribution's C++ library, but for what gets into other people's programs.
check_libstdcxx() {
    expect "the distribution's libstdc++, or one of its own that nobody sees, where each is right" \
        "$sluice_root/tests/install/check_libstdcxx" "$1" dynamic
}

# A clean Debian with what our packages need lying by, and what a user's first programs need: it
# needs no network later. One for all package formats, because making it takes a minute.
clean_root() {
    local lab
    mapfile -t lab < <("$sluice_root/scripts/packages" list lab)
    debian_root packages -- ibverbs-utils ibverbs-providers rdmacm-utils libibverbs-dev librdmacm-dev cmake g++ make \
        pkg-config dapl2-utils usr-is-merged librpma-dev "${lab[@]}"
}

# unpack_root NAME TAR: a fresh root below build/packages, in the variable `root`.
unpack_root() {
    root=$sluice_root/build/packages/root-$1
    remove_root
    mkdir -p "$root"
    trap remove_root EXIT
    tar -xzf "$2" -C "$root" --numeric-owner && mount -t proc proc "$root/proc"
}

# may_mount: whether a root can be given a /proc. Without one neither maintainer scripts nor our
# programs work as they do anywhere else, and there is no way around it; so who can't says that.
may_mount() {
    unshare --mount mount -t proc proc /proc 2>/dev/null && return 0
    say "SKIP: this machine doesn't let even root mount anything, and installing into a root needs a /proc there"
    return 1
}

remove_root() {
    [ -n "${root:-}" ] && [ -d "$root" ] || return 0
    local mounted
    for mounted in "$root"{.merged/proc,.merged,.full,/proc}; do
        ! mountpoint -q "$mounted" || umount "$mounted"
    done
    rm -rf --one-file-system "$root" "$root".*
}

in_root() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        chroot "$root" "$@"
}

# fake_device: an RDMA device for libibverbs in the root. With no device it would load no provider,
# and never say what it thinks of them.
fake_device() {
    local sys=$root/opt/sluice-ci/sys
    mkdir -p "$sys"/class/infiniband_verbs/uverbs0 "$sys"/class/infiniband/rxe0 "$root/dev/infiniband"
    printf '6\n' >"$sys/class/infiniband_verbs/abi_version"
    printf 'rxe0\n' >"$sys/class/infiniband_verbs/uverbs0/ibdev"
    printf '2\n' >"$sys/class/infiniband_verbs/uverbs0/abi_version"
    printf '231:192\n' >"$sys/class/infiniband_verbs/uverbs0/dev"
    printf '1: CA\n' >"$sys/class/infiniband/rxe0/node_type"
    printf '0200:00ff:fe00:0001\n' >"$sys/class/infiniband/rxe0/node_guid"
    [ -e "$root/dev/infiniband/uverbs0" ] || mknod "$root/dev/infiniband/uverbs0" c 231 192
}

# ibv_devices_errors [NAME=VALUE...]: what ibv_devices writes to standard error; its list goes to
# $root.devices.
ibv_devices_errors() {
    # shellcheck disable=SC2069  # the list away, the errors out
    in_root env SYSFS_PATH=/opt/sluice-ci/sys "$@" ibv_devices 2>&1 >"$root.devices"
}

# apt_in_root ARGUMENT...: needs no network for what clean_root keeps.
apt_in_root() {
    in_root apt-get -qq --yes --no-install-recommends --allow-downgrades \
        -o Dpkg::Options::=--force-confold "$@" >"$root.apt.log" 2>&1 || {
        sed 's/^/    /' "$root.apt.log"
        return 1
    }
}

# expect_quiet WHEN: libibverbs finds the device and has nothing to complain about.
expect_quiet() {
    expect_equal "$1: ibv_devices writes nothing to stderr" "$(ibv_devices_errors)" ''
    [ -n "$kernel_lists_devices" ] || expect_match "$1: ibv_devices lists the device" "$(<"$root.devices")" '^ +rxe0'
}

# The check above must be able to fail. It can't where the kernel itself lists its devices, and has
# none.
expect_loud_when_broken() {
    local errors
    errors=$(ibv_devices_errors RDMAV_DRIVERS=no-such-plugin)
    kernel_lists_devices=$(grep -q rxe0 "$root.devices" || echo yes)
    if [ -n "$kernel_lists_devices" ] && [ -z "$errors" ]; then
        say "SKIP: this kernel lists RDMA devices itself, so that libibverbs' silence means nothing here"
    else
        expect_match "a plugin that is missing would be noticed" "$errors" "couldn't load driver"
    fi
}
