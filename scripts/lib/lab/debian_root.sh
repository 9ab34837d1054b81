# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # the other variables are those of scripts/lab
#
# A clean Debian, as a compressed tar: what packages are installed into to see whether they work,
# and what container images are made of. Made by mmdebstrap from this machine's own package
# sources, as root or in a user namespace.

# shellcheck source=../source.sh
. "$sluice_lab/../source.sh"

# debian_root NAME [--release CODENAME] INSTALL... -- KEEP...: prints the tar's path. The packages INSTALL are
# installed; KEEP, and what these depend on, are only downloaded into it, so that they can be
# installed later without a network. CODENAME is another release than this machine's.
debian_root() {
    local name=$1 key
    shift
    # What it is made of, and how.
    key=$({ printf '%s\n' "$@" && declare -f build_debian_root; } | sha256sum | head -c 8)
    printf '%s/root.tar.gz\n' "$(artefact "debian-$name-$key" "a clean Debian, $name" build_debian_root "$@")"
}

build_debian_root() {
    local dir=$1 install='' keep sources codename own=()
    shift
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    debian_sources deb "$dir/sources"
    if [ "$1" = --release ]; then
        codename=$2
        shift 2
        sources_of_release "$dir/sources" "$codename"
        # A mirror may lag, or be one of a certain day. What it holds is signed all the same.
        own=(--aptopt='Acquire::Check-Valid-Until "false"')
    fi
    while [ "$1" != -- ]; do
        install+=${install:+,}$1
        shift
    done
    shift
    keep=("$@")
    sources=("$dir/sources"/*)
    # shellcheck disable=SC2016  # mmdebstrap's own shell expands it
    local options=("${own[@]}" --variant=minbase --skip=cleanup/apt --aptopt='Acquire::Retries "3"'
        --dpkgopt=path-exclude=/usr/share/locale/* --dpkgopt=force-unsafe-io
        --customize-hook='printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d"; chmod 755 "$1/usr/sbin/policy-rc.d"')
    [ -z "$install" ] || options+=("--include=$install")
    [ "${#keep[@]}" -eq 0 ] || options+=(
        --customize-hook="chroot \"\$1\" apt-get -qq --yes --no-install-recommends --download-only install ${keep[*]}")
    # Nothing in it has to outlive a power failure. What it configures must not depend on who calls.
    if ! env -i PATH="$PATH" HOME=/root LC_ALL=C.UTF-8 ${http_proxy:+http_proxy="$http_proxy"} \
        ${https_proxy:+https_proxy="$https_proxy"} \
        mmdebstrap "${options[@]}" "$codename" "$dir/root.tar" "${sources[@]}"; then
        warn "mmdebstrap could not make a root of $codename from: ${sources[*]##*/}"
        return "$kExitOffline"
    fi
    # piuparts wants it compressed by gzip, and unpacking that is still fast.
    gzip -1 "$dir/root.tar"
    rm -r "$dir/sources"
}

# unpacked_debian_root NAME INSTALL... -- KEEP...: the same as a directory, for who only reads it.
unpacked_debian_root() {
    local tar
    tar=$(debian_root "$@") || return
    artefact "unpacked-$(basename "${tar%/*}")" "unpacking it" unpack_debian_root "$tar"
}

unpack_debian_root() { tar -xzf "$2" -C "$1" --numeric-owner --exclude=./dev; }
