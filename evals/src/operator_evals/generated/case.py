"""A case: one to three primitive faults, and when each is injected. Data, the same for a seed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["WHOLE", "Case", "Injection", "Kind", "Primitive", "Timing", "Value"]

Value = str | int | float | bool
# The link of a part to everybody.
WHOLE = ""


class Kind(StrEnum):
    """What a primitive does to a part of a rig."""

    SIGNAL = "signal"  # to its process or one of the children
    SETTING = "setting"  # one value, at run time or before a restart
    ADMIN = "admin"  # accounts, grants, members and roles, through the server's own interface
    FILE = "file"  # removed, emptied, truncated, given to another user, made read-only
    PORT = "port"  # taken by another process, or changed
    LINK = "link"  # cut, slowed, lossy
    LIMIT = "limit"  # of memory, open files, processes, file size
    DISK = "disk"  # filled
    CLIENTS = "clients"  # floods and hostile clients


class Timing(StrEnum):
    """When a primitive is injected and whether it stays."""

    ONCE = "once"
    REPEATED = "repeated"  # undone and injected again
    HEALING = "healing"  # undone after a while
    REPAIR = "repair"  # injected when an agent has started to work on a ticket


@dataclass(frozen=True, slots=True)
class Primitive:
    """One fault at one part, with all that is needed to repeat it."""

    kind: Kind
    target: str
    arguments: Mapping[str, Value] = field(default_factory=dict)

    @property
    def components(self) -> tuple[str, ...]:
        """The parts that it touches."""
        other = str(self.arguments.get("other", "")) if self.kind is Kind.LINK else ""
        about = str(self.arguments.get("about", "")) if self.kind is Kind.ADMIN else ""
        if self.kind is Kind.SETTING:
            # A field of an object is named OBJECT:PATH, a setting that servers share OWNER/NAME.
            name = str(self.arguments["name"])
            about = name.rpartition(":")[0]
            if not about and (owner := name.rpartition("/")[0]):
                return (owner,)
        return tuple(dict.fromkeys(filter(None, (self.target, other, about))))

    @property
    def sentence(self) -> str:
        """How people read it."""
        words = " ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.kind.value} {self.target} {words}".rstrip()

    @property
    def clues(self) -> re.Pattern[str]:
        """What a quoted line says that tells this fault from most others."""
        given = [str(self.arguments.get(name, "")) for name in ("name", "path", "command")]
        # An option of a command line writes the name of a setting with dashes.
        # Of a field of an object its own name, or the name above it where it is one of a list.
        given = [_LAST.sub("", word) if ":" in word else word for word in given]
        words = [re.split("[-_]", word.rpartition("/")[2]) for word in given if word]
        own = ["[-_]".join(map(re.escape, parts)) for parts in words]
        return re.compile("|".join([*own, *_CLUES[self.kind]]), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Injection:
    """A primitive with its timing: `after_s` before it is injected, `every_s` between repeats."""

    primitive: Primitive
    timing: Timing = Timing.ONCE
    after_s: float = 0.0
    lasts_s: float = 0.0
    times: int = 1


@dataclass(frozen=True, slots=True)
class Case:
    """What one seed makes of the surface of a subject."""

    subject: str
    seed: int
    injections: tuple[Injection, ...]

    @property
    def components(self) -> frozenset[str]:
        """The parts that its primitives touch."""
        return frozenset(part for each in self.injections for part in each.primitive.components)

    @property
    def sentence(self) -> str:
        """How people read it."""
        parts = []
        for each in self.injections:
            timing = "" if each.timing is Timing.ONCE else f" ({each.timing.value})"
            parts.append(f"{each.primitive.sentence}{timing}")
        return "; ".join(parts)


_LAST = re.compile(r"/\d+$")
_CLUES: Mapping[Kind, tuple[str, ...]] = {
    Kind.SIGNAL: (
        *(r"not running", r"\bdead\b", r"exited", r"stopped", r"paused", r"frozen", r"\bkilled\b"),
        *(
            r"does not exist",
            r"state [TtZ]\b",
            r"SIG[A-Z]+",
            r"signal \d+",
            r"terminated",
            r"no process",
            r"shut(ting)? ?down",
        ),
    ),
    Kind.SETTING: (r"configuration file", r"invalid (value|configuration|argument)"),
    Kind.ADMIN: (
        *(r"password", r"authenti", r"permission", r"denied", r"not permitted", r"expired"),
        *(r"read.?only", r"recovery", r"promot", r"two primaries", r"removed", r"WRONGPASS"),
        *(r"\bNOAUTH\b", r"\bNOPERM\b", r"role\b", r"member (count|list)", r"learner", r"slot"),
        *(r"credential", r"user name", r"rejected"),
    ),
    Kind.FILE: (
        *(r"no such file", r"permission denied", r"read-only", r"could not open", r"corrupt"),
        *(r"missing", r"cannot open", r"can't open", r"not found", r"invalid (page|checksum)"),
    ),
    Kind.PORT: (
        *(r"address already in use", r"port .*(taken|in use)", r"another process"),
        *(r"listens? on", r"could not bind", r"wrong port", r"unknown protocol"),
        r"\bport in \S+ changed",
        *(r"not from", r"accepts connections and answers", r"another program"),
    ),
    Kind.LINK: (
        *(r"timed? ?out", r"timeout", r"unreachable", r"no route", r"latency", r"slow(er)?\b"),
        *(r"partition", r"\bcut\b", r"cannot reach", r"did not answer", r"lost", r"delay"),
        *(r"takes [\d.]+ ?m?s\b",),
    ),
    Kind.LIMIT: (
        *(r"too many open files", r"out of memory", r"cannot allocate", r"limit", r"EMFILE"),
        *(r"resource temporarily unavailable", r"file too large", r"could not fork", r"ENOMEM"),
    ),
    Kind.DISK: (
        *(r"no space left", r"disk (is )?full", r"\d ?% full", r"disk space", r"bytes free"),
        *(r"ENOSPC", r"NOSPACE", r"cannot write to its disk"),
    ),
    Kind.CLIENTS: (
        *(r"too many (clients|connections)", r"connections?", r"remaining connection slots"),
        *(r"requests? (per|rate)", r"flood", r"overload", r"max number of clients"),
    ),
}
