"""A generated fault is followed to its end, also where no agent ever begins to repair."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from operator_evals.app.generated_trial import GeneratedFault
from operator_evals.app.trial_rig import Job
from operator_evals.campaign import BUILT_IN, Campaign, Planned, Scenario
from operator_evals.facts import TicketFact, TrialFacts, TrialState
from operator_evals.generated.case import Case, Injection, Kind, Primitive, Timing
from operator_evals.trial import Cast, Trial
from operator_protocols.ports import CorrectOutcome
from tests.contract.clock import HeldClock

PRIMITIVE = Primitive(Kind.SIGNAL, "node-1", {"signal": "KILL", "child": -1})
CASE = Case("shop", 1, (Injection(PRIMITIVE), Injection(PRIMITIVE, Timing.REPAIR)))


class QuickClock(HeldClock):
    """Who sleeps moves time."""

    async def sleep(self, seconds: float) -> None:
        self._elapsed_s += seconds
        await asyncio.sleep(0)


@dataclass
class Variant:
    """Has one ticket from the beginning, in this state."""

    ticket: TicketFact

    def watching(self) -> bool:
        return True

    def tickets(self) -> list[TicketFact]:
        return [self.ticket]


async def _follow(state: str, variant: str, folder: Path) -> tuple[float, bool]:
    """How long it is followed, and whether the repair's primitive is injected."""
    clock = QuickClock()
    scenario = Scenario("shop", "generated", CorrectOutcome.MITIGATED)
    campaign = Campaign(
        "c", (scenario,), (BUILT_IN[variant],), {}, end_s_max=75.0, hold_s=5.0, control_s=18.0
    )
    planned = Planned(scenario, variant, 1)
    job = Job(campaign, planned, str(folder), str(folder / "l"), ("operator",), 0.0, case=CASE)
    fault = GeneratedFault(cast("Any", None), job, cast("Any", None), clock)
    done = asyncio.create_task(asyncio.sleep(0))
    injected = asyncio.create_task(fault._repair.wait())
    fault._case, fault._plays = CASE, [done, cast("Any", injected)]
    await done
    started = clock.monotonic()
    working = Variant(TicketFact(1, state, "node-1", ("answers",)))
    whole = Cast(cast("Any", None), fault, cast("Any", working), cast("Any", None))
    facts = TrialFacts("c", "k", scenario, variant, 1, TrialState.DONE)
    await fault.follow(Trial(planned, campaign, whole, clock, started, facts))
    was_injected = injected.done()
    injected.cancel()
    return clock.monotonic() - started, was_injected


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("state", "variant", "until_s", "injected"),
    [
        ("open", "reasoner", 75.0, False),  # no agent takes it: it is not awaited forever
        ("claimed", "reasoner", 75.0, True),
        ("escalated", "reasoner", 5.0, True),
        ("open", "none", 75.0, True),  # what is compared with an agent's trial has the same faults
    ],
)
async def test_it_ends(
    state: str, variant: str, until_s: float, injected: bool, tmp_path: Path
) -> None:
    followed_s, was_injected = await _follow(state, variant, tmp_path)
    assert until_s <= followed_s < until_s + 2.0
    assert was_injected is injected
