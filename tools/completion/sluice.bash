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
        'check --json' | 'check --suppressions' | 'check --timeline' | 'check --timeline-json' | 'trace --json' | 'trace --html' | 'trace -o' | 'persist --file')
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            ;;
        *' --name' | *' --interval' | *' --iterations' | *' --hosts' | *' --seed' | *' --evict' | *' --timeout') ;;
        *' --check') mapfile -t COMPREPLY < <(compgen -c -- "$word") ;;
        *' --cut' | *' --outcome' | *' --outcomes') ;;
        *' --ranks' | *' --exit-code' | *' --limit' | *' --queue-pair' | *' --events' | *' --timeline-events') ;;
        *) return 1 ;;
    esac
}

# An IPv6 address is one word to us, and several to bash, which breaks lines at colons: sets _sluice_line and _sluice_at, as
# COMP_WORDS and COMP_CWORD, but with such words put together, and _sluice_places, where each of them begins there.
_sluice_join() {
    local i space rest=$COMP_LINE
    _sluice_line=() _sluice_places=() _sluice_at=0
    for ((i = 0; i < ${#COMP_WORDS[@]}; ++i)); do
        space=${rest%%[![:space:]]*}
        rest=${rest#"$space"}
        rest=${rest#"${COMP_WORDS[i]}"}
        if [[ $i -gt 0 && -z $space && $COMP_WORDBREAKS = *:* && ${_sluice_line[-1]: -1}${COMP_WORDS[i]:0:1} = *:* ]]; then
            _sluice_line[-1]+=${COMP_WORDS[i]}
        else
            _sluice_line+=("${COMP_WORDS[i]}")
            _sluice_places+=("$i")
        fi
        if ((i == COMP_CWORD)); then _sluice_at=$((${#_sluice_line[@]} - 1)); fi
    done
}

# Bash puts what is offered behind the last colon of WORD.
_sluice_cut() {
    local i begin=${1%"${1##*:}"}
    if [[ $COMP_WORDBREAKS = *:* && -n $begin ]]; then
        for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$begin"}; done
    fi
}

_sluice() {
    local -a _sluice_line _sluice_places
    local _sluice_at
    _sluice_join
    if _sluice_complete; then
        _sluice_cut "${_sluice_line[_sluice_at]}"
    fi
}

# False: what is offered is another command's.
_sluice_complete() {
    local word=${_sluice_line[_sluice_at]} before=${_sluice_line[_sluice_at - 1]} command='' subcommand='' kind='' i
    local program=${_sluice_line[0]} common="--json --wide --color --root --help" words=''
    COMPREPLY=()
    for ((i = 1; i < _sluice_at; ++i)); do
        case ${_sluice_line[i]} in
            --root | --color | --name | --api | --device | --pid | --interval | --iterations | --hosts | --seed) i=$((i + 1)) ;;
            --evict | --timeout | --ranks | --suppressions | --exit-code | --limit | --queue-pair | --events | -o) i=$((i + 1)) ;;
            --file | --check | --cut | --outcome | --outcomes) i=$((i + 1)) ;;
            --timeline | --timeline-json | --timeline-events) i=$((i + 1)) ;;
            --json) if [[ $command = @(check|trace) ]]; then i=$((i + 1)); fi ;;
            --html) if [ "$command" = trace ]; then i=$((i + 1)); fi ;;
            --)
                # From here on it is the command's own line.
                if [[ $command = @(run|doctor|check|trace) || "$command $subcommand" = @(sync|persist)" run" ]]; then
                    _command_offset $((_sluice_places[i] + 1)) 2>/dev/null || mapfile -t COMPREPLY < <(compgen -c -- "$word")
                    return 1
                fi
                ;;
            -*) ;;
            *)
                if [ -z "$command" ]; then
                    command=${_sluice_line[i]}
                elif [ -z "$subcommand" ]; then
                    subcommand=${_sluice_line[i]}
                fi
                ;;
        esac
    done
    if _sluice_value "$program" "$command" "$before" "$word"; then
        return 0
    fi
    case $command in
        '') words="devices info dat provider config doctor uroce stat top run check trace sync persist --version $common" ;;
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
        persist)
            case $subcommand in
                '') words="run --help" ;;
                run) words="--file --check --every-step --cut --outcome --outcomes --seed --no-ddio --timeout --help -- " ;;
            esac
            ;;
        run) words="--device --local --shared-heap --pair --ranks --timeout --help -- " ;;
        check)
            words="--quick --every-request --pedantic --json --suppressions --exit-code --limit"
            words="$words --timeline --timeline-json --timeline-events --help -- "
            ;;
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
    return 0
}

complete -F _sluice sluice
