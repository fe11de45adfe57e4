"""Many targets are repaired roots first, each proven by its own invariants; harm stops."""

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
from operator_protocols.domain.limits import Limits
from operator_protocols.domain.observation import Observation, Seen, Trouble
from operator_protocols.domain.precondition import Precondition
from operator_protocols.domain.run import Answer, Ask, Budget, Escalate, Finish
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

    targets_max = 1

    def controls(self, subject: str) -> Controls:
        controls = super().controls(subject)
        limits = Limits(targets_max=self.targets_max)
        executor = replace(controls.executor, limits=lambda: limits)
        return replace(controls, causes=(GONE,), executor=executor)


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


def _open(folder: Path, needs: Mapping[str, tuple[str, ...]], *, targets_max: int = 1) -> _Home:
    one = _Home(folder, Reasoner())
    one.targets_max = targets_max
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


# Three services of one database, and a page that needs them all.
WEB = {"db": (), **{f"s-{n}": ("db",) for n in (1, 2, 3)}, "web": ("s-1", "s-2", "s-3")}


def _course(one: Workshop) -> list[str]:
    """The starts and the proofs of the ledger, in their order."""
    course = []
    for each in one.entries(Kind.TOOL_CALL, Kind.PROOF):
        if each.kind is Kind.PROOF:
            course.append(f"{each.payload['target'] or 'all'} {each.payload['held']}")
        elif each.payload["action"]["tool"] == RESTART_NODE.name:
            course.append(each.payload["action"]["arguments"]["target"])
    return course


async def test_parts_that_do_not_depend_on_each_other_start_before_the_first_is_proven(
    tmp_path: Path,
) -> None:
    one = _open(tmp_path, WEB, targets_max=9)
    ended = await one.carry(Budget(commands_max=12, turns_max=12, attempts_max=2))
    assert ended.state is TicketState.RESOLVED
    course = _course(one)
    assert course[:2] == ["db", "db True"], "what the others depend on is proven first"
    starts = [course.index(name) for name in ("s-1", "s-2", "s-3")]
    assert starts == [2, 3, 4]
    assert course.index("web") > course.index("s-3 True")
    assert course[-1] == "all True"
    one.close()


@pytest.mark.parametrize("targets_max", [1, 2])
async def test_no_more_parts_are_unproven_at_a_time_than_the_limits_allow(
    tmp_path: Path, targets_max: int
) -> None:
    one = _open(tmp_path, WEB, targets_max=targets_max)
    ended = await one.carry(Budget(commands_max=12, turns_max=12, attempts_max=2))
    assert (ended.state, sorted(one.mend.calls)) == (TicketState.RESOLVED, sorted(WEB))
    unproven: set[str] = set()
    for step in _course(one):
        name, _, proof = step.partition(" ")
        unproven = unproven - {name} if proof else unproven | {name}
        unproven = set() if name == "all" else unproven
        assert len(unproven) <= targets_max
    assert one.entries(Kind.APPROVAL_REQUESTED) == []
    one.close()


async def test_a_start_that_failed_leaves_nothing_to_prove_and_nobody_waits_for_it(
    tmp_path: Path,
) -> None:
    one = _open(tmp_path, {"a-1": (), "b-1": (), "web": ("a-1", "b-1")}, targets_max=2)
    mend = one.mend.call

    async def fails(arguments: Mapping[str, Argument], job: Job) -> Result:
        if arguments["target"] == "a-1":
            return Result(Outcome.RAN, 1, stderr="a-1 did not start")
        return await mend(arguments, job)

    one.mend.call = fails  # type: ignore[method-assign]
    ended = await one.carry(Budget(commands_max=12, turns_max=12, attempts_max=2))
    assert (ended.state, one.mend.calls[:1]) == (TicketState.ESCALATED, ["b-1"])
    assert "budget" not in ended.reason
    one.close()


async def test_nothing_else_is_started_once_something_new_has_broken(tmp_path: Path) -> None:
    one = _open(tmp_path, {**WEB, "apart": ()}, targets_max=9)
    one.plant.up["apart"] = True
    mend = one.mend.call

    async def clumsy(arguments: Mapping[str, Argument], job: Job) -> Result:
        one.plant.up["apart"] = one.plant.up["apart"] and arguments["target"] != "s-1"
        return await mend(arguments, job)

    one.mend.call = clumsy  # type: ignore[method-assign]
    ended = await one.carry(Budget(commands_max=12, turns_max=12, attempts_max=2))
    assert (ended.state, one.mend.calls) == (TicketState.ESCALATED, ["db", "s-1"])
    assert "Operator's action broke shop/apart/up, which held before" in ended.reason
    one.close()


async def test_a_part_whose_attempts_are_used_up_does_not_end_the_repair_of_others(
    tmp_path: Path,
) -> None:
    one = _open(tmp_path, {"a-1": (), "b-1": (), "web": ("a-1", "b-1")}, targets_max=9)
    mend = one.mend.call

    async def weak(arguments: Mapping[str, Argument], job: Job) -> Result:
        one.mend.works = arguments["target"] != "a-1"
        return await mend(arguments, job)

    one.mend.call = weak  # type: ignore[method-assign]
    ended = await one.carry(Budget(commands_max=12, turns_max=12, attempts_max=1))
    assert (ended.state, sorted(one.mend.calls)) == (TicketState.ESCALATED, ["a-1", "b-1", "web"])
    assert [name for name, up in one.plant.up.items() if not up] == ["a-1"]
    one.close()


@pytest.mark.parametrize("dies_at", range(1, 12))
async def test_a_worker_that_dies_between_two_starts_repeats_none_of_them(
    tmp_path: Path, dies_at: int
) -> None:
    one = _open(tmp_path, WEB, targets_max=9)

    class _Dies(Reasoner):
        async def answer(self, ask: Ask) -> Answer:
            if len(ask.turns) == dies_at:
                raise ConnectionError("gone")
            return await super().answer(ask)

    one.model = _Dies()
    pipeline = one.pipeline()
    await pipeline.watch("shop")
    ticket = await one.claim()
    with pytest.raises(ConnectionError):
        await pipeline.work(ticket)
    one.model = Reasoner()
    ended = await one.pipeline(Budget(commands_max=12, turns_max=12)).work(ticket)
    assert (ended.state, sorted(one.mend.calls)) == (TicketState.RESOLVED, sorted(WEB))
    one.close()


async def test_a_part_without_a_known_cause_does_not_hold_up_the_others(tmp_path: Path) -> None:
    needs = {"a-1": (), "odd-1": (), "b-1": ("a-1",), "c-1": ("a-1", "odd-1"), "odd-2": ("c-1",)}
    one = _open(tmp_path, needs)
    ended = await one.carry(Budget(commands_max=12, turns_max=12, attempts_max=2))
    assert (ended.state, one.mend.calls) == (TicketState.ESCALATED, ["a-1", "b-1", "c-1"])
    assert ended.reason.startswith("odd-1: ")
    one.close()


async def test_failures_with_causes_of_their_own_get_tickets_of_their_own(tmp_path: Path) -> None:
    """A page that needs both brought two services together; no tool starts either of them."""
    needs = {"a-1": (), "b-1": (), "web": ("a-1", "b-1"), "c-1": ()}
    one = _open(tmp_path, needs, targets_max=9)
    one.tools = one.tools[1:]
    one.plant.up["c-1"] = True
    first = await one.carry()
    assert first.state is TicketState.ESCALATED
    (title,) = {each.target for each in first.violations} - {"web"}
    other = "b-1" if title == "a-1" else "a-1"
    assert f"in a ticket of its own: {other} up." in first.reason
    assert f"{other} up" not in first.reason.partition("still broken")[2]
    pipeline = one.pipeline()
    await pipeline.watch("shop")
    tickets = one.store.tickets.find(states=tuple(TicketState))
    assert {tuple(v.target for v in each.violations) for each in tickets} == {
        tuple(v.target for v in first.violations),
        (other,),
    }
    claimed = await one.store.leases.claim("worker", run="run-2", lease_s=1e6, attempts_max=9)
    assert claimed is not None
    second = await pipeline.work(claimed)
    assert second.state is TicketState.ESCALATED
    assert {each.target for each in second.violations} == {other}
    assert second.diagnosis.startswith(f"{other}: ")
    await pipeline.watch("shop")
    assert len(one.store.tickets.find(states=tuple(TicketState))) == 2, "no more are opened"
    one.close()


async def test_what_one_cause_explains_stays_in_one_ticket(tmp_path: Path) -> None:
    one = _open(tmp_path, WEB)
    one.tools = one.tools[1:]
    ended = await one.carry()
    assert ended.state is TicketState.ESCALATED
    assert {each.target for each in ended.violations} >= {"db"}
    await one.pipeline().watch("shop")
    assert len(one.store.tickets.find(states=tuple(TicketState))) == 1
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
