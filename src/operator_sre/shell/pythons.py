"""Which program of a command line needs a virtual environment, and which one the line names."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator, Sequence

from operator_sre.shell.line import COMMAND_BYTES_MAX, UNCLOSED, parse

__all__ = ["SYSTEM_FOLDERS", "needs_venv", "venv_in"]

_PROGRAM = re.compile(r"(python|pip)[0-9.]*")
SYSTEM_FOLDERS = {"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}
# What stands before a program and starts it, with those of its options that take a value.
_STARTS = {
    **dict.fromkeys(("command", "exec", "nohup", "setsid", "stdbuf", "time"), frozenset[str]()),
    "env": frozenset({"-u", "-C"}),
    "nice": frozenset({"-n"}),
    "sudo": frozenset({"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U", "-r", "-t"}),
}
_ASSIGNMENT = re.compile(r"\w+=")
# They look and change nothing.
_LOOKS = {"--version", "-V", "-VV", "--help", "-h", "--help-all", "--help-env", "--help-xoptions"}
_CHANGES = {"install", "uninstall"}
_VALUED = {"-W", "-X", "--check-hash-based-pycs"}


def needs_venv(line: str) -> str:
    """The program in a line that should run in an environment, as it is called; "" for none.

    A line that is not understood needs none.
    """
    if not _PROGRAM.search(line):
        return ""
    for words in _commands(line):
        if words[0] in {"source", "."} and words[-1].endswith("/activate"):
            return ""
        folder, _, name = words[0].rpartition("/")
        program = _PROGRAM.fullmatch(name)
        if not program or (folder and folder not in SYSTEM_FOLDERS):
            continue  # not Python's, or that of an environment
        is_used = _is_used_pip if program[1] == "pip" else _is_used_python
        if is_used(words[1:]):
            return name
    return ""


def venv_in(line: str) -> str:
    """The environment that a line activates or takes its program from; "" for none."""
    for words in _commands(line):
        if words[0] in {"source", "."} and words[-1].endswith("/bin/activate"):
            return words[-1].removesuffix("/bin/activate")
        folder, program = posixpath.split(words[0])
        inside = posixpath.basename(folder) == "bin" and folder not in SYSTEM_FOLDERS
        if inside and _PROGRAM.fullmatch(program):
            return posixpath.dirname(folder)
    return ""


def _commands(line: str) -> Iterator[list[str]]:
    """The words of each command in a line, without what merely starts the program."""
    script = parse(line)
    if len(line) > COMMAND_BYTES_MAX or script.trouble == UNCLOSED:
        return
    for simple in script.commands:
        if any(name == "PATH" for name, _ in simple.assignments):
            continue  # it is unknown whose program that is
        words = _strip_starters(simple.argv)
        if words:
            yield words


def _strip_starters(words: Sequence[str]) -> list[str]:
    """What is left when everything that stands before a program is taken away."""
    rest = list(words)
    while rest and (rest[0] in _STARTS or _ASSIGNMENT.match(rest[0])):
        first = rest.pop(0)
        if first.startswith("PATH="):
            return []  # it is unknown whose program that is
        while rest and rest[0].startswith("-") and first in _STARTS:
            option = rest.pop(0)
            if option in _STARTS[first] and rest:
                rest.pop(0)
    return rest


def _is_used_pip(words: Sequence[str]) -> bool:
    return bool(_CHANGES & set(words)) and not _LOOKS & set(words)


def _is_used_python(words: Sequence[str]) -> bool:
    """It runs a script, a line, or a module that is not Python's own."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option = rest.pop(0)
        if option in _LOOKS:
            return False
        if option in _VALUED:
            rest = rest[1:]
        elif not option.startswith("--") and "m" in option:
            glued = option.partition("m")[2]
            module_words = [glued, *rest] if glued else rest
            if not module_words:
                return False
            if module_words[0] == "pip":
                return _is_used_pip(module_words[1:])
            return (
                module_words[0] != "virtualenv"
                and module_words[0].partition(".")[0] not in sys.stdlib_module_names
            )
        elif not option.startswith("--") and "c" in option:
            return True
    return True
