# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # variables of ci.sh
#
# The Debian packages where something is amiss: installed by half, beside those of another architecture, on a disk
# that is full. Functions of ci.sh and deb_root.sh; the packages are installed in $root where nothing else is said.

# dpkg_in_root ARGUMENT...: what it says is shown if it fails.
dpkg_in_root() {
    in_root dpkg "$@" >"$root.dpkg.log" 2>&1 || {
        sed 's/^/    /' "$root.dpkg.log"
        return 1
    }
}

# half_installed PACKAGE...: unpacked without being configured, as after a crash; and a package that breaks off, after its
# first script has run.
half_installed() {
    local files broken=$root/opt/sluice-ci/broken.deb whole
    mapfile -t files < <(files_of new "$@")
    expect "unpack, and go no further" dpkg_in_root --unpack "${files[@]}"
    expect_quiet "unpacked only"
    expect "the command runs, unpacked only" in_root sh -c 'sluice devices >/dev/null'
    expect "go on from there" dpkg_in_root --configure --pending
    install_from old "$@"
    whole=$root$(files_of old sluice-default)
    head -c $(($(stat -c %s "$whole") - 100)) "$whole" >"$broken"
    expect_no_match "a package that breaks off isn't installed" \
        "$(in_root dpkg --install "${broken#"$root"}" 2>&1; in_root dpkg --list sluice-default 2>&1)" '^ii '
    expect_equal "and leaves no diversion" "$(in_root dpkg-divert --list '*rdmav*')" ''
    expect_quiet "a package has broken off"
    rm "$broken"
}

# packed_for_another PACKAGE: as it would be for s390x, its name in the root.
packed_for_another() {
    local dir=$root/opt/sluice-ci/other own
    own=$(dpkg-architecture -q DEB_HOST_MULTIARCH)
    dpkg-deb --raw-extract "$root$(files_of old "$1")" "$dir"
    sed -i 's/^Architecture: .*/Architecture: s390x/' "$dir/DEBIAN/control"
    [ ! -d "$dir/usr/lib/$own" ] || mv "$dir/usr/lib/$own" "$dir/usr/lib/s390x-linux-gnu"
    (cd "$dir" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | xargs -0 md5sum >DEBIAN/md5sums)
    dpkg-deb --build --root-owner-group -Znone "$dir" "$dir-$1.deb" >/dev/null
    rm -r "$dir"
    printf '/opt/sluice-ci/other-%s.deb\n' "$1"
}

# The other one's libraries can't be had here, and nothing of it is run: what dpkg and the scripts do is looked at.
two_architectures() {
    local package others=() settings
    for package in libsluice1 libdat1 libdapl-sluice1 librpma0-sluice libsluice-sync1 ibverbs-provider-sluice; do
        others+=("$(packed_for_another "$package")")
    done
    expect "enable" in_root sh -c 'sluice provider enable >/dev/null'
    printf 'claim = rxe\n' >>"$root$kSettings"
    settings=$(<"$root$kSettings")
    in_root dpkg --add-architecture s390x
    expect "install for two architectures" dpkg_in_root --force-depends --install "${others[@]}"
    expect_quiet "for two architectures"
    expect "purge one of them" dpkg_in_root --force-depends --purge \
        {libsluice1,libdat1,libdapl-sluice1,librpma0-sluice,libsluice-sync1,ibverbs-provider-sluice}:s390x
    expect "the other one stays enabled" test -e "$root$kDriverFile"
    expect_equal "and keeps its settings" "$(<"$root$kSettings")" "$settings"
    expect_quiet "for one again"
    in_root dpkg --remove-architecture s390x
    sed -i '$d' "$root$kSettings"
    in_root sluice provider disable >/dev/null
}

# mount_full WHOLE FULL ROOT: WHOLE as ROOT, on a disk at FULL that has 2 MiB of room.
mount_full() {
    mount -t tmpfs -o size=2m tmpfs "$2" && mkdir "$2/upper" "$2/work" &&
        mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$3" && mount -t proc proc "$3/proc"
}

full_disk() {
    local whole=$root full=$root.full root=$root.merged files said installed
    mkdir "$full" "$root"
    expect "a full disk" mount_full "$whole" "$full" "$root" || return
    mapfile -t files < <(files_of new libsluice1 libdat1 libdapl-sluice1 ibverbs-provider-sluice sluice-tools)
    # shellcheck disable=SC2016  # dpkg-query expands it
    installed=$(in_root dpkg-query --show --showformat='${Package} ${Version}\n' sluice-tools)
    said=$(in_root dpkg --install "${files[@]}" 2>&1)
    expect_match "an upgrade on a full disk: dpkg names the reason" "$said" 'No space left on device'
    expect_quiet "a full disk"
    expect "the command still runs" in_root sh -c 'sluice devices >/dev/null'
    cat /dev/zero >"$root/var/fill" 2>/dev/null
    said=$(in_root sluice dat register uroce0 --name full 2>&1)
    expect_equal "to name a device on a full disk ends with" "$?" 1
    expect_match "and with the reason" "$said" '^sluice: .*: No space left on device$'
    said=$(in_root sluice provider enable 2>&1)
    expect_equal "to enable the provider there ends with" "$?" 1
    expect_match "and with the reason" "$said" '^sluice: .*: No space left on device$'
    expect_equal "no file is left of either" "$(find "$root/etc/dat.conf.d" "$root/etc/libibverbs.d" -name '*sluice*' 2>/dev/null)" ''
    rm "$root/var/fill"
    mount -o remount,size=256m "$full"
    expect "with room, the upgrade goes on" dpkg_in_root --install "${files[@]}"
    expect_quiet "upgraded after all"
    # shellcheck disable=SC2016
    expect_no_match "to the next version" "$(in_root dpkg-query --show --showformat='${Package} ${Version}\n' sluice-tools)" "^$installed\$"
    umount "$root/proc" "$root" "$full"
    rmdir "$root" "$full"
}
