# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# bash completion for sluice(1)

_sluice() {
    local word=${COMP_WORDS[COMP_CWORD]} command='' provider_command='' i
    for ((i = 1; i < COMP_CWORD; ++i)); do
        case ${COMP_WORDS[i]} in
            --root) i=$((i + 1)) ;;
            -*) ;;
            *)
                if [ -z "$command" ]; then
                    command=${COMP_WORDS[i]}
                else
                    provider_command=${COMP_WORDS[i]}
                fi
                ;;
        esac
    done
    COMPREPLY=()
    if [ "${COMP_WORDS[COMP_CWORD - 1]}" = --root ]; then
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        return
    fi
    local words="--json --root --help"
    case $command in
        '') words="devices info provider config --version $words" ;;
        info) words="$(command ls /sys/class/infiniband 2>/dev/null) $words" ;;
        provider)
            case $provider_command in
                '') words="status enable disable $words" ;;
                enable) words="--force $words" ;;
            esac
            ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _sluice sluice
