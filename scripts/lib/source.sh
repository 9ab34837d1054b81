# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Debian's archive as this machine is configured to reach it, without other vendors' archives, and
# sources of Debian packages, for what must be compiled for an architecture that has no package.
# apt fetches and verifies them with a package list of its own, kept in the cache: the machine's
# configuration stays as it is, though it may name no source archives.

# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# fetch_source NAME VERSION: unpacks the upstream source of a Debian package into the cache and
# prints where. Works offline once it is there.
fetch_source() {
    local name=$1 version=$2
    local target=$sluice_cache/src/$name-$version
    mkdir -p "$sluice_cache/src"
    (
        flock 9
        [ -d "$target" ] && exit 0
        local work
        work=$(mktemp -d "$sluice_cache/src/.$name.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        download_source "$name" "$work" >&2 ||
            die "$kExitOffline" "the source of $name $version is not cached in $target and can't be fetched"
        mkdir "$work/unpacked"
        tar -xf "$work/${name}_$version".orig.tar.?z -C "$work/unpacked" --strip-components=1 ||
            die "$kExitOffline" "Debian's archive has no $name $version any more"
        mv "$work/unpacked" "$target"
    ) 9>"$sluice_cache/src/lock" || return
    printf '%s\n' "$target"
}

# debian_sources TYPE DIR: this machine's entries for Debian's own archive, as deb or deb-src, in
# files for apt.
debian_sources() {
    local type=$1 dir=$2 file
    mkdir -p "$dir"
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -e "$file" ] && grep -q debian "$file" &&
            sed "s/^Types:.*/Types: $type/" "$file" >"$dir/${file##*/}"
    done
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -e "$file" ] && grep -E '^deb .*debian' "$file" | sed "s/^deb /$type /" >"$dir/${file##*/}.list"
    done
    # One of these files may have nothing for us, which is no failure.
    find "$dir" -type f -empty -delete
}

# sources_of_release DIR CODENAME: makes of these entries those of another release, which has no updates that we want.
sources_of_release() {
    local file
    for file in "$1"/*; do
        case $file in
            *.sources) awk -v codename="$2" 'BEGIN { RS = ""; ORS = "\n\n" }
                /(^|\n)URIs:[^\n]*\/debian\/?(\n|$)/ { sub(/\nSuites:[^\n]*/, "\nSuites: " codename); print }' "$file" ;;
            *) sed -nE "s#^(deb (\[[^]]*\] )?[^ ]+/debian/?) [^ ]+ #\1 $2 #p" "$file" | sort -u ;;
        esac >"$file.new"
        mv "$file.new" "$file"
    done
    find "$1" -type f -empty -delete
}

download_source() {
    local name=$1 work=$2
    mkdir -p "$work/lists/partial" "$work/apt-cache/archives/partial"
    : >"$work/none"
    debian_sources deb-src "$work/parts"
    local options=(-qq -o "Dir::Etc::sourcelist=$work/none" -o "Dir::Etc::sourceparts=$work/parts"
        -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/apt-cache" -o "Acquire::Retries=3"
        -o "APT::Sandbox::User=$(id -un)")
    apt-get "${options[@]}" update && (cd "$work" && apt-get "${options[@]}" source --download-only "$name")
}
