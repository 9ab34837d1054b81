# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154  # the other variables are those of scripts/bench
#
# A benchmark of two builds, in turns.

# other_source WHAT DIR: the other build's sources: this tree's for options of CMake, else a commit's, below DIR.
other_source() {
    [[ $1 != -D* ]] || { printf '%s' "$sluice_root" && return; }
    mkdir -p "$2/source"
    git archive "$1" | tar -x -C "$2/source"
    printf '%s' "$2/source"
}

# build_other WHAT NAME SOURCE TREE
build_other() {
    local options=()
    [[ $1 != -D* ]] || read -ra options <<<"$1"
    cd "$3" && cmake --preset release -B "$4" "${options[@]}" && cmake --build "$4" --target "bench_$2"
}

# in_turns TURNS DIR THIS OTHER: what each has measured, in DIR. The order changes with the turn.
in_turns() {
    local turns=$1 dir=$2 turn who order
    local -A program=([this]=$3 [other]=$4 [again]=$4)
    for ((turn = 1; turn <= turns; turn++)); do
        order=(this other again)
        [ $((turn % 2)) -eq 1 ] || order=(again other this)
        for who in "${order[@]}"; do
            with_progress "turn $turn of $turns, $who" "$dir/$who.$turn.log" \
                "${program[$who]}" "${quick[@]}" --json "$dir/$who.$turn.json"
        done
    done
}

# resolve_other WHAT: prints options of CMake as they are, and the number of a commit; fails for anything else.
resolve_other() {
    if [[ $1 = -D* ]]; then
        printf '%s' "$1"
    else
        git -C "$sluice_root" rev-parse --verify --quiet "$1^{commit}"
    fi
}

# bench_against WHAT NAME THIS TURNS JSON
bench_against() {
    local what=$1 name=$2 this=$3 turns=$4 json=$5 dir tree source
    dir=$sluice_root/build/against/$(printf '%s' "$what" | sha256sum | cut -c 1-12)
    tree=$dir/build
    mkdir -p "$dir"
    source=$(other_source "$what" "$dir")
    with_progress "build bench_$name of $what" "$dir/$name.build.log" build_other "$what" "$name" "$source" "$tree"
    rm -f "$dir"/{this,other,again}.*
    in_turns "$turns" "$dir" "$this" "$tree/tests/bench/bench_$name"
    PYTHONDONTWRITEBYTECODE=1 python3 scripts/lib/bench/against.py "$dir" ${json:+--json "$json"}
}
