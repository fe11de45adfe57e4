"""What is known of each tool: its closed set of read-only forms, as data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

__all__ = ["COMPILED", "Tables", "Tool", "tables"]

COMPILED = "tools.json"


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """The read-only forms of one command, or of one sub-command. What is not here is not SAFE.

    `options` maps each option to the kind of its value: empty for none, `?kind` where the value has
    to be glued to it, `?~kind` where it may be the next word as well. `operands` are kinds, the
    last with `*`, `+` or `?`; None when a sub-command has to follow. `given` has other operands for
    when an option is there. `words` names the little language of all that follows. `needs` lists
    options of which one must be there, before the first operand unless it reads them `anywhere`;
    `leads`: such an option must be the very first. Of `modes` only one may be there, because a
    later one takes the place of an earlier one. `old`: a first word without a dash is a cluster of
    options, whose values are the next words in order. `star`: none of its options can do harm, so
    that a glob may turn out to be one. `loose`: what is none of its options is an operand, whatever
    it looks like. `sends`: it sends out what it reads from its input, which must be nothing then.
    `changes` explains well known sub-commands and options that are not read-only; `reveals` what it
    shows that is secret. `server` is whom it asks in public, `asks` whom because of an option;
    `follows` are the options with which it goes on to where an answer leads, `*` for always.
    `local`: it takes settings or code from the working directory, which must be the system's then.
    """

    options: dict[str, str] = {}
    operands: list[str] | None = None
    given: dict[str, list[str]] = {}
    commands: dict[str, Tool] = {}
    changes: dict[str, str] = {}
    needs: list[str] = []
    modes: list[str] = []
    words: str = ""
    style: str = ""
    about: str = ""
    reveals: str = ""
    network: bool = False
    server: str = ""
    asks: dict[str, str] = {}
    follows: list[str] = []
    star: bool = False
    loose: bool = False
    sends: bool = False
    anywhere: bool = False
    leads: bool = False
    old: bool = False
    local: bool = False


class Tables:
    """All tools by name; each is decoded when it is first asked for."""

    def __init__(self, raw: Mapping[str, msgspec.Raw]) -> None:
        self._raw = raw
        self._known: dict[str, Tool | None] = {}

    def __len__(self) -> int:
        return len(self._raw)

    def names(self) -> list[str]:
        """The names of all tools."""
        return sorted(self._raw)

    def warm(self) -> None:
        """Decode all of them now: for a process that judges many commands."""
        for name in self._raw:
            self.get(name)

    def get(self, name: str) -> Tool | None:
        """What is known of a command."""
        try:
            return self._known[name]
        except KeyError:
            raw = self._raw.get(name)
            if raw is None:
                return None  # not remembered: names are the user's
            tool = self._known[name] = msgspec.json.decode(raw, type=Tool)
            return tool


@cache
def tables() -> Tables:
    """The tables that came with this version."""
    packed = (files(__package__) / COMPILED).read_bytes()
    raw: dict[str, msgspec.Raw] = msgspec.json.decode(packed, type=dict[str, msgspec.Raw])
    aliases: dict[str, str] = msgspec.json.decode(raw.pop("="), type=dict[str, str])
    return Tables(raw | {name: raw[other] for name, other in aliases.items()})
