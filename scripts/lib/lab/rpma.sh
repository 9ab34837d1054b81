# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # the other variables are those of scripts/lab
#
# The original librpma, as Debian has it, to be run over uroce. It is unpacked and never installed: programs that are built here must
# find ours.

# original_rpma: a directory with usr/.
original_rpma() {
    local packages key
    mapfile -t packages < <("$sluice_root/scripts/packages" list peer-rpma)
    key=$(printf '%s\n' "${packages[@]}" | sha256sum | head -c 8)
    artefact "rpma-$key" "the original librpma" fetch_unpacked "${packages[@]}"
}
