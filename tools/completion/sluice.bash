# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# bash completion for sluice(1)

_sluice() {
    local word=${COMP_WORDS[COMP_CWORD]} command='' subcommand='' i
    for ((i = 1; i < COMP_CWORD; ++i)); do
        case ${COMP_WORDS[i]} in
            --root | --name | --pid | --interval | --iterations | --hosts | --seed | --evict | --timeout | --suppressions | --exit-code | --limit | --queue-pair) i=$((i + 1)) ;;
            --json) if [ "$command" = check ]; then i=$((i + 1)); fi ;;
            -*) ;;
            *)
                if [ -z "$command" ]; then
                    command=${COMP_WORDS[i]}
                elif [ -z "$subcommand" ]; then
                    subcommand=${COMP_WORDS[i]}
                fi
                ;;
        esac
    done
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; ++i)); do
        if [[ $command = run || $command = doctor || $command = check || "$command $subcommand" = "sync run" ]] && [ "${COMP_WORDS[i]}" = -- ]; then
            # From here on it is the command's own line.
            _command_offset $((i + 1)) 2>/dev/null || mapfile -t COMPREPLY < <(compgen -c -- "$word")
            return
        fi
    done
    if [ "${COMP_WORDS[COMP_CWORD - 1]}" = --device ] && [[ $command != @(stat|top) ]]; then
        mapfile -t COMPREPLY < <(compgen -W "rxe uroce" -- "$word")
        return
    fi
    if [ "${COMP_WORDS[COMP_CWORD - 1]}" = --root ]; then
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        return
    fi
    if [[ $command = check && ${COMP_WORDS[COMP_CWORD - 1]} = @(--json|--suppressions) ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
    fi
    local words="--json --root --help" devices
    devices=$(command ls /sys/class/infiniband 2>/dev/null || true)
    case $command in
        '') words="devices info dat provider config doctor uroce stat top run check sync --version $words" ;;
        info) words="$devices $words" ;;
        dat)
            case $subcommand in
                '') words="list check register unregister $words" ;;
                register) words="$devices --name --api $words" ;;
                unregister) words="--api $words" ;;
            esac
            ;;
        doctor) words="-- $words" ;;
        stat) words="--device --pid --queue-pairs --metrics $words" ;;
        top) words="--device --pid --interval --iterations --once --help" ;;
        sync)
            case $subcommand in
                '') words="run --help" ;;
                run) words="--hosts --seed --evict --timeout --help -- " ;;
            esac
            ;;
        run) words="--device --local --pair --ranks --timeout --help -- " ;;
        check) words="--quick --pedantic --json --suppressions --exit-code --limit --help -- " ;;
        provider)
            case $subcommand in
                '') words="status enable disable $words" ;;
                enable) words="--force $words" ;;
            esac
            ;;
        uroce)
            if [ "$subcommand" = dump ]; then
                mapfile -t COMPREPLY < <(compgen -f -W "--html --queue-pair $words" -- "$word")
                return
            fi
            words="dump $words"
            ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _sluice sluice
