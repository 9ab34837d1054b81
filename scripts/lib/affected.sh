# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Which labels and tests a change can affect, for scripts/test --changed. The build tree knows which program is made
# from which source. What it doesn't know stands in labels_for: a file that isn't found there runs all of the day.

# labels_for FILE: the labels that it affects as a whole, and words for the rest:
#   programs    of unit, programs, asan, tsan, cross, load and lab the tests whose programs depend on it
#   product     the same, and each test of these that is a script
#   everything  nothing is known: all labels of the day
labels_for() {
    local file=$1
    if [ ! -e "$file" ]; then
        case $file in
            debian/* | rpm/* | docs/man/* | */include/*.h | *.map) say everything packages ;;
            *) say everything ;;
        esac
        return
    fi
    case $file in
        docs/*.md | examples/*.md | README.md | scripts/site | scripts/lib/site/* | tests/site/*) say install ;;
        *.md | LICENSE | .clang-format | .clang-tidy) ;;
        docs/man/*) say install packages ;;
        ci/wheel/* | tests/python/*) say install ;;
        ci/reliability/*) say scripts ;;
        debian/* | rpm/*) say install packages scripts ;;
        ci/*) say packages scripts ;;
        scripts/bench | scripts/check | scripts/coverage | scripts/demo | scripts/reliability | scripts/soak | scripts/test) say scripts ;;
        scripts/release) say packages scripts ;;
        scripts/lib/demo/* | docs/pictures/*) say scripts ;;
        scripts/lib/lab/unpacked.sh) say product clients scripts ;;
        scripts/lab | scripts/lib/lab/*) say lab packages scripts ;;
        tests/scripts/*) say scripts ;;
        tests/memcheck/*) say memcheck ;;
        tests/mutation/*) say mutation ;;
        tests/install/*) say install packages ;;
        tests/packages/*) say install packages ;;
        tests/clients/ports/*) say ports ;;
        tests/clients/*) say clients ;;
        tests/udapl/*) say ports ;;
        scripts/lib/bench/* | tests/seen/* | tools/*.css | tools/*.html | tools/*.js) say seen ;;
        tests/fuzz/*) say programs fuzz ;;
        tests/lab/expect.sh) say everything ;;
        tests/lab/*) say lab ;;
        tests/bench/program_output.*) say install programs ;;
        tests/bench/*) say install ;;
        tests/soak/run | tests/soak/answers) say load ;;
        tests/*.c | tests/*.cpp | tests/*.h | tests/*.hpp) say programs ;;
        */include/*.h | *.map) say product clients ports seen mutation install packages fuzz lab ;;
        *.c | *.cpp | *.h | *.hpp) say product clients ports seen mutation install fuzz lab ;;
        tests/*) say everything ;;
        CMakeLists.txt | */CMakeLists.txt | cmake/* | provider/config/* | tools/completion/* | tools/forget-*) say everything packages ;;
        *) say everything ;;
    esac
}

# Files that changed since this branch left its upstream, and uncommitted work.
changed_files() {
    local base
    base=$(find_base) && git diff --name-only --no-renames "$base" && git ls-files -o --exclude-standard
}

# choose_by_changes: leaves in `wanted` what the changes affect, names in `whole` the labels that run whole, and in
# `changed_sources` the files for which the build trees know tests. Sets `changed_product`. The label `only_if_chosen` isn't
# part of everything.
# shellcheck disable=SC2034,SC2004,SC2154  # variables of scripts/test; `whole` is one of names
choose_by_changes() {
    local file word label kept=() files everything=no lab_changed=no
    declare -A chosen=()
    files=$(changed_files) || die 1 "git can't tell what changed"
    mapfile -t files < <(sort -u <<<"$files" | sed '/^$/d')
    label=check
    [ "${#files[@]}" -eq 0 ] || chosen[$label]=1
    whole[$label]=1
    changed_product=no
    for file in "${files[@]}"; do
        case $file in scripts/lab | scripts/lib/lab/* | tests/lab/*) lab_changed=yes ;; esac
        for word in $(labels_for "$file"); do
            case $word in
                everything)
                    [ "$everything" = yes ] || say "  nothing is known about $file: all of the day runs"
                    everything=yes
                    ;;
                programs | product)
                    changed_sources+=("$sluice_root/$file")
                    [ "$word" = programs ] || changed_product=yes
                    for label in unit programs asan tsan cross load lab; do chosen[$label]=1; done
                    ;;
                *) chosen[$word]=1 whole[$word]=1 ;;
            esac
        done
    done
    for label in "${wanted[@]}"; do
        if [ "$everything" = yes ] && [ "$label" != "$only_if_chosen" ]; then
            whole[$label]=1
        elif [ -z "${chosen[$label]:-}" ]; then
            continue
        fi
        kept+=("$label")
    done
    wanted=("${kept[@]}")
    [ "$lab_changed" = no ] || say "  the lab has more tests by night: scripts/test lab-long"
}

# What a build tree makes from the files, one path per line. Names of phony targets lie in the tree's own directory.
outputs_from() {
    local tree=$1
    shift
    { ninja -C "$tree" -t deps && printf '== build.ninja\n' && cat "$tree/build.ninja"; } |
        awk -v tree="$sluice_root/$tree" -v changed="$*" '
            function full(path) { return path ~ /^\// ? path : tree "/" path }
            function edge(from, to) { users[full(from)] = users[full(from)] "\n" full(to) }
            /^== build.ninja/ { graph = 1 }
            !graph && /: #deps/ { object = $1; sub(/:$/, "", object) }
            !graph && /^    / { edge(substr($0, 5), object) }
            # The build files themselves are made from lists of sources, and not from what these hold.
            graph && /^build / && !/: RERUN_CMAKE / {
                outputs = inputs = substr($0, 7)
                sub(/: .*/, "", outputs)
                sub(/^[^:]*: [^ ]+/, "", inputs)
                made = split(outputs, output, " ")
                used = split(inputs, input, " ")
                for (i = 1; i <= made; i++) for (k = 1; k <= used; k++) edge(input[k], output[i])
            }
            END {
                waiting = split(changed, queue, " ")
                for (next_one = 1; next_one <= waiting; next_one++) {
                    count = split(users[queue[next_one]], found, "\n")
                    for (i = 1; i <= count; i++) if (found[i] != "" && !(found[i] in seen)) {
                        seen[found[i]]
                        queue[++waiting] = found[i]
                        print found[i]
                    }
                }
            }'
}

# affected_tests TREE OPTIONS PRODUCT FILE...: of the tests that these options of ctest choose, the names of those whose
# command or environment names something that is made from the files, or the files themselves, or a directory with them.
# Fails if there is none.
affected_tests() {
    local tree=$1 options product=$3
    read -r -a options <<<"$2"
    shift 3
    { outputs_from "$tree" "$@" && printf '%s\n' "$@" '== tests' &&
        ctest --test-dir "$tree" "${options[@]}" --show-only=json-v1; } |
        awk -v tree="$sluice_root/$tree" -v product="$product" '
            /^== tests/ { tests = 1 }
            !tests {
                affected[$0]
                # Programs of tests lie in the tree, too: for them, it is not the tree that is affected.
                for (dir = $0; sub(/\/[^\/]*$/, "", dir) && length(dir) > length(tree);) affected[dir]
                if (index($0, tree "/tests/") != 1 && $0 ~ /\.(a|so)$/) affected[tree]
            }
            tests && /^    \{/ { hit = 0; first = "" }
            tests && /^ +"[^"]*",?$/ {
                gsub(/^ +"|",?$/, "")
                if (first == "") first = $0
                count = split($0, word, "[=:;]")
                for (i = 1; i <= count; i++) if (word[i] in affected) hit = 1
            }
            tests && /^      "name" : / { name = $3; gsub(/[",]/, "", name) }
            tests && /^    \}/ && name != "" {
                script = index(first, tree "/") != 1
                if (hit || (script && product == "yes")) { print name; any = 1 }
                name = ""
            }
            END { exit !any }'
}
