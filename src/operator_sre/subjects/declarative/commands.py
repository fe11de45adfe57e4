"""Commands of a description: where they run, and whether they may."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from operator_protocols.domain.action import Action
from operator_protocols.domain.target import Target
from operator_protocols.domain.verdict import Level
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Shell, SubjectSettings
from operator_sre.subjects.declarative.document import Table, nearest

__all__ = ["BUILT_IN_BLANKS", "HERE", "Command", "Placing", "locate", "read_command", "refusal"]

WORDS_MAX = 100
# What every command knows of the target it is for.
BUILT_IN_BLANKS = ("target", "host", "port")
# This machine, as shells and descriptions name it.
HERE = "local"
# A word in braces; in two pairs of them it is a template of another program.
_BLANK = re.compile(r"(?<![{$])\{([A-Za-z][A-Za-z0-9_]*)\}(?!\})")


@runtime_checkable
class Placing(Protocol):
    """A shell that can tell where the commands of a target run now."""

    async def identify(self, target: str) -> str:
        """What names that place, as long as it is the same one."""
        ...


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its words, or a line for the shell. `cwd` counts where it runs here."""

    argv: tuple[str, ...] = ()
    line: str = ""
    cwd: str = "/"
    passes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.line or shlex.join(self.argv)

    def action(self, target: Target, given: Mapping[str, str] | None = None) -> Action:
        """What is run for one target. Every value fills a word or a part of one, never a line."""
        values = {
            "target": target.name,
            "host": target.host,
            "port": "" if target.port is None else str(target.port),
            **(given or {}),
        }
        words = []
        for word in self.argv:
            for name, value in values.items():
                if word == f"{{{name}}}":
                    word = value
                    break
                if name in BUILT_IN_BLANKS:
                    word = word.replace(f"{{{name}}}", value)
            words.append(word)
        return self.at(Action.program(words) if words else Action.shell(self.line), target)

    def at(self, action: Action, target: Target | None) -> Action:
        """The action where a target runs, or on this machine."""
        here = target is None or not target.runs_at
        return replace(
            action,
            target="" if target is None else target.name,
            cwd=self.cwd if here else "/",
            passes=self.passes if here else (),
        )


def refusal(action: Action, settings: SubjectSettings, *, reviewed: bool) -> str:
    """Why a command is not run, or "". A command that the gate blocks never runs, even after a
    review.
    """
    if settings.judge is None:
        return "" if reviewed else "no gate is available to judge its command"
    verdict = settings.judge(action)
    if verdict.level is Level.BLOCKED:
        return f"the gate blocks its command: {verdict.explanation}"
    if verdict.level is Level.SAFE or reviewed:
        return ""
    return (
        f"the gate does not judge its command SAFE ({verdict.explanation.rstrip('.')});"
        " add 'reviewed: true' if it changes nothing"
    )


async def locate(action: Action, shell: Shell) -> Action:
    """The action with the place it is meant for, where that is not this machine."""
    if not action.target or not isinstance(shell, Placing):
        return action
    place = await shell.identify(action.target)
    return action if place == HERE else replace(action, place=place)


def find_unknown_blank(text: str, valid: Sequence[str]) -> str:
    """The first word in braces that nothing fills, or ""."""
    return next((word for word in _BLANK.findall(text) if word not in valid), "")


def read_command(table: Table, folder: str, key: str, *, known: Sequence[str] = ()) -> Command:
    """The command under a key: a list of words, or a text for the shell."""
    node = table.node(key)
    if node is None or node.value in (None, "", []):
        raise table.wrong(f"{table.place} needs {key!r}.", key)
    passes = table.texts("passes")
    cwd = table.text("directory") or folder
    if not cwd.startswith("/"):
        cwd = f"{folder}/{cwd}"
    if isinstance(node.value, str):
        for blank in (*BUILT_IN_BLANKS, *known):
            if f"{{{blank}}}" in node.value:
                raise table.wrong(
                    f"{{{blank}}} is not allowed in a shell line.",
                    key,
                    next_step="Write the command as a list of words.",
                )
        return Command(line=table.text(key), cwd=cwd, passes=passes)
    words = table.texts(key)
    if len(words) > WORDS_MAX or not words[0]:
        raise table.wrong(f"{key!r} of {table.place} is not a valid command.", key)
    valid = (*BUILT_IN_BLANKS, *known)
    if unknown := next(filter(None, (find_unknown_blank(word, valid) for word in words)), ""):
        raise table.wrong(
            f"{{{unknown[:40]}}} in {key!r} of {table.place} is not known.",
            key,
            next_step=f"{nearest(unknown, valid)} Braces that are meant need a space: {{ print }}.",
        )
    for blank in known:
        if any(f"{{{blank}}}" in word and f"{{{blank}}}" != word for word in words):
            raise table.wrong(f"{{{blank}}} must be a whole word.", key)
    return Command(argv=words, cwd=cwd, passes=passes)


# What a shell that cannot be reached raises.
UNREACHABLE = (OperatorError, OSError)
