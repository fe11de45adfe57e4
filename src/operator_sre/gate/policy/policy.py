"""What a policy file can say, and what runs by itself: values with a digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property
from importlib.resources import files

import msgspec

from operator_protocols.domain.action import SHELL, Action, digest_of
from operator_protocols.domain.confinement import Confinement
from operator_protocols.domain.permit import Approver
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Level, Mode, Risk, Verdict
from operator_sre.codec import to_json
from operator_sre.gate.grammar.paths import Secrets, one_of, resolve_path
from operator_sre.gate.policy.egress import Egress
from operator_sre.gate.policy.rule import Decision, Index, Override, PolicyRule
from operator_sre.shell.words import Simple

__all__ = [
    "COMPILED",
    "Policy",
    "Profile",
    "Rulebook",
    "Services",
    "built_in",
    "decode_book",
    "encode_book",
]

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
    chains: Mapping[str, tuple[Approver, ...]] = {}
    overrides: tuple[Override, ...] = ()

    @cached_property
    def digest(self) -> str:
        """Covers every field."""
        return "sha256:" + hashlib.sha256(encode_book(self)).hexdigest()

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
        return path == resolve_path(path, "") and self._writable.fullmatch(path) is not None

    def rule(self, id: str) -> PolicyRule | None:
        """A rule by its id."""
        return next((rule for rule in self.rules if rule.id == id), None)


def encode_book(book: Rulebook) -> bytes:
    """A book as JSON, always in the same order."""
    return msgspec.json.encode(book, order="deterministic")


def decode_book(packed: bytes) -> Rulebook:
    """A book from its JSON."""
    return msgspec.json.decode(packed, type=Rulebook)


@cache
def built_in() -> Rulebook:
    """The rules that came with this version."""
    return decode_book((files(__package__) / COMPILED).read_bytes())


class Profile(StrEnum):
    """Which set of defaults applies."""

    STANDARD = "standard"
    LAB = "lab"


@dataclass(frozen=True)
class Policy:
    """Everything the gate goes by for one subject.

    The profile `lab` runs by itself all that is not BLOCKED, but only inside the boundary of a
    rig: its own typed tools, scripts in a box that reaches nothing else, on its own targets, and
    command lines of agents that the kernel holds to `boundary`.
    `auto` are the risks that run without approval, instead of the book's. `hosts` are the hosts
    of the subject's targets.
    """

    mode: Mode = Mode.OBSERVE
    profile: Profile = Profile.STANDARD
    tools: tuple[ToolSpec, ...] = ()
    boundary_tools: frozenset[str] = frozenset()
    boundary_targets: frozenset[str] = frozenset()
    auto: frozenset[Risk] | None = None
    hosts: frozenset[str] = frozenset()
    boundary: Confinement | None = None
    book: Rulebook = field(default_factory=built_in, hash=False)

    @cached_property
    def digest(self) -> str:
        """Covers every field, so that a changed policy voids what was permitted under the old."""
        return digest_of(
            {
                "mode": self.mode,
                "profile": self.profile,
                "tools": sorted((to_json(tool) for tool in self.tools), key=digest_of),
                "boundary_tools": sorted(self.boundary_tools),
                "boundary_targets": sorted(self.boundary_targets),
                # Which processes a rig has right now is no matter of policy.
                "boundary": self.boundary.inside if self.boundary is not None else None,
                "hosts": sorted(self.hosts),
                "auto": None if self.auto is None else sorted(self.auto),
                "book": self.book.digest,
            }
        )

    @property
    def secrets(self) -> Secrets:
        """The files that hold secrets."""
        return self.book.secrets

    def speaking(self, simple: Simple, cwd: str = "") -> Sequence[PolicyRule]:
        """The rules that count for one simple command, the strictest first."""
        return self.book.speaking(simple, cwd)

    def reaches(self, host: str) -> bool:
        """True when a command of an agent that only reads may speak to this host by itself."""
        return self.book.egress.reaches(host, self.hosts)

    def reaches_for_person(self, host: str) -> bool:
        """True when a command of a person that only reads may speak to this host by itself."""
        return self.book.egress.reaches(host, self.hosts, person=True)

    def manages(self, service: str) -> bool:
        """True when a service of the machine may be started, stopped and restarted at all."""
        return self.book.services.manages(service)

    def writes(self, path: str) -> bool:
        """True when typed tools may write a file at all."""
        return self.book.writes(path)

    def word_on(self, tool: str) -> Decision | None:
        """What the policy says of one tool, beside what it says of its risk."""
        return self.book.tools.get(tool)

    def decision(self, risk: Risk) -> Decision:
        """What is answered to a risk: it runs, a person is asked, or it does not run."""
        decision = self.book.decision(risk)
        if self.auto is None or decision is Decision.DENY:
            return decision
        return Decision.AUTO if risk in self.auto else Decision.REQUIRE

    def tool(self, name: str) -> ToolSpec | None:
        """What is known of a typed tool."""
        return next((spec for spec in self.tools if spec.name == name), None)

    def inside(self, action: Action) -> bool:
        """True when an action cannot reach beyond the rig that this policy is for."""
        # A tool acts on the target in its arguments, whatever the action says that it is about.
        named = {action.target, action.arguments.get("target", action.target)}
        return action.tool in self.boundary_tools and named <= self.boundary_targets

    @property
    def is_free(self) -> bool:
        """Whether agents have a free shell, in the boundary of a rig."""
        is_lab = self.profile is Profile.LAB and self.mode is Mode.EXECUTE
        return is_lab and self.boundary is not None

    @property
    def shown_files(self) -> tuple[str, ...] | None:
        """The files of rigs that a line of an agent may see; None for all.

        A password that a SAFE line shows would open the servers of a rig to a free shell.
        """
        return self.boundary.shown if self.boundary is not None and self.is_free else None

    def confines(self, action: Action, level: Level, *, person: bool) -> bool:
        """True when the boundary of a rig holds a command line, so that it needs no approval.

        It gets no secrets there. A person may do more after an approval.
        """
        is_plain = action.tool == SHELL and not action.venv and not action.passes
        at_home = not action.target or action.target in self.boundary_targets
        is_free = self.is_free and not person
        return level is Level.REVIEW and is_free and is_plain and at_home

    def runs_by_itself(self, verdict: Verdict) -> bool:
        """True when no approval is required."""
        if verdict.level is Level.SAFE:
            return True
        if verdict.level is Level.BLOCKED or self.mode is not Mode.EXECUTE:
            return False
        if self.word_on(verdict.action.tool) is not None:
            return False
        if self.profile is Profile.LAB:
            held = verdict.confinement
            return self.inside(verdict.action) or (held is not None and bool(held.inside))
        return self.decision(verdict.risk) is Decision.AUTO
