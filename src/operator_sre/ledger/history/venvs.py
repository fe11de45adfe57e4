"""Which commands of Python ran without a virtual environment."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

from operator_protocols.domain.command import Attempt

__all__ = ["VenvViolation", "needs_venv", "venv_of", "venv_violations"]

_SYSTEM = {"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}
_PYTHON = re.compile(r"(?:pip|python)[0-9.]*")
_APART = re.compile(r"[;&|\n()]+")
_BEFORE = {"sudo", "env", "command", "exec", "nice", "nohup", "time"}
# They look and change nothing, or make the environment that is wanted.
_HARMLESS = {"--version", "-V", "--help", "-h"}


@dataclass(frozen=True, slots=True)
class VenvViolation:
    """A command of Python that ran outside of any environment, and how to do it right."""

    attempt: Attempt
    program: str
    advice: str


def venv_violations(attempts: Iterable[Attempt]) -> list[VenvViolation]:
    """The attempts that ran without an environment, in the given order."""
    return [
        VenvViolation(attempt, program, f"Run it as .venv/bin/{program}, or activate one first.")
        for attempt in attempts
        if attempt.outcome not in {"", "refused"} and not venv_of(attempt)
        if (program := needs_venv(attempt.command))
    ]


def venv_of(attempt: Attempt) -> str:
    """The environment it ran in: as recorded, or as its command line names one; '' for none."""
    if attempt.venv:
        return attempt.venv
    for words in _segments(attempt.command):
        if words[0] in {"source", "."} and words[-1].endswith("/bin/activate"):
            return words[-1].removesuffix("/bin/activate")
        folder, program = posixpath.split(words[0])
        inside = posixpath.basename(folder) == "bin" and folder not in _SYSTEM
        if inside and _PYTHON.fullmatch(program):
            return posixpath.dirname(folder)
    return ""


def needs_venv(command: str) -> str:
    """The program in a command line that should run in an environment; '' when none does."""
    for words in _segments(command):
        program = posixpath.basename(words[0])
        makes_one = words[1:3] == ["-m", "venv"]
        if _PYTHON.fullmatch(program) and not makes_one and not _HARMLESS & set(words[1:]):
            return program
    return ""


def _segments(command: str) -> Iterable[list[str]]:
    """The words of each command in a line, without what merely stands before the program."""
    for part in _APART.split(command):
        words = part.split()
        while words and (words[0] in _BEFORE or re.match(r"\w+=", words[0])):
            words.pop(0)
        if words:
            yield words
