# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Sourced by what runs programs as nobody, in a user and network namespace of their own.

skip() {
    printf 'skipped: %s\n' "$1"
    exit 77
}

# enter_sandbox SLUICE ARGUMENT...: the script that calls it goes on with ARGUMENT... in there.
enter_sandbox() {
    local sluice=$1 program nobody=()
    shift
    [ -z "${INSIDE:-}" ] || return 0
    for program in ip unshare setpriv python3; do
        PATH=$PATH:/sbin:/usr/sbin command -v "$program" >/dev/null || skip "$program is not installed (scripts/packages install programs)"
    done
    # Who can't look into the build tree as nobody stays who they are.
    if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 --regid=65534 --clear-groups -- "$sluice" --version >/dev/null 2>&1; then
        nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --)
    fi
    "${nobody[@]}" unshare -Urn -- true 2>/dev/null || skip "this system lets nobody make user and network namespaces"
    INSIDE=yes PATH=$PATH:/sbin:/usr/sbin exec "${nobody[@]}" unshare -Urn -- "$0" "$@"
}
