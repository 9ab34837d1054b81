# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# bash completion for sluice(1)
#
# Names of devices and adapters are other people's text. They never go through `compgen -W`, which expands
# what it is given, as the shell expands a command line.

# Offers the names of KIND that begin with WORD, as one has to type them. The command says nothing but names.
_sluice_names() {
    local program=$1 kind=$2 word=$3 name typed
    while IFS= read -r name; do
        printf -v typed %q "$name"
        if [[ $name = "$word"* || $typed = "$word"* ]]; then
            COMPREPLY+=("$typed")
        fi
    done < <("$program" complete-names "$kind" 2>/dev/null </dev/null)
}

# What stands behind the option before the cursor; false: it takes nothing, or nothing that is known.
_sluice_value() {
    local program=$1 command=$2 option=$3 word=$4
    case "$command $option" in
        *' --root') mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
        *' --color') mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$word") ;;
        'stat --device' | 'top --device') _sluice_names "$program" counted "$word" ;;
        *' --device') mapfile -t COMPREPLY < <(compgen -W "rxe uroce" -- "$word") ;;
        *' --pid') _sluice_names "$program" processes "$word" ;;
        *' --api') mapfile -t COMPREPLY < <(compgen -W "1 2" -- "$word") ;;
        'check --json' | 'check --suppressions' | 'trace --json' | 'trace --html' | 'trace -o') mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
        *' --name' | *' --interval' | *' --iterations' | *' --hosts' | *' --seed' | *' --evict' | *' --timeout') ;;
        *' --ranks' | *' --exit-code' | *' --limit' | *' --queue-pair' | *' --events') ;;
        *) return 1 ;;
    esac
}

_sluice() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' subcommand='' kind='' i
    local program=${COMP_WORDS[0]} common="--json --wide --color --root --help" words=''
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; ++i)); do
        case ${COMP_WORDS[i]} in
            --root | --color | --name | --api | --device | --pid | --interval | --iterations | --hosts | --seed) i=$((i + 1)) ;;
            --evict | --timeout | --ranks | --suppressions | --exit-code | --limit | --queue-pair | --events | -o) i=$((i + 1)) ;;
            --json) if [[ $command = @(check|trace) ]]; then i=$((i + 1)); fi ;;
            --html) if [ "$command" = trace ]; then i=$((i + 1)); fi ;;
            --)
                # From here on it is the command's own line.
                if [[ $command = @(run|doctor|check|trace) || "$command $subcommand" = "sync run" ]]; then
                    _command_offset $((i + 1)) 2>/dev/null || mapfile -t COMPREPLY < <(compgen -c -- "$word")
                    return
                fi
                ;;
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
    if _sluice_value "$program" "$command" "$before" "$word"; then
        return
    fi
    case $command in
        '') words="devices info dat provider config doctor uroce stat top run check trace sync --version $common" ;;
        info) kind=devices words=$common ;;
        dat)
            words=$common
            case $subcommand in
                '') words="list check register unregister $common" ;;
                check) kind=adapters ;;
                register) kind=devices words="--name --api $common" ;;
                unregister) kind=registered words="--api $common" ;;
            esac
            ;;
        doctor) words="-- $common" ;;
        stat) words="--device --pid --queue-pairs --metrics $common" ;;
        top) words="--device --pid --interval --iterations --once --color --help" ;;
        sync)
            case $subcommand in
                '') words="run --help" ;;
                run) words="--hosts --seed --evict --timeout --help -- " ;;
            esac
            ;;
        run) words="--device --local --pair --ranks --timeout --help -- " ;;
        check) words="--quick --pedantic --json --suppressions --exit-code --limit --help -- " ;;
        trace) words="--json --html --events --help -- " ;;
        provider)
            words=$common
            case $subcommand in
                '') words="status enable disable $common" ;;
                enable) words="--force $common" ;;
            esac
            ;;
        uroce)
            words="dump $common"
            if [ "$subcommand" = dump ]; then
                words="--html --queue-pair $common"
                mapfile -t COMPREPLY < <(compgen -f -- "$word")
            fi
            ;;
        *) words=$common ;;
    esac
    if [[ -n $kind && $word != -* ]]; then
        _sluice_names "$program" "$kind" "$word"
    fi
    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _sluice sluice
