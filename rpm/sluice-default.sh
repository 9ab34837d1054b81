# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Of the package sluice-default: Sluice's provider first, unless somebody has chosen already.
export RDMAV_DRIVERS="${RDMAV_DRIVERS:-sluice}"
