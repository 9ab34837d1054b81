# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # the other variables are those of scripts/lab
#
# The root of an arm64 guest. The host's programs don't run there, so /usr and /etc come from
# arm64 packages. They are unpacked and never configured: no package script runs, no foreign
# architecture is added to the host, and no root rights are needed.

# arm64_root: a directory with usr/ and etc/.
arm64_root() {
    local packages key
    mapfile -t packages < <("$sluice_root/scripts/packages" list guest-arm64)
    key=$(printf '%s\n' "${packages[@]}" | sha256sum | head -c 8)
    artefact "root-aarch64-$key" "root for the aarch64 guest" build_arm64_root "${packages[@]}"
}

build_arm64_root() {
    local dir=$1 name package
    shift
    update_lists arm64
    mkdir -p "$dir/debs/partial"
    # With an empty package state apt resolves the whole closure, and only downloads it.
    apt_private arm64 apt-get -q -o Debug::NoLocking=1 -o "Dir::Cache::archives=$dir/debs" \
        -y --no-install-recommends --download-only install "$@" || {
        warn "cannot download the arm64 packages: $*"
        return "$kExitOffline"
    }
    for name in bin sbin lib; do
        mkdir -p "$dir/usr/$name"
        ln -s "usr/$name" "$dir/$name"
    done
    for package in "$dir"/debs/*.deb; do
        dpkg-deb --fsys-tarfile "$package" |
            tar -x -C "$dir" --keep-directory-symlink --no-same-owner \
                --exclude=./usr/share/doc --exclude=./usr/share/man --exclude=./usr/share/locale \
                --exclude=./var --exclude=./run --exclude=./tmp --exclude=./dev --exclude=./proc
    done
    # The one part of the documentation that is a program: rdma-core's own tests.
    dpkg-deb --fsys-tarfile "$dir"/debs/python3-pyverbs_*.deb | tar -x -C "$dir" --no-same-owner ./usr/share/doc/rdma-core/tests
    # What the package scripts would have made and programs miss.
    ln -sf mawk "$dir/usr/bin/awk"
    cp "$dir/usr/share/base-passwd/passwd.master" "$dir/etc/passwd"
    cp "$dir/usr/share/base-passwd/group.master" "$dir/etc/group"
    sed -i '1s/\*/x/' "$dir/etc/passwd"
    rm -r "$dir/debs"
}
