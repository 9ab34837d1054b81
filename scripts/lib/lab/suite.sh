# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # the other variables are those of scripts/lab
#
# Verbs of another Debian suite than this machine's: its C library, libibverbs, librdmacm and their programs. They are
# unpacked and never installed, and run by that C library's own loader.

# shellcheck source=../source.sh
. "$sluice_lab/../source.sh"

# suite_verbs SUITE: a directory with usr/.
suite_verbs() { artefact "verbs-$1" "libibverbs of Debian $1" fetch_suite_verbs "$1"; }

fetch_suite_verbs() {
    local dir=$1 suite=$2 apt=$1/apt mirror package options
    mkdir -p "$apt"/{lists/partial,cache/archives/partial,debs}
    : >"$apt/none"
    debian_sources deb "$apt/here"
    # The archive itself, and not that of security updates, which has no unstable.
    mirror=$(grep -hoE '[a-z]+://[^] ]+/debian/?( |$)' "$apt/here"/* | sed -n 1p)
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$mirror" "$suite" >"$apt/sources.list"
    options=(-qq -o "Dir::Etc::sourcelist=$apt/sources.list" -o "Dir::Etc::sourceparts=$apt/none" -o "Dir::State=$apt"
        -o "Dir::State::status=$apt/none" -o "Dir::Cache=$apt/cache" -o "Acquire::Languages=none" -o "Acquire::Retries=3"
        -o "APT::Sandbox::User=$(id -un)")
    apt-get "${options[@]}" update &&
        (cd "$apt/debs" && apt-get "${options[@]}" download libc6 libibverbs1 ibverbs-providers ibverbs-utils librdmacm1t64 \
            rdmacm-utils libnl-3-200 libnl-route-3-200) || return "$kExitOffline"
    for package in "$apt/debs"/*.deb; do dpkg-deb -x "$package" "$dir"; done
    rm -r "$apt"
}
