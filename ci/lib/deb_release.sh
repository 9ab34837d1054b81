# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154,SC2016  # variables of ci.sh and ci/deb; what the root expands
#
# Another release of Debian than this machine's: the packages are built in a root of it, by its compilers, and tried in a clean one.

# What debian/control wants for a build without tests.
build_dependencies() {
    sed -n '/^Build-Depends:/,/^[A-Z].*:/{/nocheck/d; s/^ \([a-z0-9.+-]*\).*/\1/p}' "$sluice_root/debian/control" |
        sed 's/^debhelper-compat$/debhelper/'
}

root_to_build() {
    local needed
    mapfile -t needed < <(build_dependencies)
    debian_root "build-$release" --release "$release" build-essential "${needed[@]}" --
}

# DAT 2.0's registry is missing from Debian 13.
has_libdat2() { [ "$release" != trixie ]; }

root_to_try() {
    local keep=(ibverbs-utils ibverbs-providers rdmacm-utils libibverbs-dev librdmacm-dev cmake g++ make pkg-config)
    ! has_libdat2 || keep+=(libdapl2)
    debian_root "packages-$release" --release "$release" -- "${keep[@]}"
}

# In /build: a package holds no path of the machine that it was built on.
build_there() {
    rm -rf "$out"
    mkdir -p "$out/old"
    snapshot "$root/build/sluice-$sluice_version" &&
        in_root sh -c 'cd "/build/sluice-$1" && DEB_BUILD_OPTIONS="nocheck terse parallel=$2" dpkg-buildpackage -us -uc -b -Pnocheck' - \
            "$sluice_version" "$(nproc)" &&
        cp "$root"/build/*.deb "$out/old/"
}

step_build_there() {
    local tar
    need_root
    may_mount || return 0
    tar=$(root_to_build) && unpack_root "build-$release" "$tar" || return
    with_progress "build" "$out.log" build_there || return
    # Compilers that nobody here develops with are asked for packages, and what they think of the code is shown.
    grep -E '[.](c|h|cpp|hpp):[0-9]+:[0-9]+: warning:' "$out.log" | sort | uniq -c
    say "  built by $(in_root g++ -dumpfullversion) with libibverbs $(in_root dpkg-query --show --showformat '${Version}' libibverbs-dev)"
    remove_root
}

# What can be installed: the lab is for this release's own tests, and sluice-default replaces what it finds in ibverbs-providers.
packages_there() {
    local package
    for package in "$out"/old/*.deb; do
        package=$(basename "$package")
        package=${package%%_*}
        case $package in
            *-dbgsym | sluice-lab) ;;
            libdapl-sluice2-2) ! has_libdat2 || say "$package" ;;
            *) say "$package" ;;
        esac
    done
}

step_try_there() {
    local tar all said
    need_root
    may_mount || return 0
    tar=$(root_to_try) && unpack_root "packages-$release" "$tar" || return
    fake_device
    mkdir -p "$root/opt/sluice-ci/old"
    cp "$out"/old/*.deb "$root/opt/sluice-ci/old/"
    rm -f "$root/opt/sluice-ci/old"/*-dbgsym_*.deb
    mapfile -t all < <(packages_there)
    expect "install what a verbs user has" apt_in_root install ibverbs-utils ibverbs-providers rdmacm-utils
    say "  with libibverbs $(in_root dpkg-query --show --showformat '${Version}' libibverbs1)"
    expect_loud_when_broken
    expect_quiet "before"
    install_from old "${all[@]}"
    expect_quiet "installed"
    as_a_stranger
    cp "$sluice_root/ci/action/verify" "$root/opt/sluice-ci/"
    said=$(in_root /opt/sluice-ci/verify 2>&1)
    expect_match "two of its programs exchange bytes" "$said" '^two programs have exchanged [0-9]+ bytes by RDMA$'
    expect_match "our provider takes its libibverbs" "$(in_root sluice provider status 2>&1)" 'is installed'
    expect_no_match "and declines nothing" "$(in_root sluice provider status 2>&1)" declines
    nothing_stays "${all[@]}"
    remove_root
}
