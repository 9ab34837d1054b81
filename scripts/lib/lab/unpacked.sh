# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # the other variables are those of scripts/lab
#
# Debian's packages that are unpacked and never installed. The /etc/dat.conf of OpenFabrics' uDAPL would tell every DAT program of this
# machine what there is; programs that are built here must find our librpma, not the original; and installing starts daemons.

# unpacked GROUP WHAT: the directory with what scripts/packages has in GROUP, which people call WHAT.
unpacked() {
    local packages key
    mapfile -t packages < <("$sluice_root/scripts/packages" list "$1")
    key=$(printf '%s\n' "${packages[@]}" | sha256sum | head -c 8)
    artefact "${1#peer-}-$key" "$2" fetch_unpacked "${packages[@]}"
}
