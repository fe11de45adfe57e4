"""Commands of a description: where they run, and whether they may."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from operator_protocols.domain.action import Action
from operator_protocols.domain.target import Target
from operator_protocols.domain.verdict import Level
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Shell, SubjectSettings
from operator_sre.subjects.declarative.document import Table

__all__ = ["BUILT_IN_BLANKS", "Command", "Placing", "locate", "read_command", "refusal"]

WORDS_MAX = 100
# What every command knows of the target it is for.
BUILT_IN_BLANKS = ("target", "host", "port")


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
        made = Action.program(words) if words else Action.shell(self.line)
        here = not target.runs_at
        return replace(
            made,
            target=target.name,
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


async def locate(action: Action, target: Target, shell: Shell) -> Action:
    """The action with the place it is meant for, where that is not this machine."""
    if not target.runs_at or not isinstance(shell, Placing):
        return action
    return replace(action, place=await shell.identify(target.name))


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
    for blank in known:
        if any(f"{{{blank}}}" in word and f"{{{blank}}}" != word for word in words):
            raise table.wrong(f"{{{blank}}} must be a whole word.", key)
    return Command(argv=words, cwd=cwd, passes=passes)


# What a shell that cannot be reached raises.
UNREACHABLE = (OperatorError, OSError)
