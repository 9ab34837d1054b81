# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# bash completion for sluice-lab(1)

_sluice_lab() {
    local word=${COMP_WORDS[COMP_CWORD]} i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; ++i)); do
        case ${COMP_WORDS[i]} in
            --arch | --kernel | --device | --hosts | --net | --cpus | --export | --timeout) i=$((i + 1)) ;;
            --)
                # From here on it is the command's own line.
                _command_offset $((i + 1)) 2>/dev/null || mapfile -t COMPREPLY < <(compgen -c -- "$word")
                return
                ;;
        esac
    done
    local words="--arch --kernel --device --hosts --net --cpus --pmem --export --timeout --keep --quiet --warm --print-root --clean-cache --help --"
    case ${COMP_WORDS[COMP_CWORD - 1]} in
        --arch) words="x86_64 aarch64" ;;
        --kernel) words="6.1 6.12" ;;
        --device) words="rxe siw pvrdma none" ;;
        --hosts | --cpus) words="1 2" ;;
        --net | --timeout) return ;;
        --export)
            mapfile -t COMPREPLY < <(compgen -d -- "$word")
            return
            ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _sluice_lab sluice-lab
