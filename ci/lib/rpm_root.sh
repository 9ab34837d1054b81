# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # variables of ci.sh and ci/rpm
#
# The RPM packages in a root: a Debian with libibverbs, so that there is something to disturb, and an
# RPM database of its own, so that dependencies are checked and scriptlets run as RPM does it.

readonly kDriverFile=/etc/libibverbs.d/sluice.driver
readonly kSettings=/etc/sluice/sluice.conf

# Debian's rpm wants to be told that the system in the root is not Debian's own.
rpm_in_root() { rpm --force-debian --root "$root" "$@"; }

# files_of old|new NAME...
files_of() {
    local which=$1 name
    shift
    for name in "$@"; do package_of "$which" "$name"; done
}

# install_from old|new NAME...: also upgrades and downgrades.
install_from() {
    local files
    mapfile -t files < <(files_of "$@")
    expect "install ($1): ${*:2}" rpm_in_root -U --oldpackage "${files[@]}"
}

# What the packages require of the system, without what they give each other.
foreign_requirements() {
    local provided
    provided=$(rpm -qp --provides "$out"/old/*.rpm)
    rpm -qp --requires "$out"/old/*.rpm | grep -v '^rpmlib(' | sort -u |
        grep -vxF -e "$provided" -e "${provided// = */}" || true
}

# stub_rpm NAME LIBIBVERBS: a package without content that provides what a distribution of RPM's kind
# would, with a libibverbs of that version; its file's name.
stub_rpm() {
    local name=$1 spec=$out/$1.spec requirement
    {
        printf '%s\n' "Name: $name" 'Version: 1' 'Release: 1' 'Summary: stands for a distribution' \
            'License: none' 'BuildArch: noarch' 'AutoReqProv: no'
        while read -r requirement; do
            case $requirement in
                libibverbs*) printf 'Provides: %s = %s\n' "${requirement%% *}" "$2" ;;
                # What is named by its path is there, or the stub would hide that it is missing.
                /*) [ ! -x "$root$requirement" ] || printf 'Provides: %s\n' "$requirement" ;;
                *) printf 'Provides: %s\n' "${requirement%% *}" ;;
            esac
        done < <(foreign_requirements)
        printf '%s\n' 'Provides: libibverbs = '"$2" '%description' 'stub' '%files'
    } >"$spec"
    rpmbuild -bb --quiet --define "_topdir $out/top-stub" "$spec" >"$out/$name.log" 2>&1 &&
        printf '%s\n' "$out/top-stub/RPMS/noarch/$name-1-1.noarch.rpm"
}

install_stub() { rpm_in_root -U "$(stub_rpm stub 44.0)"; }

# A libibverbs of a time that we know nothing about, and a machine of another kind.
what_does_not_fit_is_refused() {
    local future
    future=$(stub_rpm future 66.0)
    expect_match "a libibverbs that we don't know is refused" \
        "$(rpm_in_root -U --test "$future" "$(package_of old libsluice)" "$(package_of old libibverbs-sluice)" 2>&1)" \
        'libibverbs >= 66 conflicts with '
    expect_match "packages of another architecture are refused" \
        "$(setarch i686 rpm --force-debian --root "$root" -U --test --nodeps "$(package_of old libsluice)" 2>&1)" \
        'intended for a different architecture'
}

readonly kKnownRequirements='^(/bin/sh|/bin/bash|/usr/bin/bash|/usr/bin/env|/usr/bin/perl|/usr/bin/pkg-config|bash|cpio|kmod|perl.*|rtld\(GNU_HASH\)|lib(c|m|dat2|stdc\+\+|gcc_s|ibverbs|rdmacm|smartcols|nl-3|nl-route-3)\.so\..*|ld-linux.*|lib(ibverbs|rdmacm).*)$'

readonly kPackages=(libsluice libsluice-devel libdat libdat-devel libdapl-sluice libdapl-sluice2 librpma-sluice
    librpma-sluice-devel libsluice-sync libsluice-sync-devel libibverbs-sluice sluice-tools sluice-lab sluice-doc)

try_devices() {
    expect "the root has what a distribution provides" install_stub
    install_from old "${kPackages[@]}"
    snapshot "$root/opt/sluice-ci/tree"
    over_a_real_device
}

try_packages() {
    local all=("${kPackages[@]}")
    expect_loud_when_broken
    expect_quiet "before"
    expect_equal "nothing unexpected is required" "$(foreign_requirements | grep -vE "$kKnownRequirements")" ''
    what_does_not_fit_is_refused
    expect "the root has what a distribution provides" install_stub
    install_from old "${all[@]}"
    expect_quiet "installed"
    expect_equal "all files are as they were packed" "$(rpm_in_root -V "${all[@]}")" ''
    rpm_in_root -q --queryformat '  installed: %{NAME} %{SIZE} bytes\n' "${all[@]}"
    as_a_stranger
    documentation_holds_together
    what_it_costs
    without_privileges
    unknown_libibverbs
    foreign_plugin
    others_dat_conf
    edited_files_survive_an_upgrade "${all[@]}"
    the_default_is_an_environment
    a_program_for_dat_2
    expect "remove everything" rpm_in_root -e "${all[@]}"
    expect "no .driver file names a plugin that is gone" test ! -e "$root$kDriverFile"
    expect_quiet "removed"
    others_dat_conf_stays "removed"
    # What programs have counted is their users', as a core dump is.
    expect_equal "only what an administrator wrote is left" "$(find "$root" -xdev -iname '*sluice*' \
        -not -name 'sluice-counters-*' \
        -not -path "$root/opt/sluice-ci*" -not -path "$root/var/*" -printf '/%P\n' | sort | tr '\n' ' ')" \
        "/etc/sluice /etc/sluice/sluice.conf.rpmsave /etc/sluice/sluice.driver.saved "
}

edited_files_survive_an_upgrade() {
    expect "enable" in_root sluice provider enable >/dev/null
    expect_quiet "enabled"
    printf 'claim = rxe\n' >>"$root$kSettings"
    install_from new "$@"
    expect_match "the edited settings are kept" "$(<"$root$kSettings")" '^claim = rxe$'
    expect "the new ones lie beside them" test -e "$root$kSettings.rpmnew"
    rm -f "$root$kSettings.rpmnew"
    expect_match "and are heard" "$(in_root sluice config)" "^claim +rxe +.*$kSettings"
    expect "what was enabled stays enabled" test -e "$root$kDriverFile"
    expect_quiet "upgraded"
    others_dat_conf_stays "upgraded"
    install_from old "$@"
    expect_quiet "downgraded"
    rm -f "$root$kSettings.rpmnew"
    expect "remove the provider" rpm_in_root -e libibverbs-sluice
    expect "no .driver file names a plugin that is gone" test ! -e "$root$kDriverFile"
    expect_quiet "provider removed"
    mv "$root$kSettings.rpmsave" "$root$kSettings"
    install_from old libibverbs-sluice
    rm -f "$root$kSettings.rpmnew"
    printf '# ours\ndriver sluice\n' >"$root$kDriverFile"
}

the_default_is_an_environment() {
    install_from old sluice-default
    # shellcheck disable=SC2016  # expanded inside
    expect_equal "who logs in asks for ours" "$(in_root sh -c '. /etc/profile.d/sluice-default.sh; echo $RDMAV_DRIVERS')" sluice
    # shellcheck disable=SC2016
    expect_equal "unless somebody has chosen" \
        "$(in_root env RDMAV_DRIVERS=rxe sh -c '. /etc/profile.d/sluice-default.sh; echo $RDMAV_DRIVERS')" rxe
    expect "remove sluice-default" rpm_in_root -e sluice-default
}
