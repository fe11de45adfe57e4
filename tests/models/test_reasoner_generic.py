"""Causes that serve every subject, also one for which nobody wrote any."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.observation import Seen, Trouble, Violation
from operator_protocols.domain.run import Answer, Ask, Briefing, Budget, Escalate, Finish
from operator_protocols.domain.tool import Parameter, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_sre.models.reasoner import Reasoner
from operator_sre.models.reasoner.belief import SURE, likelihood
from operator_sre.models.reasoner.case import case_from
from operator_sre.models.reasoner.causes import (
    GENERIC,
    NEEDS_OTHERS,
    PATIENCE,
    UNEXPLAINED,
    VAGUE,
)
from operator_sre.models.reasoner.diagnosis import choose
from operator_sre.models.reasoner.outcomes import (
    HEALTHY,
    KINDS_OF,
    OUTCOMES,
    SUFFERING,
    WORDS,
    chance,
)
from operator_sre.models.reasoner.reasoner import rank_hypotheses
from operator_sre.models.reasoner.symptoms import TROUBLES, meaning
from operator_sre.plugins import find_plugin, plugin_names
from tests.contract.samples import violation
from tests.models.world import (
    CROWDED,
    CUT,
    DEAD,
    DEAF,
    FULL,
    HUNG,
    PAUSED,
    SWOLLEN,
    TAKEN,
    TOOLS,
    WELL,
    YOUNG,
    State,
    World,
    briefing,
    target,
)


def _shop(state: State) -> dict[str, State]:
    return {"store": WELL, "node-1": state, "node-2": WELL}


def _says(invariant: str, detail: str) -> Violation:
    return replace(violation("node-1"), invariant=invariant, detail=detail)


def _first(told: Briefing) -> Ask:
    return Ask(told, (), Budget())


REPAIRED = [
    ("listens nowhere", DEAF, "not_listening", "restart_node"),
    ("files used up", CROWDED, "files_used_up", "restart_node"),
    ("memory used up", SWOLLEN, "memory_used_up", "restart_node"),
    ("dead", DEAD, "process_dead", "restart_node"),
    ("paused", PAUSED, "process_paused", "resume_node"),
    ("hung", HUNG, "process_hung", "restart_node"),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("state", "cause", "tool"), [one[1:] for one in REPAIRED], ids=[one[0] for one in REPAIRED]
)
async def test_what_a_restart_ends_is_told_apart_and_ended(
    state: State, cause: str, tool: str
) -> None:
    world = World(_shop(state))
    conclusion = await world.live(Reasoner())
    assert world.diagnoses[0].cause == cause
    assert world.done == [f"{tool}(target=node-1)"]
    assert conclusion.proof is not None


ESCALATED = [
    ("cut off", CUT, "cut_off", violation("node-1")),
    ("port taken", TAKEN, "port_occupied", violation("node-1")),
    ("disk full", FULL, "disk_full", _says("writes", "it takes no writes")),
    ("credential", WELL, "credential_refused", _says("store", "WRONGPASS invalid password")),
    ("dependency", WELL, "dependency_unreachable", _says("store", "it cannot reach the store")),
    ("drift", WELL, "settings_differ", _says("configuration_drift", "limit is 5, not 9")),
    ("overload", WELL, "overloaded", _says("load", "too many requests wait, the queue is full")),
    ("quorum", WELL, "majority_gone", _says("quorum", "2 of 3 are away")),
    ("log", WELL, "log_long", _says("log_size", "its log is 33 MB long")),
    ("slow", WELL, "way_slow", _says("high_latency", "99 of 100 take up to 900 ms")),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("state", "cause", "broken"), [one[1:] for one in ESCALATED], ids=[one[0] for one in ESCALATED]
)
async def test_what_nobody_here_may_mend_is_named_and_goes_to_a_person_untouched(
    state: State, cause: str, broken: Violation
) -> None:
    world = World(_shop(state), briefing(broken))
    conclusion = await world.live(Reasoner())
    (diagnosis,) = world.diagnoses
    assert (diagnosis.cause, diagnosis.target) == (cause, "node-1")
    assert diagnosis.choice == "escalate"
    assert world.done == []
    assert conclusion.proof is None
    assert diagnosis.summary in conclusion.reason


@pytest.mark.asyncio
async def test_who_started_a_moment_ago_is_given_time_and_nothing_is_changed() -> None:
    world = World(_shop(YOUNG), holds=lambda changes: True)
    conclusion = await world.live(Reasoner())
    assert world.done == []
    assert world.diagnoses[0].cause == "process_starting"
    assert world.diagnoses[0].choice == f"{PATIENCE}(node-1)"
    assert isinstance(world.answers[-1].calls[-1], Finish)
    assert conclusion.proof is not None


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "young",
    [
        replace(YOUNG, port="answers"),
        replace(YOUNG, port="closed"),
        replace(YOUNG, log="ERROR cannot reach the store\n"),
        replace(YOUNG, port="answers", log="ERROR cannot reach the store\n", listens=False),
    ],
    ids=["answers", "closed", "errors", "errors-and-answers"],
)
async def test_a_young_process_gets_its_time_once_even_if_that_leads_narrowly(
    young: State,
) -> None:
    waiting = f"{PATIENCE}(node-1)"
    world = World(_shop(young), holds=lambda changes: True)
    conclusion = await world.live(Reasoner())
    assert [diagnosis.choice for diagnosis in world.diagnoses] == [waiting]
    assert (world.done, conclusion.proof is not None) == ([], True)
    world = World(_shop(young), holds=lambda changes: False)
    await world.live(Reasoner())
    choices = [diagnosis.choice for diagnosis in world.diagnoses]
    assert (choices[0], choices.count(waiting), len(choices) > 1) == (waiting, 1, True)


@pytest.mark.asyncio
async def test_patience_ends() -> None:
    states = _shop(YOUNG)

    def over(changes: list[Action]) -> bool:
        states["node-1"] = HUNG  # it is older now, and serves nobody
        return bool(changes)

    world = World(states, holds=over)
    await world.live(Reasoner())
    assert [one.cause for one in world.diagnoses] == ["process_starting", "process_hung"]
    assert world.done == ["restart_node(target=node-1)"]


MEND = ToolSpec(
    "put_back",
    "Put the page back.",
    (Parameter("target", "which"),),
    Risk.LOW,
    changes=True,
    ends=("wrong_answer", "log_long", "disk_full"),
)


@pytest.mark.asyncio
async def test_a_wrong_answer_may_be_anything_so_no_lever_runs_for_it() -> None:
    wrong = _says("shop_is_open", "the shop is not open: it answered 500")
    world = World(_shop(WELL), briefing(wrong, tools=(*TOOLS, MEND)))
    await world.live(Reasoner())
    assert world.diagnoses[0].cause == "wrong_answer"
    assert world.done == []
    assert world.diagnoses[0].choice == "escalate"


@pytest.mark.asyncio
async def test_what_a_target_says_now_counts_and_not_what_it_said_when_it_broke() -> None:
    told = briefing(_says("shop_is_open", "connection refused"), tools=(*TOOLS, MEND))
    now = Seen("node-1", {"page.error": "it answered 500"})
    told = replace(told, observation=replace(told.observation, seen=(now,)))
    world = World(_shop(WELL), told)
    await world.live(Reasoner())
    assert world.diagnoses[0].cause == "wrong_answer"


@pytest.mark.asyncio
async def test_an_exclusive_tool_is_a_remedy_of_nothing_but_what_it_names() -> None:
    restart = replace(next(tool for tool in TOOLS if tool.name == "restart_node"), exclusive=True)
    others = [tool for tool in TOOLS if tool.name != "restart_node"]
    for ends, on, done in (
        ((), (), []),
        (("process_hung",), (), []),
        (("process_dead",), ("another-kind",), []),
        (("process_dead",), ("node-1",), ["restart_node(target=node-1)"]),
    ):
        told = briefing(violation("node-1"), tools=(*others, replace(restart, ends=ends, on=on)))
        world = World(_shop(DEAD), told)
        await world.live(Reasoner())
        assert world.done == done, (ends, on)


@pytest.mark.asyncio
async def test_what_holds_again_needs_no_cause() -> None:
    both = (violation("store"), violation("node-1"))
    told = replace(briefing(*both), broken=frozenset({both[1].key}))
    world = World(_shop(DEAD), told)
    await world.live(Reasoner())
    assert world.done == ["restart_node(target=node-1)"]
    places = {suspect.target for suspect in case_from(_first(told)).belief.weights}
    assert places == {"node-1", "store"}  # the one that node-1 needs
    alone = replace(told, broken=frozenset({both[0].key}))
    assert {one.target for one in case_from(_first(alone)).belief.weights} == {"store"}


@pytest.mark.asyncio
async def test_a_wrong_answer_is_not_answered_by_a_restart_that_nobody_offered() -> None:
    wrong = _says("shop_is_open", "the shop is not open: it answered 500")
    world = World(_shop(WELL), briefing(wrong))
    await world.live(Reasoner())
    assert world.done == []


@pytest.mark.asyncio
async def test_a_remedy_that_fails_says_why_and_that_is_evidence() -> None:
    taken = "Port 8001 was taken: address already in use"
    world = World(_shop(DEAD), repair=lambda action: Result(Outcome.RAN, 1, stderr=taken))
    await world.live(Reasoner())
    first, last = world.diagnoses[0], world.diagnoses[-1]
    assert first.cause == "process_dead"
    before = {one.cause: one.probability for one in first.hypotheses}
    after = {one.cause: one.probability for one in last.hypotheses}
    assert after["port_occupied"] > before.get("port_occupied", 0.0) * 3


@pytest.mark.asyncio
async def test_what_cannot_be_told_apart_is_named_and_not_guessed() -> None:
    odd = replace(HUNG, queued=0, port="closed")
    world = World(_shop(odd))
    conclusion = await world.live(Reasoner())
    (diagnosis,) = world.diagnoses
    assert world.done == []
    assert diagnosis.confidence < SURE
    likely = [one for one in diagnosis.hypotheses if one.probability >= 0.1]
    named = {cause.name: cause.sentence for cause in (*GENERIC, UNEXPLAINED)}
    for one in likely:
        if one.cause != UNEXPLAINED.name:
            assert named[one.cause] in conclusion.reason


@pytest.mark.asyncio
async def test_a_remedy_that_ends_either_cause_needs_no_choice_between_them() -> None:
    unsure = replace(HUNG, port="silent")
    told = briefing(targets=(replace(target("node-1"), data_dir="", log=""),))

    class NoLimits(State):
        def show(self, action: Action) -> Result:
            refused = Result(Outcome.REFUSED, stderr="no")
            return refused if "limits" in action.command else super().show(action)

    state = NoLimits(unsure.ps, unsure.port, queued=unsure.queued)
    world = World({"node-1": state}, told)
    await world.live(Reasoner())
    assert world.done == ["restart_node(target=node-1)"]


@pytest.mark.asyncio
async def test_a_thought_shows_the_hypotheses_before_and_after_each_answer() -> None:
    world = World(_shop(DEAD))
    await world.live(Reasoner())
    first, second = world.answers[:2]
    assert ("process_dead", "node-1") in [(one.cause, one.target) for one in first.hypotheses]
    assert {one.before for one in first.hypotheses} == {None}
    assert all(one.before is not None for one in second.hypotheses)
    assert second.reasoning.startswith("node-1: ")
    last = case_from(world.asks[1])
    assert last.before is not None
    assert rank_hypotheses(last.belief, last.before) == second.hypotheses
    assert rank_hypotheses(last.before, None) == first.hypotheses


@pytest.mark.asyncio
async def test_a_cut_off_part_is_known_before_anything_is_touched() -> None:
    world = World(_shop(CUT))
    await world.live(Reasoner())
    last: Answer = world.answers[-1]
    assert isinstance(last.calls[-1], Escalate)
    asked = [call.command for one in world.answers for call in one.calls if type(call) is Action]
    assert any(command.startswith("ls -l /proc/") for command in asked)
    case = case_from(world.asks[-1])
    assert choose(case) is None


def test_no_cause_has_the_name_of_a_fault() -> None:
    faults = {fault.name for name in plugin_names() for fault in find_plugin(name).faults}
    assert faults
    assert not faults & {cause.name for cause in GENERIC}


def test_a_cause_between_two_needs_two() -> None:
    assert {cause.name for cause in GENERIC} >= NEEDS_OTHERS
    assert {cause.name for cause in GENERIC} >= VAGUE
    alone = briefing(targets=(target("node-1"),))
    ask = case_from(_first(alone))
    names = {suspect.cause.name for suspect in ask.belief.weights}
    assert not names & NEEDS_OTHERS


def test_an_outcome_that_a_table_does_not_know_is_taken_for_what_it_is_a_kind_of() -> None:
    old = {"quiet": 0.4, "errors": 0.5, "ended": 0.05, "unknown": 0.05}
    kinds = KINDS_OF["log"]["errors"]
    assert sum(chance(old, "log", one) for one in OUTCOMES["log"]) == pytest.approx(1.0)
    assert all(0.0 < chance(old, "log", one) < old["errors"] for one in kinds)


def test_who_needs_a_part_in_trouble_says_so_and_is_not_blamed_for_it() -> None:
    suspects = case_from(_first(briefing())).belief.weights
    store = next(one for one in suspects if one.target == "store")
    assert {"node-1", "node-2"} <= store.dependants
    assert sum(SUFFERING["log"].values()) == pytest.approx(1.0)
    suffering = likelihood(store, "log", "node-1", "dependency")
    assert suffering > 10 * HEALTHY["log"]["dependency"]
    assert likelihood(store, "process", "node-1", "alive") == HEALTHY["process"]["alive"]


def test_words_mean_what_they_say() -> None:
    assert meaning("write: No space left on device") == "no_space"
    assert meaning("all is well") == ""
    doubted = "pager says: latency is high; Operator's own check finds nothing wrong"
    assert meaning(doubted) == "unconfirmed"
    assert meaning("pager says: latency is high; our own look finds nothing wrong") == "unconfirmed"
    assert set(OUTCOMES[WORDS]) == {"nothing", *TROUBLES}
    assert sum(HEALTHY[WORDS].values()) == pytest.approx(1.0)


def _weigh(broken: Violation, *seen: Seen) -> dict[tuple[str, str], float]:
    told = briefing(broken)
    ask = _first(replace(told, observation=replace(told.observation, seen=seen)))
    weights = case_from(ask).belief.weights
    return {(one.cause.name, one.target): weight for one, weight in weights.items()}


@pytest.mark.parametrize("trouble", list(Trouble))
def test_other_words_for_a_stated_trouble_change_no_diagnosis(trouble: Trouble) -> None:
    plain = replace(violation("node-1"), trouble=trouble, detail="it does not hold")
    for detail in ("quorum lost", "disk full", "it did not answer in time", ""):
        assert _weigh(replace(plain, detail=detail)) == _weigh(plain)


def test_a_stated_trouble_counts_as_much_as_the_words_that_name_it() -> None:
    for trouble, detail in (
        (Trouble.QUORUM, "the majority is gone"),
        (Trouble.UNCONFIRMED, "pager: slow; Operator's own check finds nothing wrong"),
        (Trouble.NOTHING, "it does not hold"),
    ):
        stored = replace(violation("node-1"), detail=detail)
        assert _weigh(replace(stored, trouble=trouble, detail="x")) == _weigh(stored)


def test_a_check_that_fails_on_this_side_blames_no_target() -> None:
    broken = violation("node-1")
    late = "the probe did not answer in time"
    ours = _weigh(broken, Seen("node-1", problem=late, trouble=Trouble.NOTHING))
    assert ours == _weigh(broken)
    assert ours != _weigh(broken, Seen("node-1", problem=late))


@pytest.mark.parametrize(
    "problem",
    [
        "the command took too long",
        "the observation took too long",
        "this machine has nothing left to check it with: cannot assign requested address",
    ],
)
def test_what_only_says_that_nothing_was_seen_blames_no_target(problem: str) -> None:
    assert meaning(problem) == ""


def test_words_count_for_whoever_else_may_be_to_blame() -> None:
    first = case_from(_first(briefing()))
    suspects = list(first.belief.weights)
    assert suspects
    assert min(likelihood(suspect, WORDS, "node-1", "nothing") for suspect in suspects) > 0
