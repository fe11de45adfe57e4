"""The rules of a rig's links: between whom nothing passes, and who has to wait for how long.

They are written by the lab into one file. A signal lets the process that holds the links read
it, and that process writes the applied rules into another file.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from operator_lab.manifest import LINKS, own_home
from operator_protocols.errors import RigError
from operator_sre.processes.files import write_atomically

__all__ = [
    "EVERYBODY",
    "Rule",
    "Rules",
    "change_rules",
    "read_applied",
    "read_rules",
    "write_applied",
]

EVERYBODY = "*"
RULES_FILE = "rules.json"
APPLIED_FILE = "applied.json"


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds between a target and one other, or EVERYBODY, whichever of them called."""

    target: str
    other: str = EVERYBODY
    cut: bool = False
    delay_s: float = 0.0
    loss: float = 0.0  # the share of messages that are lost and must be sent again

    def holds(self, source: str, destination: str) -> bool:
        """Whether it is about a connection between these two; "" is an unknown peer."""
        ends = {source, destination}
        if self.other == EVERYBODY:
            return self.target in ends
        return ends == {self.target, self.other}

    def about(self, target: str, others: tuple[str, ...]) -> bool:
        """Whether it is between a target and one of these others; without others, anybody."""
        if not others:
            return target in (self.target, self.other)
        return any({target, other} == {self.target, self.other} for other in others)


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of a rig; the number grows with every change."""

    number: int = 0
    rules: tuple[Rule, ...] = ()

    def between(self, source: str, destination: str) -> tuple[bool, float]:
        """Whether nothing passes, and the delay of what does."""
        found = [rule for rule in self.rules if rule.holds(source, destination)]
        delay_s = max((rule.delay_s for rule in found), default=0.0)
        return any(rule.cut for rule in found), delay_s

    def loss(self, source: str, destination: str) -> float:
        """The share of messages between them that are lost."""
        found = (rule.loss for rule in self.rules if rule.holds(source, destination))
        return max(found, default=0.0)

    def of(self, target: str) -> tuple[Rule, ...]:
        """The rules about a target."""
        return tuple(rule for rule in self.rules if rule.about(target, ()))


def read_rules(directory: Path) -> Rules:
    """The wanted rules; none without a file."""
    return _read(own_home(directory, LINKS) / RULES_FILE) or Rules()


def read_applied(directory: Path) -> Rules | None:
    """What holds; None when the links are not laid."""
    return _read(own_home(directory, LINKS) / APPLIED_FILE)


def write_applied(directory: Path, rules: Rules) -> None:
    """Say what holds now."""
    write_atomically(own_home(directory, LINKS) / APPLIED_FILE, json.dumps(asdict(rules)))


def change_rules(directory: Path, change: Callable[[tuple[Rule, ...]], tuple[Rule, ...]]) -> Rules:
    """Change what is to hold, one change at a time; returns what was written."""
    home = own_home(directory, LINKS)
    with _alone_in(home):
        before = read_rules(directory)
        after = Rules(before.number + 1, change(before.rules))
        write_atomically(home / RULES_FILE, json.dumps(asdict(after)))
    return after


@contextmanager
def _alone_in(home: Path) -> Iterator[None]:
    handle = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _read(path: Path) -> Rules | None:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return Rules(int(record["number"]), tuple(Rule(**each) for each in record["rules"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise RigError(f"The rules of the links cannot be read: {problem}.") from problem
