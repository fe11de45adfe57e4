"""Trials of generated faults, as simulated ones are written down."""

from __future__ import annotations

from dataclasses import replace

from operator_evals.campaign import Scenario
from operator_evals.facts import CommandFact, Moments, TicketFact, TrialFacts, TrialState
from operator_evals.generated.case import Case, Injection, Kind, Primitive, Timing
from operator_evals.generated.observed import Claim, GeneratedFacts, Injected, Look
from operator_protocols.ports import CorrectOutcome

__all__ = ["ALL", "RUNNING", "changed", "claim", "look", "primitive", "trial"]

ALL = ("till-1", "till-2")
RUNNING = {"till-1": "1@1", "till-2": "2@1", "stock": "3@1"}
BEFORE = Look(0.0, 9.5, ALL, True, True, ("till-1",), RUNNING)


def primitive(kind: Kind = Kind.SIGNAL, target: str = "till-2", **arguments: str) -> Primitive:
    """A primitive; by default a signal to the second till."""
    return Primitive(kind, target, arguments or {"signal": "KILL", "child": -1})


def look(at_s: float, until_s: float, **seen: object) -> Look:
    """A look in which all is well, but for what is said."""
    return replace(BEFORE, at_s=at_s, until_s=until_s, **seen)  # type: ignore[arg-type]


def changed(at_s: float, target: str = "till-2", exit_code: int = 0) -> CommandFact:
    """An action that changed something."""
    return CommandFact(
        *(1, at_s, 1, "restart_node", f"restart_node(target={target})", target, "safe", "low"),
        changes=True,
        ran=True,
        outcome="ran",
        exit_code=exit_code,
    )


def claim(headline: str, *lines: str, state: str = "escalated", cause: str = "dead") -> Claim:
    """What a ticket says."""
    return Claim(1, state, headline, lines, cause, "till-2")


def trial(
    *looks: Look,
    state: str = "",
    claims: tuple[Claim, ...] = (),
    commands: tuple[CommandFact, ...] = (),
    seed: int = 7,
    timing: Timing = Timing.ONCE,
    variant: str = "reasoner",
    refused: str = "",
    lost: int = 0,
    of: Primitive | None = None,
) -> TrialFacts:
    """A trial whose fault is injected after ten seconds."""
    case = Case("shop", seed, (Injection(of or primitive(), timing),))
    scenario = Scenario("shop", "generated", CorrectOutcome.MITIGATED)
    return TrialFacts(
        campaign="generated-shop",
        key=f"{scenario.name}/{variant}/{seed}",
        scenario=scenario,
        variant=variant,
        seed=seed,
        state=TrialState.DONE,
        moments=Moments(ended=60.0),
        tickets=(TicketFact(1, state, "till-2", ("answers",)),) if state else (),
        commands=commands,
        lost=lost,
        generated=GeneratedFacts(
            case, (Injected(0, 10.0, "SIGKILL", refused),), (BEFORE, *looks), claims
        ),
    )
