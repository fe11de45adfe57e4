"""After a failed proof: another plan, what was reversible taken back, and no more than allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.run import (
    LATE,
    Act,
    Answer,
    Ask,
    Budget,
    Diagnose,
    Escalate,
    Finish,
    Prove,
    Step,
)
from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job
from operator_sre.agent.progress import (
    ARRIVED,
    caused_harm,
    causes_of,
    count_failed,
    deadline_of,
    list_uncovered,
    repeats,
    to_undo,
)
from operator_sre.models.reasoner import Reasoner
from tests.contract.plants import Plant
from tests.contract.samples import proof, violation
from tests.contract.workshop import DIAGNOSIS, MEND, Script, Workshop
from tests.models.world import briefing

UNDO = Action("fill", {}, target="node-1")
DRAIN = Action("drain", {}, target="node-1")
OTHER = Action("open", {}, target="node-2")


def _done(action: Action, undo: Action | None = None) -> Step:
    return Step(Act(action), Result(Outcome.RAN, 0, undo=undo))


def _proven(
    *, held: bool = False, health: Health = Health.BROKEN, claim: str = "", arrival: bool = False
) -> Step:
    return Step(Prove(claim, arrival), replace(proof(held=held), health=health))


def test_the_same_change_makes_no_sense_after_a_proof_that_failed() -> None:
    steps = [_done(MEND), _proven()]
    assert "choose another plan" in repeats(steps, MEND)
    assert repeats([_done(MEND)], MEND) == ""
    assert repeats([_proven(), _done(MEND)], MEND) == ""
    assert repeats(steps, replace(MEND, target="node-2", arguments={"target": "node-2"})) == ""
    refused = Step(Act(MEND), Result(Outcome.REFUSED))
    assert repeats([refused, _proven()], MEND) == ""


def test_what_did_not_help_is_taken_back_newest_first() -> None:
    steps = [_done(DRAIN, UNDO), _done(MEND), _done(MEND, OTHER), _proven()]
    assert to_undo(steps) == (OTHER, UNDO)
    assert to_undo([*steps, _done(MEND), _proven()]) == ()


@pytest.mark.parametrize(
    "last", [_proven(health=Health.UNKNOWN), _proven(held=True), _done(MEND)], ids=str
)
def test_nothing_is_taken_back_unless_it_was_seen_not_to_help(last: Step) -> None:
    assert to_undo([_done(DRAIN, UNDO), last]) == ()


def test_taking_back_is_not_taken_back() -> None:
    steps = [_done(DRAIN, UNDO), _proven(), _done(UNDO, DRAIN), _proven()]
    assert to_undo(steps) == ()


def test_a_look_on_arrival_is_no_attempt() -> None:
    assert count_failed([_proven(arrival=True), _proven(claim="done")]) == {"": 1}


def test_a_mind_that_says_what_is_said_on_arrival_has_made_an_attempt() -> None:
    assert count_failed([_proven(claim=ARRIVED)]) == {"": 1}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("result", "nothing"),
    [
        (Result(Outcome.RAN, 1), False),
        (Result(Outcome.CANCELLED), False),
        (Result(Outcome.UNKNOWN), False),
        (Result(Outcome.CANCELLED, data={LATE: True}), True),
        (None, True),
    ],
    ids=str,
)
async def test_the_reasoner_says_that_nothing_was_changed_only_where_that_is_so(
    result: Result | None, nothing: bool
) -> None:
    restart = Act(Action("restart_node", {"target": "node-1"}, target="node-1"))
    steps = (Step(restart, result), _proven()) if result is not None else ()
    ask = Ask(briefing(health=Health.HEALTHY), steps, Budget())
    (finish,) = (await Reasoner().answer(ask)).calls
    assert isinstance(finish, Finish)
    assert ("changed nothing" in finish.summary) is nothing


def test_the_slowest_change_since_the_last_proof_says_how_long_to_wait() -> None:
    slow = ToolSpec("drain", "It drains.", (), Risk.LOW, changes=True, settle_s=300.0)
    assert deadline_of([_done(DRAIN), _done(MEND)], [slow]) == 300.0
    assert deadline_of([_done(DRAIN), _proven(), _done(MEND)], [slow]) is None


class _Drain:
    """A change that helps nobody and can be taken back."""

    spec = ToolSpec("drain", "It drains.", (), Risk.LOW, changes=True, reversible=True)

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        self.calls.append("drain")
        return Result(Outcome.RAN, 0, "drained", undo=UNDO)


class _Fill:
    """What takes it back."""

    spec = ToolSpec("fill", "It fills.", (), Risk.LOW, changes=True)

    def __init__(self, drain: _Drain) -> None:
        self._drain = drain

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        self._drain.calls.append("fill")
        return Result(Outcome.RAN, 0, "filled")


def _shop(folder: Path, *turns: Answer) -> tuple[Workshop, _Drain]:
    shop = Workshop(folder, Script(*turns))
    drain = _Drain()
    shop.tools = (shop.mend, drain, _Fill(drain))
    return shop, drain


@pytest.fixture
def closing() -> Iterator[list[Workshop]]:
    """Whatever is put in here is closed at the end."""
    made: list[Workshop] = []
    yield made
    for one in made:
        one.close()


@pytest.mark.asyncio
async def test_a_plan_that_failed_is_undone_and_the_next_one_is_another(
    tmp_path: Path, closing: list[Workshop]
) -> None:
    shop, drain = _shop(
        tmp_path,
        Answer("", (DIAGNOSIS, DRAIN, Finish("drained"))),
        Answer("", (DRAIN, MEND, Finish("mended"))),
    )
    closing.append(shop)
    ended = await shop.carry()
    assert ended.state is TicketState.RESOLVED
    assert drain.calls == ["drain", "fill"]
    (refused,) = shop.entries(Kind.REFUSED)
    assert "choose another plan" in refused.payload["result"]["stderr"]
    assert shop.mend.calls == ["node-1"]


@pytest.mark.asyncio
async def test_what_is_well_on_arrival_is_resolved_without_a_mind_or_a_change(
    tmp_path: Path, closing: list[Workshop]
) -> None:
    shop, _ = _shop(tmp_path)
    closing.append(shop)
    pipeline = shop.pipeline()
    await pipeline.watch("shop")
    shop.plant.up["node-1"] = True
    ended = await pipeline.work(await shop.claim())
    assert (ended.state, ended.reason) == (TicketState.RESOLVED, ARRIVED)
    assert shop.entries(Kind.REASONING, Kind.TOOL_CALL) == []


@pytest.mark.asyncio
async def test_what_only_seemed_well_on_arrival_is_given_to_the_mind_with_all_attempts(
    tmp_path: Path, closing: list[Workshop]
) -> None:
    shop, _ = _shop(tmp_path, Answer("", (DIAGNOSIS, MEND, Finish("mended"))))
    closing.append(shop)
    pipeline = shop.pipeline()
    await pipeline.watch("shop")
    shop.plant.up["node-1"] = True
    observe = Plant.observe

    async def breaks_again() -> object:
        seen = await observe(shop.plant)
        if shop.plant.looks == 3:
            shop.plant.up["node-1"] = False
        return seen

    shop.plant.observe = breaks_again  # type: ignore[method-assign, assignment]
    ended = await pipeline.work(await shop.claim())
    assert ended.state is TicketState.RESOLVED
    proofs = [entry.payload["held"] for entry in shop.entries(Kind.PROOF)]
    assert proofs == [False, True]
    assert shop.mend.calls == ["node-1"]


@pytest.mark.asyncio
async def test_what_we_broke_before_we_were_stopped_is_harm_for_whoever_goes_on(
    tmp_path: Path, closing: list[Workshop]
) -> None:
    class _Dies:
        name = "dies"

        async def answer(self, ask: object) -> Answer:
            raise ConnectionError("gone")

    shop = Workshop(tmp_path, _Dies())
    closing.append(shop)
    shop.plant.up["node-9"] = True
    await shop.store.tickets.open([violation("node-1", "up")])
    ticket = await shop.claim()
    with pytest.raises(ConnectionError):
        await shop.pipeline().work(ticket)
    shop.plant.up["node-9"] = False
    shop.model = Script(
        Answer("", (DIAGNOSIS, MEND, Finish("mended"))), Answer("", (Escalate("harm"),))
    )
    ended = await shop.pipeline().work(ticket)
    assert ended.state is TicketState.ESCALATED
    proofs = shop.entries(Kind.PROOF)
    assert proofs
    for entry in proofs:
        assert entry.payload["harm"] == ["shop/node-9/up"]


@pytest.mark.asyncio
async def test_a_mind_cannot_claim_an_arrival(tmp_path: Path, closing: list[Workshop]) -> None:
    shop, _ = _shop(tmp_path, *[Answer("", (Finish(ARRIVED),))] * 9)
    closing.append(shop)
    ended = await shop.carry()
    assert ended.state is TicketState.ESCALATED
    assert "3 attempts" in ended.reason
    looks = [entry.payload["looks"] for entry in shop.entries(Kind.PROOF)]
    assert len(looks) == 3
    assert min(looks) > 1, "it is waited for, as after any other claim"


@pytest.mark.asyncio
async def test_what_breaks_while_nothing_was_changed_is_no_harm_of_ours(
    tmp_path: Path, closing: list[Workshop]
) -> None:
    shop, _ = _shop(tmp_path)
    closing.append(shop)
    shop.plant.up["node-9"] = True
    await shop.store.tickets.open([violation("node-1", "up")])
    shop.plant.up["node-1"] = True
    observe = Plant.observe

    async def breaks() -> object:
        if shop.plant.looks == 2:
            shop.plant.up["node-9"] = False
        return await observe(shop.plant)

    shop.plant.observe = breaks  # type: ignore[method-assign, assignment]
    ended = await shop.pipeline().work(await shop.claim())
    assert (ended.state, ended.reason) == (TicketState.RESOLVED, ARRIVED)
    (proven,) = shop.entries(Kind.PROOF)
    assert (proven.payload["held"], proven.payload["harm"]) == (True, [])


@pytest.mark.asyncio
async def test_a_change_for_a_target_that_does_not_exist_is_refused(
    tmp_path: Path, closing: list[Workshop]
) -> None:
    elsewhere = Diagnose(replace(DIAGNOSIS.diagnosis, target="node-99"))
    done = Answer("done", (Finish("I have repaired it"),))
    turns = (Answer("act", (elsewhere, MEND)), Answer("act", (DIAGNOSIS, MEND)), done)
    shop = Workshop(tmp_path, Script(*turns))
    closing.append(shop)
    ended = await shop.carry()
    (refused,) = shop.entries(Kind.REFUSED)
    assert "'node-99', which does not exist" in refused.payload["result"]["stderr"]
    assert shop.mend.calls == ["node-1"], "the second diagnosis names the right target"
    assert ended.state is TicketState.RESOLVED


def test_attempts_count_per_target_and_proven_repairs_count_nowhere() -> None:
    failed, held = proof(held=False), proof(held=True)
    steps = [Step(Prove("x", target="a"), failed), Step(Prove("x", target="b"), failed)]
    assert count_failed(steps) == {"a": 1, "b": 1}
    assert count_failed([*steps, *[Step(Prove("x", target="c"), held)] * 9]) == {"a": 1, "b": 1}
    assert count_failed([*steps, Step(Prove("x", target="a"), failed)])["a"] == 2
    assert causes_of([Step(DIAGNOSIS, None), *steps]) == {"process_dead"}


def test_a_proof_expects_what_the_causes_of_all_unproven_parts_break() -> None:
    other = replace(DIAGNOSIS.diagnosis, target="node-2", cause="disk_full")
    both = [Step(DIAGNOSIS, None), Step(Diagnose(other), None)]
    assert causes_of(both, {"node-2"}) == {"disk_full"}
    assert causes_of(both, {"node-1", "node-2"}) == {"process_dead", "disk_full"}
    assert causes_of(both, {"node-3"}) == {"process_dead", "disk_full"}
    assert causes_of([*both, Step(Prove("all"), None)]) == {"disk_full"}


def test_each_change_waits_for_a_proof_of_its_own_target() -> None:
    both = [_done(DRAIN, UNDO), _done(replace(MEND, target="node-2", arguments={}), OTHER)]
    failed = replace(proof(held=False), health=Health.BROKEN)
    first = Step(Prove("x", target="node-1"), proof(held=True))
    assert list_uncovered([*both, first]) == both[1:]
    assert list_uncovered([*both, Step(Prove("x"), failed)]) == []
    assert list_uncovered([*both, Step(Prove("x", target="web"), failed)]) == [], (
        "of all consequences"
    )
    assert to_undo([*both, Step(Prove("x", target="node-1"), failed)]) == (UNDO,)
    assert to_undo([*both, first, Step(Prove("x", target="node-2"), failed)]) == (OTHER,)


def test_after_harm_all_that_is_unproven_is_suspected_and_rolled_back() -> None:
    both = [_done(DRAIN, UNDO), _done(replace(MEND, target="node-2", arguments={}), OTHER)]
    broke = replace(proof(held=False), harm=("shop/node-3/up",), critical=("shop/node-3/up",))
    steps = [Step(DIAGNOSIS, None), *both, Step(Prove("x", target="node-1"), broke)]
    assert to_undo(steps) == (OTHER, UNDO)
    assert "drain() (exit 0); mend() (exit 0)" in caused_harm(steps, ())
    held = Step(Prove("x", target="node-1"), proof(held=True))
    later = [*steps[:-1], held, Step(Prove("x", target="node-2"), broke)]
    assert "broke shop/node-3/up, which held before: mend() (exit 0)." in caused_harm(later, ())
