"""Many targets are repaired one after the other, each proven by its own invariants; harm stops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from operator_lab.tools import RESTART_NODE
from operator_protocols.domain.action import Argument, Outcome, Result
from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.observation import Observation, Seen, Trouble
from operator_protocols.domain.precondition import Precondition
from operator_protocols.domain.run import Answer, Budget, Escalate, Finish
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job
from operator_sre.controls import Controls
from operator_sre.executor.tools.host import CheckPort
from operator_sre.models.reasoner import Reasoner
from tests.contract.plants import Plant
from tests.contract.workshop import DIAGNOSIS, MEND, Mend, Script, Workshop

pytestmark = pytest.mark.asyncio


class _Restart(Mend):
    spec = RESTART_NODE


class _Port:
    """`check_port` of the machine, for parts that are no processes."""

    def __init__(self, plant: Plant) -> None:
        self.spec = CheckPort.spec
        self._plant = plant

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        up = self._plant.up[str(arguments["target"])]
        port = "answers" if up else "refused"
        return Result(Outcome.RAN, 0, f"127.0.0.1:1 {port}", data={"port": port})


def _refuse(seen: Seen) -> Seen:
    return seen if seen.readings.get("up") else replace(seen, trouble=Trouble.REFUSED)


GONE = Cause(
    "gone",
    "it is gone",
    0.9,
    kinds=("node",),
    breaks=("up",),
    predicts={"port": {"refused": 0.97, "answers": 0.01, "silent": 0.01, "closed": 0.01}},
    shows={"up": False},
    remedies=(Remedy("restart_node", "restart it", "it is away for a moment", Risk.MEDIUM),),
)


class _Home(Workshop):
    """A workshop whose subject knows what its parts die of."""

    def controls(self, subject: str) -> Controls:
        return replace(super().controls(subject), causes=(GONE,))


class _Host(Plant):
    """Parts that have ports, so that the reasoner can look at them, and refuse connections."""

    async def observe(self) -> Observation:
        found = await super().observe()
        return replace(found, seen=tuple(map(_refuse, found.seen)))

    def targets(self) -> Sequence[Target]:
        return [
            replace(target, port=1, kind="odd" if target.name.startswith("odd") else "node")
            for target in super().targets()
        ]


def _open(folder: Path, needs: Mapping[str, tuple[str, ...]]) -> Workshop:
    one = _Home(folder, Reasoner())
    one.plant = _Host(one.clock, needs=needs)
    one.plant.up = dict.fromkeys(needs, False)
    one.mend = _Restart(one.plant)
    one.tools = (one.mend, _Port(one.plant))
    return one


CHAIN = {"a-1": (), **{f"a-{n}": (f"a-{n - 1}",) for n in range(2, 11)}}


@pytest.mark.parametrize("count", [5, 10])
async def test_services_that_died_together_come_back_without_a_person(
    tmp_path: Path, count: int
) -> None:
    one = _open(tmp_path, dict(list(CHAIN.items())[:count]))
    ended = await one.carry(Budget(commands_max=12, turns_max=12, attempts_max=2))
    assert (ended.state, one.mend.calls) == (
        TicketState.RESOLVED,
        [f"a-{n}" for n in range(1, count + 1)],
    )
    proofs = [(each.payload["held"], each.payload["target"]) for each in one.entries(Kind.PROOF)]
    assert proofs[:-1] == [(True, f"a-{n}") for n in range(1, count)]
    assert proofs[-1] == (True, "")
    one.close()


async def test_a_part_without_a_known_cause_does_not_hold_up_the_others(tmp_path: Path) -> None:
    needs = {"a-1": (), "odd-1": (), "b-1": ("a-1",), "c-1": ("a-1", "odd-1"), "odd-2": ("c-1",)}
    one = _open(tmp_path, needs)
    ended = await one.carry(Budget(commands_max=12, turns_max=12, attempts_max=2))
    assert (ended.state, one.mend.calls) == (TicketState.ESCALATED, ["a-1", "c-1", "b-1"])
    assert ended.reason.startswith("odd-1: ")
    one.close()


async def test_what_must_not_be_started_does_not_hold_up_what_depends_on_it(tmp_path: Path) -> None:
    one = _open(tmp_path, {"db-1": (), "b-1": ("db-1",), "b-2": ("db-1",), "odd-1": ("db-1",)})
    intact = Precondition("intact", "Its data is intact", "intact", equals=True, next_step="Ask.")
    one.mend.spec = replace(RESTART_NODE, requires=(intact,))
    one.plant.readings = {"db-1": {"intact": False}, "b-1": {"intact": True}}
    one.plant.readings["b-2"] = {"intact": True}
    ended = await one.carry(Budget(commands_max=12, turns_max=12, attempts_max=2))
    assert (ended.state, one.mend.calls) == (TicketState.ESCALATED, ["b-1", "b-2"])
    assert "restart_node is not automatic: Its data is intact (not met" in ended.reason
    one.close()


async def test_what_breaks_again_after_each_repair_is_not_repaired_forever(tmp_path: Path) -> None:
    one = Workshop(
        tmp_path, Script(Answer("act", (DIAGNOSIS, MEND)), Answer("no", (Escalate("no"),)))
    )
    now = one.clock.now()
    repaired = [now - timedelta(seconds=age_s) for age_s in (30.0, 300.0)]
    pipeline = replace(one.pipeline(), repaired=lambda *_: repaired)
    await pipeline.watch("shop")
    ended = await pipeline.work(await one.claim())
    assert (ended.state, one.mend.calls) == (TicketState.ESCALATED, [])
    (refused,) = one.entries(Kind.REFUSED)
    assert "Crash loop: mend(target=node-1)" in refused.payload["result"]["stderr"]
    one.close()


async def test_harm_ends_the_work_and_is_a_part_of_the_ticket(tmp_path: Path) -> None:
    act = Answer("act", (DIAGNOSIS, MEND, Finish("done")))
    one = Workshop(tmp_path, Script(act, act, act))
    mend = one.mend.call

    async def clumsy(arguments: Mapping[str, Argument], job: Job) -> Result:
        one.plant.up["node-2"] = False
        undo = replace(MEND, reasoning="undo")
        one.mend.works = False
        return replace(await mend(arguments, job), undo=undo)

    one.mend.call = clumsy  # type: ignore[method-assign]
    ended = await one.carry()
    assert ended.state is TicketState.ESCALATED
    assert "Operator's action broke shop/node-2/up, which held before: mend(" in ended.reason
    assert "No further action was taken." in ended.reason
    assert "Rolled back: mend(target=node-1)" in ended.reason
    assert one.mend.calls == ["node-1", "node-1"]  # the change and its undo, and nothing more
    assert {each.target for each in ended.violations} == {"node-1", "node-2"}
    assert len(one.store.tickets.find(states=tuple(TicketState))) == 1
    await one.pipeline().watch("shop")
    assert len(one.store.tickets.find(states=tuple(TicketState))) == 1
    one.close()
