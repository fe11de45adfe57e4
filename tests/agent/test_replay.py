"""A run that was cut off anywhere goes on from there, and does nothing twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_protocols.domain.run import Act, Answer, Ask, Budget, Finish, Prove
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_sre.agent.transcript import Recorded
from tests.contract.verified import verified
from tests.contract.workshop import DIAGNOSIS, MEND, Script, Workshop
from tests.models.world import briefing

pytestmark = pytest.mark.asyncio

LOOK = Action.shell("true", target="node-1")
DANGER = Action.shell("rm -rf /", target="node-1")
TURNS = (
    Answer("look twice at once", (LOOK, Action.shell("uname -s", target="node-1"))),
    Answer("try something foolish", (DANGER,)),
    Answer("I know now", (DIAGNOSIS, MEND)),
    Answer("over", (Finish("mended"),)),
)


def _again(entry: Entry) -> Draft:
    """The draft that an entry came from."""
    key = ""
    if entry.kind in {Kind.RUN_STARTED, Kind.RUN_FINISHED}:
        key = f"{entry.run}/{entry.kind.removeprefix('run_')}"
    elif entry.kind is Kind.TOOL_RESULT:
        key = f"outcome/{entry.payload['permit']}"
    return Draft(entry.kind, entry.payload, entry.ticket, entry.run, entry.actor, key)


async def _whole(folder: Path) -> list[Entry]:
    """The ledger of a run that nobody disturbed."""
    shop = Workshop(folder, Script(*TURNS))
    ended = await shop.carry()
    assert ended.state is TicketState.RESOLVED
    assert shop.mend.calls == ["node-1"]
    entries = shop.entries()
    shop.close()
    return entries


async def _resume(
    folder: Path, before: Sequence[Entry], *, mended: bool
) -> tuple[Workshop, Ticket]:
    """Another process that finds only this much in the ledger."""
    folder.mkdir()
    shop = Workshop(folder, Script(*TURNS))
    shop.new_id = (f"again-{number:08x}".ljust(32, "0") for number in range(1000))
    for entry in before:
        await shop.store.journal.append(_again(entry))
    shop.plant.up["node-1"] = mended
    ticket = await shop.claim("another")
    return shop, await shop.pipeline().work(ticket)


def _actions(entries: Sequence[Entry]) -> list[str]:
    return [
        str(entry.payload["action"]["tool"]) + str(entry.payload["action"]["arguments"])
        for entry in entries
        if entry.kind is Kind.TOOL_CALL
    ]


async def test_a_run_resumes_at_every_point_and_repeats_no_action(tmp_path: Path) -> None:
    whole = await _whole(tmp_path)
    claimed = next(at for at, entry in enumerate(whole) if entry.kind is Kind.TICKET_CLAIMED)
    ended = next(at for at, entry in enumerate(whole) if entry.kind is Kind.RUN_FINISHED)
    for cut in range(claimed + 1, ended + 1):
        before = whole[:cut]
        begun = any("mend" in action for action in _actions(before))
        shop, ticket = await _resume(tmp_path / f"cut-{cut}", before, mended=begun)
        told = shop.entries()
        assert ticket.state is TicketState.RESOLVED, f"cut behind {before[-1].kind}"
        assert len(set(_actions(told))) == len(_actions(told)) == 3, f"cut behind {before[-1].kind}"
        assert shop.mend.calls == ([] if begun else ["node-1"])
        assert verified(shop.store.entries).whole
        assert sum(entry.kind is Kind.RUN_STARTED for entry in told) == 1
        shop.close()


async def test_what_was_begun_and_never_ended_is_unknown_and_not_repeated(tmp_path: Path) -> None:
    whole = await _whole(tmp_path)
    mend = next(
        at
        for at, entry in enumerate(whole)
        if entry.kind is Kind.TOOL_CALL and entry.payload["action"]["tool"] == "mend"
    )
    shop, ticket = await _resume(tmp_path / "cut", whole[: mend + 1], mended=False)
    outcomes = {
        entry.payload["permit"]: entry.payload["result"] for entry in shop.entries(Kind.TOOL_RESULT)
    }
    lost = outcomes[whole[mend].payload["permit"]]
    assert lost["outcome"] == "unknown"
    assert "Check its effect before you repeat it" in lost["stderr"]
    assert shop.mend.calls == []
    # It was not repaired, and this mind claims that it was: the proof says otherwise.
    assert ticket.state is TicketState.ESCALATED
    last = shop.model
    assert isinstance(last, Script)
    step = next(one for one in last.asked[-1].steps if one.want == Act(MEND))
    assert isinstance(step.result, Result)
    assert step.result.outcome is Outcome.UNKNOWN
    shop.close()


async def test_the_mind_is_not_asked_again_what_it_has_answered(tmp_path: Path) -> None:
    whole = await _whole(tmp_path)
    reasons = [at for at, entry in enumerate(whole) if entry.kind is Kind.REASONING]
    shop, _ = await _resume(tmp_path / "cut", whole[: reasons[1] + 1], mended=False)
    assert isinstance(shop.model, Script)
    assert len(shop.model.asked) == len(TURNS) - 2
    shop.close()


async def test_answers_are_handed_out_only_to_what_they_answer(tmp_path: Path) -> None:
    whole = await _whole(tmp_path)
    ask = Ask(briefing(), (), Budget())
    recorded = Recorded(whole)
    told = recorded.next(ask)
    assert told is not None
    assert told[0] == TURNS[0]
    assert recorded.next(Prove("another way")) is None
    # From here on it goes its own way, and what was recorded is no answer to it.
    assert recorded.next(Act(LOOK)) is None
    assert Recorded([]).next(ask) is None


async def test_what_was_done_on_a_way_that_is_left_is_told_once(tmp_path: Path) -> None:
    whole = await _whole(tmp_path)
    recorded = Recorded(whole)
    assert recorded.find_result(MEND) is None, "it is still to be replayed"
    assert recorded.next(Ask(briefing(), (), Budget())) is not None
    assert recorded.next(Act(MEND)) is None, "another tool was used at this point"
    (result,) = [one for one in whole if one.kind is Kind.TOOL_RESULT][2:]
    told = recorded.find_result(MEND)
    assert told is not None
    assert (told[0].outcome, told[1]) == (Outcome.RAN, result.seq)
    assert recorded.find_result(MEND) is None
