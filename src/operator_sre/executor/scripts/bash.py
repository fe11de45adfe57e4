"""What a bash script may not run, found in its commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from operator_sre.executor.scripts.bash_reader import Command, TooDeep, Word, commands_of
from operator_sre.executor.scripts.flaws import Flaw, Layer

__all__ = ["dangers_of_bash"]

_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?\+?=")
_SHELLS = frozenset({"ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "zsh"})
_INTERPRETERS = _SHELLS | {"node", "perl", "php", "python", "python2", "python3", "ruby"}
# Programs that run the rest of their words, and how many words of their own come first.
_WRAPPERS = {
    **dict.fromkeys(("builtin", "command", "env", "exec", "ionice", "nice", "nohup", "setsid"), 0),
    **dict.fromkeys(("stdbuf", "sudo", "time", "xargs", "busybox", "doas", "then"), 0),
    "timeout": 1,
}
_RUNS_WORDS = frozenset({"trap", "alias", "bind", "mapfile", "readarray", "complete"})
# Variables by which bash runs or loads something by itself.
_RUN_BY_ITSELF = frozenset(
    {"BASH_ENV", "ENV", "IFS", "LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PS0", "PS1"}
    | {"PS4", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS"}
)


def dangers_of_bash(text: str) -> Iterator[Flaw]:
    """Every place that runs what cannot be read in the script itself."""
    try:
        commands = commands_of(text)
    except (TooDeep, RecursionError):
        yield Flaw(Layer.DANGEROUS, "it is nested too deeply to be checked.")
        return
    for command in commands:
        for sentence in _sentences(command):
            yield Flaw(Layer.DANGEROUS, sentence, command.line)


def _sentences(command: Command) -> Iterator[str]:
    if command.prompted:
        yield "`${name@P}` runs the content of a variable."
    words = list(command.words)
    while words and (found := _ASSIGNMENT.match(words[0].text)):
        if found["name"] in _RUN_BY_ITSELF:
            yield f"`{found['name']}` determines which code runs."
        words.pop(0)
    # Without what only runs the rest: `command env -i nice -n 5 eval` is `eval`.
    while words and not words[0].dynamic:
        own = _WRAPPERS.get(words[0].text.rpartition("/")[2])
        if own is None:
            break
        rest = words[1:]
        while rest and (rest[0].text.startswith("-") or _is_own(rest[0], words[0])):
            rest = rest[1:]
        if not rest[own:]:
            break
        words = rest[own:]
    if not words:
        return
    first, rest = words[0], words[1:]
    name = first.text.rpartition("/")[2]
    if first.dynamic:
        yield "the command is known only at run time; write it out."
    elif name == "eval":
        yield "`eval` runs code that is not in the script."
    elif name in ("source", ".") and (not rest or rest[0].dynamic or "/dev/" in rest[0].text):
        yield f"`{name}` runs a file that is known only at run time."
    elif name == "enable" and any(word.text.startswith("-f") for word in rest):
        yield "`enable -f` loads code into the shell."
    elif name in ("export", "declare", "typeset", "local", "readonly"):
        for word in rest:
            found = _ASSIGNMENT.match(word.text)
            if found and found["name"] in _RUN_BY_ITSELF:
                yield f"`{found['name']}` determines which code runs."
    elif name in _RUNS_WORDS and any(word.dynamic for word in rest):
        yield f"`{name}` stores commands that are not in the script."
    elif name in _INTERPRETERS:
        # An interpreter may run what is written here, never what comes from elsewhere.
        options = [word for word in rest if word.text.startswith("-") and not word.dynamic]
        files = [word for word in rest if word not in options]
        if command.piped and not files:
            yield f"a pipe into `{name}` runs code that another program writes."
        elif command.fed and not files:
            yield f"`{name}` runs the text on its standard input; write the commands out."
        elif files and (files[0].dynamic or files[0].text.startswith(("/dev/", "/proc/"))):
            yield f"`{name}` runs code that is known only at run time."
        elif files and name in _SHELLS and any("c" in word.text.lstrip("-") for word in options):
            yield from (flaw.sentence for flaw in dangers_of_bash(files[0].text))


def _is_own(word: Word, wrapper: Word) -> bool:
    """An assignment behind `env`, or the number behind an option."""
    numeric = word.text.replace(".", "").isdigit() and wrapper.text != "timeout"
    return not word.dynamic and (bool(_ASSIGNMENT.match(word.text)) or numeric)
