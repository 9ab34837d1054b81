# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # variables of ci.sh
#
# The Debian packages in a clean root, from the first installation to the purge. Functions of ci.sh
# run things in $root; the packages are in /opt/sluice-ci/old and new there.

readonly kDriverFile=/etc/libibverbs.d/sluice.driver
readonly kSettings=/etc/sluice/sluice.conf

# files_of old|new PACKAGE...: where they lie in the root.
files_of() {
    local which=$1 package file
    shift
    for package in "$@"; do
        for file in "$root/opt/sluice-ci/$which/${package}"_*.deb; do printf '%s\n' "${file#"$root"}"; done
    done
}

# install_from old|new PACKAGE...
install_from() {
    local files
    mapfile -t files < <(files_of "$@")
    expect "install ($1): ${*:2}" apt_in_root install "${files[@]}"
}

names_of_packages() {
    (cd "$root/opt/sluice-ci/old" && for package in *.deb; do printf '%s\n' "${package%%_*}"; done)
}

try_packages() {
    local all
    mapfile -t all < <(names_of_packages)
    expect "install what a verbs user has" apt_in_root install ibverbs-utils ibverbs-providers
    expect_loud_when_broken
    expect_quiet "before"
    wrong_abi_is_refused
    wrong_architecture_is_refused
    local but_default=()
    for package in "${all[@]}"; do [ "$package" = sluice-default ] || but_default+=("$package"); done
    install_from old "${but_default[@]}"
    expect_quiet "installed"
    # shellcheck disable=SC2016  # dpkg-query expands it
    in_root dpkg-query --show --showformat='  installed: ${Package} ${Installed-Size} KiB\n' "${but_default[@]}"
    as_a_stranger
    documentation_holds_together
    the_lab_explains_itself
    what_it_costs
    without_privileges
    unknown_libibverbs
    foreign_plugin
    others_dat_conf
    the_original_librpma
    half_installed "${but_default[@]}"
    two_architectures
    full_disk
    edited_files_survive_an_upgrade "${but_default[@]}"
    the_stock_provider_gives_way
    a_program_for_dat_2
    nothing_stays "${all[@]}"
}

try_devices() {
    local all
    mapfile -t all < <(names_of_packages)
    expect "install what a verbs user has" apt_in_root install ibverbs-utils ibverbs-providers rdmacm-utils rdma-core iproute2 kmod
    install_from old "${all[@]}"
    snapshot "$root/opt/sluice-ci/tree"
    over_a_real_device
}

# A libibverbs of a time that we know nothing about.
wrong_abi_is_refused() {
    local fake=$root/opt/sluice-ci/fake
    mkdir -p "$fake/DEBIAN"
    printf '%s\n' 'Package: libibverbs1' 'Version: 66.0-1' "Architecture: $(dpkg --print-architecture)" \
        'Multi-Arch: same' 'Maintainer: nobody <nobody@packages.invalid>' 'Description: of the future' >"$fake/DEBIAN/control"
    dpkg-deb --build --root-owner-group "$fake" "$root/opt/sluice-ci/future.deb" >/dev/null
    local files
    mapfile -t files < <(files_of old libsluice1 ibverbs-provider-sluice)
    expect_match "a libibverbs that we don't know is refused" \
        "$(in_root apt-get -s install /opt/sluice-ci/future.deb "${files[@]}" 2>&1)" \
        'ibverbs-provider-sluice : Depends: libibverbs1 \(< 66~\)'
}

the_lab_explains_itself() {
    expect "sluice-lab explains itself" in_root sh -c 'sluice-lab --help | grep -q "^Usage: sluice-lab"'
    expect_equal "and asks its administrator for what is missing" \
        "$(in_root sluice-lab --device siw --arch aarch64 -- true 2>&1 >/dev/null | grep -c 'sudo apt-get install')" 1
}

# The plugin as it would be packed for another machine.
wrong_architecture_is_refused() {
    local other=$root/opt/sluice-ci/other
    dpkg-deb --raw-extract "$root$(files_of old ibverbs-provider-sluice)" "$other"
    sed -i 's/^Architecture: .*/Architecture: s390x/' "$other/DEBIAN/control"
    dpkg-deb --build --root-owner-group "$other" "$other.deb" >/dev/null
    rm -r "$other"
    expect_match "packages of another architecture are refused" \
        "$(in_root apt-get -s install "${other#"$root"}.deb" 2>&1)" 'ibverbs-provider-sluice:s390x : Depends: '
    expect_match "also by dpkg" "$(in_root dpkg --install "${other#"$root"}.deb" 2>&1)" \
        'architecture \(s390x\) does not match system'
}

edited_files_survive_an_upgrade() {
    expect "enable again" in_root sluice provider enable >/dev/null
    printf 'claim = rxe\n' >>"$root$kSettings"
    install_from new "$@"
    expect_match "the edited settings are kept" "$(<"$root$kSettings")" '^claim = rxe$'
    expect "the new ones lie beside them" test -e "$root$kSettings.dpkg-dist"
    expect_match "and are heard" "$(in_root sluice config)" "^claim +rxe +.*$kSettings"
    expect "what was enabled stays enabled" test -e "$root$kDriverFile"
    expect_quiet "upgraded"
    others_dat_conf_stays "upgraded"
    install_from old "$@"
    expect_quiet "downgraded"
    expect "what was enabled stays enabled" test -e "$root$kDriverFile"

    expect "remove the provider" apt_in_root remove ibverbs-provider-sluice
    expect "no .driver file names a plugin that is gone" test ! -e "$root$kDriverFile"
    expect_quiet "removed"
    install_from old ibverbs-provider-sluice
    printf '# ours\ndriver sluice\n' >"$root$kDriverFile"
    expect "remove it with a .driver file of the administrator's" apt_in_root remove ibverbs-provider-sluice
    expect "the file is kept where libibverbs doesn't look" test -e "$root/etc/sluice/sluice.driver.saved"
    expect_quiet "removed again"
}

the_stock_provider_gives_way() {
    local dir stock
    install_from old ibverbs-provider-sluice sluice-default
    expect_quiet "sluice-default installed"
    dir=$(cd "$root" && dirname usr/lib/*/libibverbs/librxe-rdmav34.so)
    stock=/$dir/librxe-stock
    expect_equal "the stock name leads to ours" "$(readlink -f "$root/$dir/librxe-rdmav34.so")" \
        "$(readlink -f "$root/$dir/libsluice-rdmav34.so")"
    expect "the stock provider is still there" test -f "$root$stock-rdmav34.so"
    expect_equal "and can be asked for by its path" "$(ibv_devices_errors RDMAV_DRIVERS="$stock")" ''
    install_from new libsluice1 libdat1 libdapl-sluice1 libdapl-sluice2-2 ibverbs-provider-sluice sluice-tools libsluice-dev libdat-dev librpma0-sluice librpma-sluice-dev libsluice-sync1 libsluice-sync-dev sluice-default
    expect_quiet "sluice-default upgraded"
    expect "install the stock providers once more" apt_in_root install --reinstall ibverbs-providers
    expect "they don't come back by that" test -L "$root/$dir/librxe-rdmav34.so"
    expect "remove sluice-default" apt_in_root remove sluice-default
    expect_quiet "sluice-default removed"
    expect "the stock provider is back" test -f "$root/$dir/librxe-rdmav34.so" -a ! -L "$root/$dir/librxe-rdmav34.so"
    expect_equal "with all its files" "$(in_root dpkg --verify ibverbs-providers)" ''
}

# removed_by PACKAGE...: what apt says it would remove to install them.
removed_by() {
    in_root apt-get -s --no-install-recommends install "$@" 2>&1 | sed -n 's/^Remv \([^ ]*\).*/\1/p' | sort | paste -sd' '
}

# Debian's librpma and ours take turns, and nothing else goes with the one that gives way.
the_original_librpma() {
    local ours
    mapfile -t ours < <(files_of old librpma0-sluice librpma-sluice-dev)
    expect_equal "Debian's librpma in place of ours: apt tells what goes" "$(removed_by librpma0 librpma-dev)" "librpma-sluice-dev librpma0-sluice"
    expect "install it" apt_in_root install librpma0 librpma-dev
    expect_equal "an upgrade doesn't bring ours back" "$(in_root apt-get -s dist-upgrade 2>&1 | grep -c '^Remv')" 0
    expect_equal "ours in its place: apt tells what goes" "$(removed_by "${ours[@]}")" "librpma-dev librpma0"
    install_from old librpma0-sluice librpma-sluice-dev
    expect_equal "nor does an upgrade bring Debian's" "$(in_root apt-get -s dist-upgrade 2>&1 | grep -c '^Remv')" 0
    expect_match "what programs load is ours" "$(in_root dpkg --search librpma.so.0)" '^librpma0-sluice:'
}

nothing_stays() {
    expect "purge everything" apt_in_root purge "$@"
    expect_quiet "purged"
    others_dat_conf_stays "purged"
    # What programs have counted is their users', as a core dump is.
    expect_equal "no file of ours is left" "$(find "$root" -xdev -iname '*sluice*' -not -name 'sluice-counters-*' \
        -not -path "$root/opt/sluice-ci*" -not -path "$root/var/log/*" -not -path "$root/var/cache/*")" ''
    expect_equal "and no diversion" "$(in_root dpkg-divert --list '*rdmav*')" ''
}
