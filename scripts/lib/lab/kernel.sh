# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # the other variables are those of scripts/lab
#
# Debian's kernels for the guest, and the small initramfs that starts it.
#
# kernel_dir holds: release, vmlinux (what QEMU boots), modules/ (the tree of /lib/modules).

# The architecture as Debian and as QEMU name it.
deb_arch() {
    case $1 in
        x86_64) printf 'amd64' ;;
        aarch64) printf 'arm64' ;;
    esac
}

# kernel_dir VERSION ARCH
kernel_dir() {
    artefact "kernel-$1-$2" "kernel $1 for $2, linux-image-$1*-$(deb_arch "$2")" build_kernel "$1" "$2"
}

build_kernel() {
    local dir=$1 version=$2 arch=$3 deb package
    deb=$(deb_arch "$arch")
    update_lists "$deb"
    package=$(newest_package "$deb" "linux-image-${version/./\\.}\.[0-9.]+(-[0-9]+|\+deb[0-9]+)-$deb")
    [ -n "$package" ] || { warn "no package linux-image-$version*-$deb" && return "$kExitOffline"; }
    fetch_packages "$deb" "$dir" "$package" || return
    # What a guest without such hardware can't use is most of the size.
    dpkg-deb --fsys-tarfile "$dir"/*.deb | tar -x -C "$dir" \
        --exclude='*/kernel/sound' --exclude='*/kernel/drivers/gpu' \
        --exclude='*/kernel/drivers/media' --exclude='*/kernel/drivers/staging' \
        --exclude='*/kernel/drivers/net/wireless' --exclude='./usr/share'
    rm "$dir"/*.deb
    printf '%s\n' "${package#linux-image-}" >"$dir/release"
    mkdir "$dir/modules"
    if [ -d "$dir/lib/modules" ]; then mv "$dir"/lib/modules/* "$dir/modules"; else
        mv "$dir"/usr/lib/modules/* "$dir/modules"
    fi
    mkdir -p "$dir/depmod/lib"
    ln -s ../../modules "$dir/depmod/lib/modules"
    depmod -b "$dir/depmod" "$(<"$dir/release")"
    mv "$dir"/boot/vmlinuz-* "$dir/vmlinuz"
    mv "$dir"/boot/config-* "$dir/config"
    rm -rf "${dir:?}"/{boot,lib,usr}
    unpack_vmlinuz "$arch" "$dir/vmlinuz" "$dir/vmlinux"
    rm -f "$dir/vmlinuz"
}

# unpack_vmlinuz ARCH FROM TO: the uncompressed kernel. On x86 QEMU enters an ELF vmlinux
# directly (PVH), which saves the guest from unpacking xz in emulation: three seconds.
unpack_vmlinuz() {
    local arch=$1 from=$2 to=$3 setup_sectors offset length
    if [ "$arch" != x86_64 ]; then
        mv "$from" "$to"
        return
    fi
    # Fields of the x86 boot protocol: setup_sects, payload_offset, payload_length.
    setup_sectors=$(number_at "$from" 0x1f1 1)
    offset=$(number_at "$from" 0x248 4)
    length=$(number_at "$from" 0x24c 4)
    head -c "$(((setup_sectors + 1) * 512 + offset + length))" "$from" | tail -c "$length" >"$to.payload"
    case $(od -A n -t x1 -N 4 "$to.payload" | tr -d ' ') in
        # The payload ends in four bytes of size, which xz must not take for a second stream.
        fd377a58) xz -dc --single-stream <"$to.payload" >"$to" ;;
        28b52ffd) head -c -4 "$to.payload" | zstd -dc >"$to" ;;
        1f8b*) head -c -4 "$to.payload" | gzip -dc >"$to" ;;
        *) warn "kernel payload in a format that is not known here" && return 1 ;;
    esac
    rm "$to.payload"
}

# number_at FILE OFFSET BYTES
number_at() {
    od -A n -t "u$3" -j "$(($2))" -N "$3" "$1" | tr -d ' '
}

# busybox_dir ARCH: a static busybox, without touching the host's own.
busybox_dir() {
    artefact "busybox-$1" "busybox for $1" build_busybox "$1"
}

build_busybox() {
    local dir=$1 deb
    deb=$(deb_arch "$2")
    update_lists "$deb"
    fetch_packages "$deb" "$dir" busybox-static || return
    dpkg-deb -x "$dir"/*.deb "$dir/x"
    cp "$(find "$dir/x" -type f -path "*/bin/busybox")" "$dir/busybox"
    rm -r "$dir/x" "$dir"/*.deb
}

# Modules that must be there, in the words of modprobe; dependencies are found. crc32c and
# crc32 are asked for at run time under a name that no dependency shows.
readonly kBootModules="virtio_pci virtio_console 9pnet_virtio 9p overlay"
readonly kRxeModules="crc32_generic veth rdma_rxe rdma_ucm"
readonly kSiwModules="crc32c_generic libcrc32c veth rdma_ucm ib_uverbs"
readonly kPvrdmaModules="vmxnet3 rdma_ucm ib_uverbs"
readonly kNoneModules="veth"
readonly kNetemModules="sch_netem"
readonly kPmemModules="nd_e820 nd_pmem dax_pmem device_dax"

# module_files KERNEL_DIR MODULE...: files in the order of loading, relative to the tree.
module_files() {
    local kernel=$1 module
    shift
    for module in "$@"; do
        modprobe -d "$kernel/depmod" -S "$(<"$kernel/release")" --show-depends "$module" |
            sed -n 's/^insmod \([^ ]*\).*/\1/p'
    done | awk '!seen[$0]++'
}

# initramfs VERSION ARCH: its name carries what it is made of, so that it is remade when the
# scripts change.
initramfs() {
    local kernel busybox key dir
    kernel=$(kernel_dir "$1" "$2") || return
    busybox=$(busybox_dir "$2") || return
    key=$(cat "$sluice_lab/guest/boot" "$sluice_lab/kernel.sh" "$kernel/release" | sha256sum | head -c 12)
    dir=$(artefact "initramfs-$1-$2-$key" "initramfs" build_initramfs "$kernel" "$busybox" "$2") || return
    printf '%s\n' "$dir/initramfs"
}

build_initramfs() {
    local dir=$1 kernel=$2 busybox=$3 arch=$4 tree=$1/tree set modules file name
    mkdir -p "$tree/bin" "$tree/modules"
    cp "$busybox/busybox" "$tree/bin/busybox"
    cp "$sluice_lab/guest/boot" "$tree/init"
    for set in boot rxe siw pvrdma none netem pmem; do
        case $set in
            boot) modules=$kBootModules ;;
            rxe) modules=$kRxeModules ;;
            siw) modules=$kSiwModules ;;
            pvrdma)
                [ "$arch" = x86_64 ] || continue
                modules=$kPvrdmaModules
                ;;
            none) modules=$kNoneModules ;;
            netem) modules=$kNetemModules ;;
            pmem)
                # Only x86 can carve a region out of its memory by a boot option.
                [ "$arch" = x86_64 ] || continue
                modules=$kPmemModules
                ;;
        esac
        # shellcheck disable=SC2086  # a list
        module_files "$kernel" $modules | while read -r file; do
            name=${file##*/}
            # 6.12 has its modules compressed; the guest is the slower one to unpack them.
            case $name in
                *.xz) name=${name%.xz} && xz -dc "$file" >"$tree/modules/$name" ;;
                *) cp "$file" "$tree/modules/" ;;
            esac
            printf '%s\n' "$name"
        done >"$tree/modules/$set-order"
    done
    (cd "$tree" && find . | LC_ALL=C sort | cpio -o -H newc --quiet) | gzip -1 >"$dir/initramfs"
    rm -r "$tree"
}
