# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # the other variables are those of scripts/lab
#
# OpenFabrics' uDAPL, to be compared with, and its programs, to be run over ours. It is unpacked and never installed: its /etc/dat.conf
# would tell every DAT program of this machine what there is.

# openfabrics_dapl: a directory with usr/.
openfabrics_dapl() {
    local packages key
    mapfile -t packages < <("$sluice_root/scripts/packages" list peer-dapl)
    key=$(printf '%s\n' "${packages[@]}" | sha256sum | head -c 8)
    artefact "dapl-$key" "OpenFabrics' uDAPL" fetch_unpacked "${packages[@]}"
}
