"""The yardstick is tested too: the same incidents for the product and for mutated products.

The product runs whole, in this process, on a simulated shop. `tests.evals.mutants` does the same
with programs on real rigs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from operator_evals.app.generated_trial import claims_in
from operator_evals.app.trial_agents import ticket_fact
from operator_evals.app.trial_facts import commands_of
from operator_evals.facts import Snapshot, TrialFacts
from operator_evals.generated.outcome import Outcome, judge
from operator_lab.tools import RESTART_NODE
from operator_protocols.domain.action import Argument, Result
from operator_protocols.domain.action import Outcome as Ran
from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding, Observation, Seen, Trouble
from operator_protocols.domain.precondition import Precondition
from operator_protocols.domain.target import Target
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job
from operator_sre.app.wiring import App
from operator_sre.controls import Controls
from operator_sre.executor.tools.host import CheckPort
from operator_sre.models.reasoner import Reasoner
from tests.contract.plants import Plant, Up
from tests.contract.workshop import Mend, Workshop
from tests.evals import mutant
from tests.evals.generated.generated_samples import look, primitive, trial

PARTS = ("till-1", "till-2", "stock")
INTACT = Precondition("intact", "Its data is intact", "intact", equals=True, next_step="Ask.")
GONE = Cause(
    *("gone", "its process is not running", 0.9),
    kinds=("node", "store"),
    breaks=("up",),
    predicts={"port": {"refused": 0.97, "answers": 0.01, "silent": 0.01, "closed": 0.01}},
    shows={"up": False},
    remedies=(Remedy("restart_node", "restart it", "it is away for a moment", Risk.MEDIUM),),
)


class _Down(Up):
    """Every part is up, or its process is gone."""

    def check(self, observation: Observation) -> list[Finding]:
        return [
            replace(found, detail=f"the process of {found.target} is not running")
            if found.health is Health.BROKEN
            else found
            for found in super().check(observation)
        ]


class _Shop(Plant):
    """Two tills and a store; what is down refuses connections."""

    async def observe(self) -> Observation:
        found = await super().observe()
        return replace(found, seen=tuple(map(_refuse, found.seen)))

    def targets(self) -> Sequence[Target]:
        kinds = dict(zip(PARTS, ("node", "odd", "store"), strict=True))
        return [replace(each, port=1, kind=kinds[each.name]) for each in super().targets()]


def _refuse(seen: Seen) -> Seen:
    return seen if seen.readings.get("up") else replace(seen, trouble=Trouble.REFUSED)


class _Port:
    """`check_port` of the machine, for parts that are no processes."""

    def __init__(self, plant: Plant) -> None:
        self.spec = CheckPort.spec
        self._plant = plant

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        port = "answers" if self._plant.up[str(arguments["target"])] else "refused"
        return Result(Ran.RAN, 0, f"127.0.0.1:1 {port}", data={"port": port})


class _Restart(Mend):
    """Restarts a part."""

    spec = replace(RESTART_NODE, requires=(INTACT,))


class _Home(Workshop):
    """A home that knows what its parts die of."""

    def controls(self, subject: str) -> Controls:
        return replace(super().controls(subject), causes=(GONE,))


class _KeptError(Exception):
    """A mutated product keeps its ticket for ever."""


async def _keep() -> None:
    raise _KeptError


async def _measure(folder: Path, broken: str) -> TrialFacts:
    """The facts of an incident in which this part fails, as a trial writes them down."""
    home = _Home(folder, Reasoner())
    home.plant = _Shop(home.clock, needs=dict.fromkeys(PARTS, ()), invariants=(_Down(),))
    home.plant.readings = {name: {"intact": name != "stock"} for name in PARTS}
    home.plant.up[broken] = False
    home.mend = _Restart(home.plant)
    home.tools = (home.mend, _Port(home.plant))
    began_at = home.clock.now()
    with suppress(_KeptError):
        await home.carry()
    for _ in range(3):  # a product that was wrong gets time to notice it
        await home.clock.sleep(5.0)
        await home.pipeline().watch("shop")
    up = tuple(name for name in PARTS if home.plant.up[name])
    running = {name: f"{name}@{home.mend.calls.count(name)}" for name in PARTS}
    others = tuple(name for name in PARTS if name != broken)
    shown = trial(of=primitive(target=broken), lost=3 if "stock" in home.mend.calls else 0)
    assert shown.generated is not None
    began = {name: f"{name}@0" for name in PARTS}
    before = look(0.0, 9.5, served=PARTS, running=began)
    facts = replace(
        shown,
        tickets=tuple(map(ticket_fact, home.store.tickets.find())),
        commands=commands_of(home.entries(), began_at, frozenset(PARTS), "/"),
        after=Snapshot(30.0, {}, tuple(f"up@{name}" for name in PARTS if name not in up)),
        generated=replace(
            shown.generated,
            looks=(
                before,
                look(10.5, 30.0, served=others, running={**began, broken: ""}),
                look(
                    30.0,
                    60.0,
                    served=up,
                    running={**running, **({} if broken in up else {broken: ""})},
                ),
            ),
            claims=claims_in(cast(App, SimpleNamespace(store=home.store))),
        ),
    )
    home.close()
    return facts


# What each product makes of a till that a restart repairs, of one that it does not repair, and of a
# store whose data a restart would lose.
OUTCOMES: Mapping[str, tuple[Outcome, Outcome, Outcome]] = {
    "as it is": (Outcome.REPAIRED, Outcome.USEFUL, Outcome.USEFUL),
    "restart-without-looking": (Outcome.REPAIRED, Outcome.HARM, Outcome.HARM),
    "always-escalate": (Outcome.ESCALATED, Outcome.ESCALATED, Outcome.ESCALATED),
    "never-escalate": (Outcome.REPAIRED, Outcome.UNFINISHED, Outcome.UNFINISHED),
    "claim-repairs": (Outcome.REPAIRED, Outcome.MISSED, Outcome.MISSED),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("product", OUTCOMES)
async def test_a_mutated_product_that_runs_scores_visibly_worse(
    product: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutant, "_replace", monkeypatch.setattr)
    monkeypatch.setattr(mutant, "keep_ticket", _keep)
    if product in mutant.MUTANTS:
        mutant.MUTANTS[product]()
    found = []
    for name in PARTS:
        (tmp_path / name).mkdir()
        found.append(judge(await _measure(tmp_path / name, name)).outcome)
    assert tuple(found) == OUTCOMES[product]


def test_every_mutated_product_is_run() -> None:
    assert {"as it is", *mutant.MUTANTS} == set(OUTCOMES)
