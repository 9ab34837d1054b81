# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # the other variables are those of scripts/lab
#
# The lab's cache: artefacts that are made once, and Debian packages fetched for them.
#
# An artefact is a directory under $lab_cache. It is made under a temporary name and renamed
# when complete, under a lock of its own: if the directory exists, it is whole, and two labs
# with a cold cache make it once. Nothing is ever looked up again after that, which pins the
# versions and makes the lab work without a network.

lab_cache=$sluice_cache/lab
readonly lab_cache

# artefact NAME LABEL BUILDER ARG...: prints the directory $lab_cache/NAME, and if it isn't
# there, has BUILDER DIR ARG... fill it first. LABEL is what a waiting user reads.
artefact() {
    local name=$1 label=$2 builder=$3
    local dir=$lab_cache/$name status=0
    shift 3
    if [ ! -d "$dir" ]; then
        mkdir -p "$lab_cache/lock" || die 1 "cannot write to the cache: $lab_cache"
        (
            flock -n 7 || { warn "lab: $label: another lab is making it, waiting" && flock 7; }
            [ ! -d "$dir" ] || exit 0
            # Left behind by an interrupted run: nobody else can be using it under our lock.
            rm -rf "$dir.part"
            mkdir "$dir.part"
            with_progress "$label" "$lab_cache/log/$name.log" setpriv --pdeathsig TERM \
                "$sluice_lab/make" "$builder" "$dir.part" "$@" >&2 ||
                exit $?
            mv -T "$dir.part" "$dir"
        ) 7>"$lab_cache/lock/$name" || status=$?
        if [ "$status" -ne 0 ]; then
            [ "$status" -ne "$kExitOffline" ] || die "$status" \
                "not in the cache and not to be had from Debian's archive: $dir ($label)"
            die "$status" "could not make $dir ($label)"
        fi
    fi
    printf '%s\n' "$dir"
}

# apt_private ARCH TOOL ARG...: apt with the host's sources, keys and proxy settings, but with
# lists and state of its own: needs no root, and changes nothing on the host, not even for a
# foreign architecture. Signatures are verified as always.
# One at a time, because apt doesn't expect its lists to be renewed under its hands.
apt_private() {
    local arch=$1 tool=$2 state=$lab_cache/apt/$1
    shift 2
    mkdir -p "$lab_cache/lock" "$state/lists/partial" "$state/cache/archives/partial"
    (
        flock 6
        write_apt_conf
        "$tool" -c "$state/apt.conf" "$@"
    ) 6>"$lab_cache/lock/apt-$arch"
}

write_apt_conf() {
    : >"$state/status"
    cat >"$state/apt.conf" <<CONF
#clear APT::Architectures;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Install-Pkgs;
#clear DPkg::Post-Invoke;
APT::Architecture "$arch";
APT::Architectures { "$arch"; };
APT::Sandbox::User "root";
Dir::State "$state";
Dir::State::Lists "$state/lists";
Dir::State::status "$state/status";
Dir::Cache "$state/cache";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::IndexTargets::deb-src::Sources::DefaultEnabled "false";
CONF
}

# update_lists ARCH: only before something is fetched. Hosts
# have sources that fail; what matters is whether the package can be found afterwards.
update_lists() {
    apt_private "$1" apt-get -q update || true
}

# newest_package ARCH REGEX: the highest package name that matches, for names with a version
# in them. (A metapackage would do on plain bookworm, but names another kernel on a host that
# has newer suites among its sources too.)
newest_package() {
    apt_private "$1" apt-cache pkgnames | { grep -Ex "$2" || true; } | sort -V | tail -n 1
}

# fetch_packages ARCH DIR PACKAGE...: downloads into DIR; exit status 4 when it can't.
fetch_packages() {
    local arch=$1 dir=$2
    shift 2
    (cd "$dir" && apt_private "$arch" apt-get -q download "$@") || {
        warn "cannot download: $*"
        return "$kExitOffline"
    }
}

# fetch_unpacked DIR PACKAGE...: what is in these packages of this machine's architecture, for what must not be installed.
fetch_unpacked() {
    local dir=$1 arch package
    shift
    arch=$(dpkg --print-architecture)
    update_lists "$arch"
    fetch_packages "$arch" "$dir" "$@"
    for package in "$dir"/*.deb; do
        dpkg-deb -x "$package" "$dir"
        rm "$package"
    done
}
