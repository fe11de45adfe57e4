"""Everything that a policy file can say, as one value with a digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files

import msgspec

from operator_protocols.domain.verdict import Mode, Risk
from operator_sre.gate.grammar.paths import Secrets, one_of, resolved
from operator_sre.gate.grammar.words import Simple
from operator_sre.gate.policy.egress import Egress
from operator_sre.gate.policy.index import Index
from operator_sre.gate.policy.rule import Decision, Override, PolicyRule

__all__ = ["COMPILED", "Rulebook", "Services", "built_in", "decoded", "encoded"]

COMPILED = "default.json"
APPROVAL: Mapping[str, Decision] = {
    Risk.LOW: Decision.AUTO,
    Risk.MEDIUM: Decision.REQUIRE,
    Risk.HIGH: Decision.REQUIRE,
    Risk.CRITICAL: Decision.REQUIRE,
}
# Nothing that leads elsewhere, and nothing that a program could take for an option.
_SERVICE = re.compile(r"[a-z0-9_][a-z0-9_.@:-]{0,199}")


class Services(msgspec.Struct, frozen=True):
    """Services of a machine that may be started, stopped and restarted; what is denied wins."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def manages(self, name: str) -> bool:
        """True when a service may be touched at all; a unit is its service."""
        bare = name.removesuffix(".service").lower()
        if not _SERVICE.fullmatch(bare) or ".." in bare or bare in self.deny:
            return False
        return bare in self.allow


class Rulebook(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """The rules and lists of a policy. Two that differ in anything have different digests."""

    rules: tuple[PolicyRule, ...] = ()
    sensitive: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    egress: Egress = Egress()
    services: Services = Services()
    approval: Mapping[str, Decision] = {}
    tools: Mapping[str, Decision] = {}
    modes: Mapping[str, Mode] = {}
    roles: Mapping[str, str] = {}
    grants: Mapping[str, tuple[str, ...]] = {}
    budgets: Mapping[str, float] = {}
    limits: Mapping[str, float] = {}
    overrides: tuple[Override, ...] = ()

    @cached_property
    def digest(self) -> str:
        """Covers every field."""
        return "sha256:" + hashlib.sha256(encoded(self)).hexdigest()

    @cached_property
    def secrets(self) -> Secrets:
        """The files that hold secrets."""
        return Secrets(self.sensitive)

    @cached_property
    def _writable(self) -> re.Pattern[str]:
        return one_of(self.writable)

    @cached_property
    def _index(self) -> Index:
        return Index(self.rules)

    def warm(self) -> None:
        """Make ready now what is otherwise made when it is first needed."""
        self._index.warm()

    def speaking(self, simple: Simple, cwd: str = "") -> Sequence[PolicyRule]:
        """The rules that count for one command, the strictest first."""
        return self._index.speaking(simple, cwd)

    def decision(self, risk: Risk) -> Decision:
        """What is answered to a risk."""
        return self.approval.get(risk) or APPROVAL[risk]

    def writes(self, path: str) -> bool:
        """True when typed tools may write a file; a path that takes a turn never is one."""
        return path == resolved(path, "") and self._writable.fullmatch(path) is not None

    def rule(self, id: str) -> PolicyRule | None:
        """A rule by its id."""
        return next((rule for rule in self.rules if rule.id == id), None)


def encoded(book: Rulebook) -> bytes:
    """A book as JSON, always in the same order."""
    return msgspec.json.encode(book, order="deterministic")


def decoded(packed: bytes) -> Rulebook:
    """A book from its JSON."""
    return msgspec.json.decode(packed, type=Rulebook)


@cache
def built_in() -> Rulebook:
    """The rules that came with this version."""
    return decoded((files(__package__) / COMPILED).read_bytes())
