"""A rule of a policy: what it speaks of, what it says, and examples that prove it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from operator_protocols.domain.verdict import Level, Risk

__all__ = ["BUILT_IN", "Decision", "Override", "PolicyRule"]

BUILT_IN = "built-in"


class Decision(StrEnum):
    """What a policy answers to a risk: it runs, a person is asked, or it does not run."""

    AUTO = "auto"
    REQUIRE = "require"
    DENY = "deny"


class PolicyRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is said of every simple command that fits all of its conditions.

    A rule of `review` or `blocked` is open: it fits when what it asks for is there, whatever else
    is. A rule of `safe` is closed: every option has to be listed and every operand has to match,
    nothing is unknown before it runs, nothing is redirected, and nobody else's rights are used.
    With `cwd` it fits only what is started in one of these folders, in a line that stays there.
    """

    id: str
    level: Level
    why: str
    command: tuple[str, ...] = ()
    subcommand: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    operand: str = ""
    path: tuple[str, ...] = ()
    redirect: str = ""
    regex: str = ""
    piped: bool | None = None
    privileged: bool | None = None
    cwd: tuple[str, ...] = ()
    risk: Risk = Risk.MEDIUM
    reversible: bool | None = None
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()
    origin: str = BUILT_IN

    @property
    def is_built_in(self) -> bool:
        """True when it came with this version and was not written by the user."""
        return self.origin == BUILT_IN


class Override(msgspec.Struct, frozen=True):
    """A built-in rule that somebody took away, who, and why."""

    rule: str
    reason: str
    by: str
