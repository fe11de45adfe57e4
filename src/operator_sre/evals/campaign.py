"""What is to be measured: scenarios, the minds that work on them, and the trials of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from operator_protocols.ports import RightEnd

__all__ = ["Campaign", "Control", "Mind", "Planned", "Scenario", "Variant"]


class Control(StrEnum):
    """A scenario in which nothing is left to repair, so that whoever repairs does it falsely."""

    NOTHING = "nothing"
    RECOVERED = "already_recovered"  # it was down, and is back when somebody comes to look
    NOISY = "noisy_but_healthy"  # short pauses everywhere, and no invariant is broken
    MISLEADING = "misleading_alert"  # somebody else's watcher says that a part is down
    MAINTENANCE = "planned_maintenance"  # a part is down, as people have announced


class Mind(StrEnum):
    """Who works on the tickets of a trial."""

    NONE = "none"  # nobody: does it heal by itself?
    RESTART = "restart-everything"
    RANDOM = "random"
    REASONER = "reasoner"
    ORACLE = "oracle"  # it knows the fault
    MODEL = "model"  # one that is configured, named by `model`
    TRANSCRIPT = "transcript"  # what a mind said once, said again


@dataclass(frozen=True, slots=True)
class Variant:
    """A set-up of the agent: which mind, and whatever differs from how it usually works."""

    name: str
    mind: Mind = Mind.REASONER
    model: str = ""
    prompt: str = ""  # added to what a model is told
    tools: tuple[str, ...] = ()  # only these, where any are named
    mode: str = "execute"
    transcript: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)  # of operator.toml, such as budgets


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fault of a subject and what has to become of it; or a Control.

    `breaks` are the invariants that it breaks, `truths` the causes that rightly explain it as
    `cause@hit` or `cause@any`. `apart` is True for a fault that causes were written without,
    `alone` for one that a busy neighbour would break as well.
    """

    subject: str
    fault: str
    end: RightEnd | None = None
    breaks: tuple[str, ...] = ()
    truths: tuple[str, ...] = ()
    apart: bool = False
    alone: bool = False

    @property
    def name(self) -> str:
        """How people call it."""
        return f"{self.subject}:{self.fault}"

    @property
    def is_control(self) -> bool:
        """True when nothing is broken, so that nothing may be repaired."""
        return self.end is None

    @property
    def has_ticket(self) -> bool:
        """Whether a ticket is in order: always of a fault, and where a control gives reason."""
        return not self.is_control or self.fault in (Control.RECOVERED, Control.MISLEADING)


@dataclass(frozen=True, slots=True)
class Planned:
    """One trial that is to be done: everything that makes it repeatable."""

    scenario: Scenario
    variant: str
    seed: int

    @property
    def key(self) -> str:
        """The same for the same trial of a campaign, whoever asks."""
        return f"{self.scenario.name}/{self.variant}/{self.seed}"


@dataclass(frozen=True, slots=True)
class Campaign:
    """A matrix of trials with its limits, as a file describes it or a command line asks for it.

    `seeds` says how many trials a variant has of each scenario, by the name of the variant.
    """

    name: str
    scenarios: tuple[Scenario, ...]
    variants: tuple[Variant, ...]
    seeds: Mapping[str, int]
    first_seed: int = 0
    parallel: int = 1
    interval_s: float = 2.0
    stable_s: float = 5.0
    hold_s: float = 6.0
    cool_down_s: float = 0.0
    well_s_max: float = 40.0
    detect_s_max: float = 120.0
    end_s_max: float = 150.0
    control_s: float = 20.0
    noise: tuple[str, ...] = ()  # faults that are done beside, healed by the harness itself
    trials_max: int = 5000
    usd_max: float = 0.0  # 0: no money may be spent
