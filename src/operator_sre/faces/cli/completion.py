"""`operator completion`: a script that completes nouns, verbs and options in a shell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.options import JsonOption
from operator_sre.faces.cli.output import print_json, print_lines

__all__ = ["completion", "script_of"]

# Everything is inside of the script, so that nothing needs to be started when a key is pressed.
BASH = """# Completes the words of operator. Use it with: source <(operator completion bash)
_operator_words() {
    case "$1" in
%(cases)s
    *) return 1 ;;
    esac
}

_operator() {
    local node="" one found word="${COMP_WORDS[COMP_CWORD]}"
    for one in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        _operator_words "${node:+$node }$one" > /dev/null && node="${node:+$node }$one"
    done
    found="$(_operator_words "$node")"
    [[ $word == -* ]] && found="$found %(everywhere)s"
    COMPREPLY=($(compgen -W "$found" -- "$word"))
}

complete -o default -F _operator operator
"""
ZSH = """#compdef operator
# Completes the words of operator. Use it with: source <(operator completion zsh)
_operator_words() {
    case "$1" in
%(cases)s
    *) return 1 ;;
    esac
}

_operator() {
    local node="" one
    local -a found
    for one in "${(@)words[2,CURRENT-1]}"; do
        _operator_words "${node:+$node }$one" > /dev/null && node="${node:+$node }$one"
    done
    found=(${=$(_operator_words "$node")})
    [[ $words[CURRENT] == -* ]] && found+=(%(everywhere)s)
    compadd -a found || _files
}

compdef _operator operator
"""
FISH = """# Completes the words of operator. Use it with: operator completion fish | source
function __operator_words
    switch "$argv"
%(cases)s
        case '*'
            return 1
    end
end

function __operator_here
    set -l node
    for one in (commandline -opc)[2..-1]
        if __operator_words $node $one > /dev/null
            set -a node $one
        end
    end
    __operator_words $node
end

function __operator_complete
    __operator_here
    string match -q -- '-*' (commandline -ct); and printf '%%s\\n' %(everywhere)s
end

function __operator_takes_files
    not __operator_here | string match -qr '^[a-z]'
end

complete -c operator -f -a '(__operator_complete)'
complete -c operator -n __operator_takes_files -F
"""
_CASE = """    "{path}") echo "{words}" ;;"""
_FISH_CASE = """        case '{path}'
            printf '%s\\n' {words}"""
SHELLS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def completion(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")], as_json: JsonOption = False
) -> None:
    """Print a completion script for bash, zsh or fish.

    bash: source <(operator completion bash); zsh: source <(operator completion zsh); fish: operator
    completion fish | source. Add that line to your shell's startup file to keep it.
    """
    if shell not in SHELLS:
        raise UsageError(
            f"There is no completion for {shell!r}.", next_step=f"Shells: {', '.join(SHELLS)}."
        )
    script = script_of(shell)
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        print_lines(script.splitlines())


def script_of(shell: str) -> str:
    """The whole script, for the commands that there are."""
    from operator_sre.faces.cli.main import command_line

    root = typer.main.get_command(command_line())
    nodes = dict(_nodes(root, ""))
    everywhere = " ".join([*_options(root), "--help"])
    case = _FISH_CASE if shell == "fish" else _CASE
    cases = "\n".join(case.format(path=path, words=" ".join(at)) for path, at in nodes.items())
    return SHELLS[shell] % {"cases": cases, "everywhere": everywhere}


def _nodes(command: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    """Every place in the tree, and the words that may follow there."""
    inner: Mapping[str, Any] = getattr(command, "commands", {})
    yield path, list(inner) or _options(command)
    for name, inner_command in inner.items():
        yield from _nodes(inner_command, f"{path} {name}".strip())


def _options(command: Any) -> list[str]:
    named = [
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    ]
    return [name for name in named if name.startswith("--")]
