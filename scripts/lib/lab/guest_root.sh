# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # the other variables are those of scripts/lab
#
# What the guest sees of the host: only what the command needs, never the whole of /.
#
#   /usr (and /bin, /lib ... where they are no links), the repository, the current directory,
#   every --export, the kernel's modules      read-only 9p exports, an overlay over each
#   /etc                                       a staged copy of a few files without secrets
#   $LAB_OUT                                   the one writable export besides the control share

# Where the guest's /usr and /etc come from: nothing for the host's own, or the arm64 root.
lab_root=''

# Pairs of these two arrays: host directory, path in the guest.
export_sources=()
export_paths=()

# add_export SOURCE PATH: unless the guest has it already through a parent.
add_export() {
    local i
    for i in "${!export_paths[@]}"; do
        case $2/ in
            "${export_paths[i]}"/*)
                # A parent with another source (arm64's /usr) hides the host's below it.
                return 0
                ;;
        esac
    done
    export_sources+=("$1")
    export_paths+=("$2")
}

# Directories that must not become visible because somebody happens to stand in them.
is_too_wide() {
    case $1 in
        / | /root | /home | "${HOME:-/root}" | /proc | /sys | /dev | /run | /tmp | /var | /etc) return 0 ;;
    esac
    case ${HOME:-/root}/ in "$1"/*) return 0 ;; esac
    return 1
}

# collect_exports CWD EXTRA...
collect_exports() {
    local cwd=$1 name path
    shift
    [ "$lab_arch" = x86_64 ] || lab_root=$(arm64_root) || exit
    if [ "$lab_arch" = x86_64 ]; then
        add_export /usr /usr
        for name in bin sbin lib lib32 lib64 libx32; do
            [ -L "/$name" ] || [ ! -d "/$name" ] || add_export "/$name" "/$name"
        done
    else
        add_export "$lab_root/usr" /usr
    fi
    # Parents first, so that a directory inside another one needs no export of its own.
    while IFS= read -r -d '' path; do
        add_export "$path" "$path"
    done < <(
        {
            printf '%s\0' "$sluice_root" "$@"
            is_too_wide "$cwd" || printf '%s\0' "$cwd"
        } | sort -z -u
    )
}

# The top-level links of the guest's root.
write_links() {
    local name
    for name in bin sbin lib lib32 lib64 libx32; do
        [ ! -L "$lab_root/$name" ] || printf '%s\t%s\n' "$name" "$(readlink "$lab_root/$name")"
    done
}

# What programs look up in /etc, by name. No shadow, no keys, no certificates.
readonly kEtcNames="passwd group nsswitch.conf ld.so.cache ld.so.conf ld.so.conf.d protocols
    services libibverbs.d rdma alternatives dat.conf libnl-3 iproute2 ethertypes networks
    localtime timezone debian_version os-release rpc sluice ssl/openssl.cnf"

# stage_etc DIR
stage_etc() {
    local dir=$1 name names=()
    mkdir -p "$dir"
    for name in $kEtcNames; do
        [ ! -r "$lab_root/etc/$name" ] || names+=("$name")
    done
    # What can't be read is left out.
    (cd "$lab_root/etc" && cp -rP --parents --preserve=mode -t "$dir" "${names[@]}" 2>/dev/null) || true
    printf 'lab\n' >"$dir/hostname"
    printf '127.0.0.1 localhost lab\n::1 localhost\n' >"$dir/hosts"
    [ -e "$dir/passwd" ] || printf 'root:x:0:0:root:/root:/bin/bash\n' >"$dir/passwd"
    [ -e "$dir/group" ] || printf 'root:x:0:\n' >"$dir/group"
}

# The caller's variables that reach the command, NUL-separated.
readonly kEnvNames='SLUICE_|RDMAV_|IBV_|DAT_|MLX5_|MLX4_|CMOCKA_|(ASAN|TSAN|UBSAN|LSAN)_OPTIONS='
passed_env() {
    env -0 | grep -zE "^($kEnvNames)" || true
}
