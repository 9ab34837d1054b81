# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # variables of ci.sh
#
# What anybody does with the packages, and what they owe to those who don't use them: the same for
# each package format. The packages are installed in $root.

# The tree's own programs, for a compiler that knows nothing but what is installed.
as_a_stranger() {
    local errors
    expect "install a compiler" apt_in_root install cmake g++ make pkg-config libibverbs-dev librdmacm-dev
    mkdir -p "$root/opt/sluice-ci"
    snapshot "$root/opt/sluice-ci/tree"
    errors=$(in_root /opt/sluice-ci/tree/debian/tests/use-as-a-stranger "$sluice_version" 2>&1 >"$root.stranger")
    expect_equal "a stranger's programs build and run" "$(tail -n 1 "$root.stranger")" "compiled, linked, listed"
    expect_equal "and nothing is written to stderr" "$errors" ''
    expect_equal "asked for by name, the plugin is loaded in silence" "$(ibv_devices_errors RDMAV_DRIVERS=sluice)" ''
}

# Its pages link to each other, to pictures and to examples.
documentation_holds_together() {
    local documentation=("$root"/usr/share/doc/sluice-doc*)
    expect_equal "no link in the documentation leads nowhere" "$("$sluice_root/ci/lib/dead_links.py" "${documentation[0]}" 2>&1)" ''
}

# What the plugin costs a verbs program that has no use for it: in time, and in memory. Whatever else
# runs on the machine makes a run longer and never shorter, so the shortest of twenty counts, with and without it by
# turns. A machine is also faster for a moment, in which only one of the two may run: it has to be cheap enough in two
# such rounds more than it isn't, and the majority of twenty decides. Where ibv_devices itself takes more than 5 ms, a
# fifth of that is granted: it loads all other plugins.
# Libibverbs reads a file in its directory whatever its name is.
what_it_costs() {
    local times without with limit rounds cheap size
    expect "enable" in_root sluice provider enable >/dev/null
    # shellcheck disable=SC2016  # expanded inside
    times=$(in_root env SYSFS_PATH=/opt/sluice-ci/sys bash -c '
        cheap=0 rounds=0
        while ((rounds < 20 && 2 * cheap - rounds < 2)); do
            with=1000000000 without=$with
            for ((i = 0; i < 20; i++)); do
                for which in with without; do
                    [ $which = with ] || mv "$1" "$2"
                    a=${EPOCHREALTIME/./}; ibv_devices >/dev/null; b=${EPOCHREALTIME/./}
                    ((b - a >= ${!which})) || declare $which=$((b - a))
                    [ $which = with ] || mv "$2" "$1"
                done
            done
            limit=$((without > 5000 ? without / 5 : 1000))
            cheap=$((cheap + (with - without < limit))) rounds=$((rounds + 1))
        done
        echo $rounds $cheap $with $without $limit' - "$kDriverFile" /opt/sluice-ci/not-enabled)
    read -r rounds cheap with without limit <<<"$times"
    expect_above "loading it takes less than $limit us ($without us without, $with us with it) in most of $rounds rounds; twice those" \
        $((2 * cheap)) "$rounds"
    in_root sluice provider disable >/dev/null
    size=$(in_root sh -c 'stat -L -c %s /usr/lib/*/libsluice.so.1')
    expect_above "it is smaller than 1 MiB; bytes left" $((1048576 - size)) 0
}

# In a guest that sees the root and has an rxe device of its kernel's.
over_a_real_device() {
    expect "what is installed drives a real device" \
        "$sluice_root/scripts/lab" --quiet --timeout 540 --device rxe -- "$sluice_root/ci/lib/devices_in_guest" "$root"
}

without_privileges() {
    local said status
    said=$(in_root setpriv --reuid 65534 --regid 65534 --clear-groups sluice run --device rxe -- true 2>&1)
    status=$?
    expect_equal "without privileges \`sluice run --device rxe\` ends with 3" "$status" 3
    expect_match "and names what needs none" "$said" uroce
    expect_match "which is there for a program that knows nothing of it" "$(in_root setpriv --reuid 65534 --regid 65534 \
        --clear-groups sluice run --device uroce -- ibv_devices 2>&1)" '^ +uroce0 '
    # Whoever calls itself root there has no more rights than before, and can't see that the file belongs to root.
    said=$(setpriv --reuid 65534 --regid 65534 --clear-groups env -i PATH=/usr/bin HOME=/ unshare -Ur --root="$root" --wd=/ sluice config 2>&1)
    expect_match "in a user namespace it reads the machine's settings" "$said" '^claim +'
    expect_no_match "and ignores none" "$said" 'is ignored'
}

# Dependencies forced: a libibverbs whose provider interface nobody knows yet is this one with another
# number. The plugin stays silent in every program, and the command tells why it takes no device.
unknown_libibverbs() {
    local library kept
    library=$(readlink -f "$root"/usr/lib/*/libibverbs.so.1)
    kept=$root/opt/sluice-ci/libibverbs
    cp -p "$library" "$kept"
    expect "enable" in_root sluice provider enable >/dev/null
    # Not under its own name, or those who have it open would see it change.
    sed 's/verbs_register_driver_34/verbs_register_driver_xx/g' "$kept" >"$library.new"
    mv "$library.new" "$library"
    expect_no_match "with a libibverbs that it doesn't know, the plugin is silent" \
        "$(ibv_devices_errors 2>&1; in_root ibv_devinfo 2>&1)" 'libsluice|sluice\.driver'
    expect_match "and \`sluice provider status\` says why" "$(in_root sluice provider status 2>&1)" \
        'It declines to drive any device: libibverbs has no verbs_register_driver_'
    mv "$kept" "$library"
    expect_no_match "with the right one it doesn't" "$(in_root sluice provider status 2>&1)" declines
    in_root sluice provider disable >/dev/null
}

# Dependencies forced: a plugin for another machine, where libibverbs looks. No machine has the
# number that this one says it is for.
foreign_plugin() {
    local dir kept=$root/opt/sluice-ci/plugins
    dir=$(dirname "$root"/usr/lib/*/libibverbs/libsluice-rdmav34.so)
    mkdir -p "$kept"
    mv "$dir"/libsluice-rdmav*.so "$kept/"
    cp "$root"/usr/lib/*/libsluice.so.1 "$dir/libsluice-rdmav34.so"
    printf '\377\376' | dd of="$dir/libsluice-rdmav34.so" bs=1 seek=18 conv=notrunc status=none
    expect_quiet "a plugin of another architecture"
    expect_match "\`sluice provider status\` says what is wrong with it" "$(in_root sluice provider status 2>&1)" \
        'It declines to drive any device: .*/libsluice-rdmav34\.so is built for another architecture'
    mv -f "$kept"/* "$dir/"
    expect_no_match "and nothing of the right one" "$(in_root sluice provider status 2>&1)" declines
}

# /etc/dat.conf is libdapl2's.
others_dat_conf() { cp "$root/etc/dat.conf" "$root.dat.conf"; }
others_dat_conf_stays() {
    [ -e "$root.dat.conf" ] || return 0 # where nobody has installed libdapl2
    expect "$1: libdapl2's /etc/dat.conf is as it was" cmp "$root/etc/dat.conf" "$root.dat.conf"
}

# libdat2 loads our provider only when it is named. The name is left to the packages' removal.
a_program_for_dat_2() {
    expect "install programs for DAT 2.0" apt_in_root install dapl2-utils
    expect "name a device for DAT 2.0" in_root sluice dat register uroce0 --name sluice2 --api 2
    expect_match "a program of dapl2-utils opens it and makes endpoints" \
        "$(in_root dapltest -T L -D sluice2 -w 1 -m 3 limit_ep 2>&1)" 'EPs created: 3$'
}
