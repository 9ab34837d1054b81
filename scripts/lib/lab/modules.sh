# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # the other variables are those of scripts/lab
#
# Modules that Debian's kernels leave out: siw (iWARP over TCP), and on x86 vmw_pvrdma, the driver of QEMU's PCI adapter.
# Built once out of tree, from Debian's kernel source, against the headers of the very kernel that the guest boots.
# Nothing of it is installed on the host. The build is a cross build for arm64.

# module_dir VERSION ARCH: a directory with siw.ko, and for x86_64 with vmw_pvrdma.ko.
module_dir() {
    artefact "modules-$1-$2" "modules siw and vmw_pvrdma for kernel $1 ($2)" build_modules "$1" "$2"
}

build_modules() {
    local dir=$1 version=$2 arch=$3 deb release headers kbuild
    deb=$(deb_arch "$arch")
    release=$(<"$(kernel_dir "$version" "$arch")/release")
    headers=linux-headers-$release
    update_lists "$deb"
    # The build tools run here, whatever machine the module is for.
    update_lists amd64
    kbuild=$(apt_private "$deb" apt-cache depends "$headers" | sed -n 's/.*Depends: \(linux-kbuild-.*\)/\1/p')
    if [ -z "$kbuild" ]; then
        warn "$headers is not (or no longer) in Debian's archive." \
            "To start again with its current kernel: scripts/lab --clean-cache"
        return "$kExitOffline"
    fi
    fetch_packages "$deb" "$dir" "$headers" "${headers%-"$deb"}-common" "linux-source-$version"
    fetch_packages amd64 "$dir" "$kbuild"
    unpack_headers "$dir" "$headers"
    dpkg-deb --fsys-tarfile "$dir/linux-source-$version"_*.deb |
        tar -x -O --wildcards "*/linux-source-$version.tar.xz" | xz -dc |
        tar -x -C "$dir" --strip-components=4 --wildcards '*/drivers/infiniband/sw/siw/*' '*/drivers/infiniband/hw/vmw_pvrdma/*'
    build_module "$dir" "$headers" "$arch" siw CONFIG_RDMA_SIW=m
    [ "$arch" != x86_64 ] || build_module "$dir" "$headers" "$arch" vmw_pvrdma CONFIG_INFINIBAND_VMWARE_PVRDMA=m
    rm -r "$dir"/{siw,vmw_pvrdma,headers} "$dir"/*.deb
}

# build_module DIR HEADERS ARCH NAME SETTING: DIR/NAME holds its source, and DIR/NAME.ko is made.
build_module() {
    local dir=$1 headers=$2 name=$4 cross=()
    [ "$3" = x86_64 ] || cross=(CROSS_COMPILE=aarch64-linux-gnu-)
    # BTF would need pahole, and nobody looks at these modules with a BPF program.
    make -j"$(nproc)" -C "$dir/headers/usr/src/$headers" "M=$dir/$name" "$5" CONFIG_DEBUG_INFO_BTF_MODULES= "${cross[@]}" modules
    mv "$dir/$name/$name.ko" "$dir/$name.ko"
}

# Headers that work where they are unpacked: Debian's refer to their common half in /usr/src.
unpack_headers() {
    local dir=$1 headers=$2 package
    for package in "$dir"/linux-headers-*.deb "$dir"/linux-kbuild-*.deb; do
        dpkg-deb -x "$package" "$dir/headers"
    done
    sed -i "s|/usr/src/|$dir/headers/usr/src/|" "$dir/headers/usr/src/$headers/Makefile"
}
