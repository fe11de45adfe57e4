"""How a run ends without a mind that says so, and which diagnoses count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.diagnosis import Diagnosis, Evidence
from operator_protocols.domain.run import (
    Act,
    Answer,
    Ask,
    Budget,
    Diagnose,
    Escalate,
    Misuse,
    Prove,
    Want,
)
from operator_sre.agent import Run
from operator_sre.agent.progress import account_of, is_change, read_only_tools, unproven, used_up
from operator_sre.agent.run import check_diagnosis
from operator_sre.agent.transcript import Stopped
from tests.contract.samples import proof
from tests.contract.workshop import DIAGNOSIS
from tests.models.world import TOOLS, briefing

LOOK = Action("check_port", {"target": "node-1"}, target="node-1")
RESTART = Action("restart_node", {"target": "node-1"}, target="node-1")
RAN = Result(Outcome.RAN, 0, "done")
BUDGET = Budget(turns_max=4, attempts_max=2)


def _drive(
    *answers: Answer, holds: tuple[bool, ...] = (), result: Result = RAN
) -> tuple[Run, list[Want]]:
    """A run with these answers, the last one again and again."""
    run, wants = Run(briefing(), budget=BUDGET, seconds=lambda: 0.0), []
    held, turn = list(holds), 0
    while (want := run.next()) is not None:
        wants.append(want)
        assert len(wants) < 100
        match want:
            case Ask():
                run.receive(answers[min(turn, len(answers) - 1)], len(wants))
                turn += 1
            case Act():
                run.receive(result, len(wants))
            case Prove():
                run.receive(proof(held=held.pop(0)), len(wants))
            case _:
                run.receive(None, len(wants))
    return run, wants


def _kinds(wants: list[Want]) -> list[str]:
    return [type(want).__name__ for want in wants]


def test_a_mind_that_asks_for_nothing_more_is_put_to_the_proof() -> None:
    run, wants = _drive(
        Answer("act", (DIAGNOSIS, RESTART)), Answer("It should be fine.", ()), holds=(True,)
    )
    assert _kinds(wants) == ["Ask", "Diagnose", "Act", "Ask", "Prove"]
    assert run.conclusion is not None
    assert run.conclusion.proof is not None
    assert run.conclusion.reason == "It should be fine."
    assert run.turns[-1].steps[0].want == wants[-1]


def test_silence_ends_a_run_and_starts_no_proof_when_nothing_was_changed() -> None:
    run, wants = _drive(Answer("hm", ()), holds=(False, False))
    assert _kinds(wants) == ["Ask"] * 3
    assert run.conclusion is not None
    assert run.conclusion.proof is None
    assert "no call in 3 turns" in run.conclusion.reason


def test_a_mind_that_only_looks_after_its_change_is_proven_at_the_end() -> None:
    answers = (Answer("act", (DIAGNOSIS, RESTART)), Answer("looking on", (LOOK,)))
    run, wants = _drive(*answers, holds=(True,))
    assert _kinds(wants)[-1] == "Prove"
    assert run.conclusion is not None
    assert run.conclusion.proof is not None
    assert run.conclusion.proof.held


def test_without_a_change_the_end_of_the_budget_needs_no_proof() -> None:
    run, wants = _drive(Answer("looking", (LOOK,)))
    assert "Prove" not in _kinds(wants)
    assert run.conclusion is not None
    assert run.conclusion.category is ErrorCategory.BUDGET_EXCEEDED
    assert "No diagnosis was submitted. Nothing was changed." in run.conclusion.reason


def test_the_end_of_the_budget_tells_all_that_is_known() -> None:
    answers = (Answer("act", (DIAGNOSIS, RESTART)), Answer("looking on", (LOOK,)))
    run, _ = _drive(*answers, holds=(False,), result=Result(Outcome.RAN, 3))
    assert run.conclusion is not None
    assert run.conclusion.category is ErrorCategory.BUDGET_EXCEEDED
    for part in (
        DIAGNOSIS.diagnosis.summary,
        "mend(node-1)",
        "restart_node",
        "(exit 3)",
        proof(held=False).detail,
    ):
        assert part in run.conclusion.reason


def test_a_run_that_is_stopped_says_why_and_wants_nothing_more() -> None:
    run = Run(briefing(), budget=BUDGET, seconds=lambda: 0.0)
    run.next()
    run.receive(Stopped("The model does not answer."))
    assert run.next() is None
    assert run.conclusion is not None
    assert run.conclusion.reason.startswith("The model does not answer. No diagnosis")


def _with(**changes: object) -> Diagnose:
    return Diagnose(replace(DIAGNOSIS.diagnosis, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (_with(evidence=()), "no evidence"),
        (_with(evidence=(Evidence("  ", 7),)), "no evidence"),
        (_with(alternatives=()), "no rejected alternatives"),
        (_with(cause=" "), "no cause"),
    ],
)
def test_an_empty_diagnosis_opens_no_door(call: Diagnose, word: str) -> None:
    run, wants = _drive(Answer("act", (call,)), Answer("", (Escalate("x"),)))
    assert "Diagnose" not in _kinds(wants)
    assert not run.diagnosed
    (step,) = run.turns[0].steps
    assert isinstance(step.want, Misuse)
    assert isinstance(step.result, Result)
    assert step.result.outcome is Outcome.REFUSED
    assert word in step.result.stderr


def _handed_in(wants: list[Want]) -> Diagnosis:
    (found,) = [want for want in wants if isinstance(want, Diagnose)]
    return found.diagnosis


def test_evidence_that_points_elsewhere_is_a_claim() -> None:
    # 7 is the look of the briefing; 2 the result of LOOK; 3 the answer in which it is handed in.
    evidence = tuple(Evidence(f"sentence {seq}", seq) for seq in (7, 2, 3, 99, None))
    call = _with(evidence=evidence, timeline=(Evidence("then", 98),))
    answers = (Answer("look", (LOOK,)), Answer("so", (call,)), Answer("", (Escalate("x"),)))
    _, wants = _drive(*answers)
    found = _handed_in(wants)
    assert [one.seq for one in found.evidence] == [7, 2, None, None, None]
    assert [one.sentence for one in found.evidence] == [one.sentence for one in evidence]
    assert found.timeline[0].seq is None


def test_a_look_before_an_interruption_may_still_be_cited() -> None:
    run = Run(briefing(), budget=BUDGET, seconds=lambda: 0.0, shown=(5,))
    run.brief(replace(briefing(), observation_seq=9))
    run.next()
    evidence = tuple(Evidence("seen", seq) for seq in (5, 7, 9, 6))
    run.receive(Answer("so", (_with(evidence=evidence),)), 10)
    want = run.next()
    assert isinstance(want, Diagnose)
    assert [one.seq for one in want.diagnosis.evidence] == [5, 7, 9, None]


def test_calls_behind_the_last_command_are_never_begun() -> None:
    run = Run(briefing(), budget=Budget(commands_max=1), seconds=lambda: 0.0)
    run.next()
    run.receive(Answer("", (LOOK, LOOK, Escalate("x"))), 1)
    assert run.next() == Act(LOOK)
    run.receive(RAN, 2)
    assert run.next() is None
    assert run.conclusion is not None
    assert "1 commands" in run.conclusion.reason
    assert len(run.turns[0].steps) == 1


def test_what_is_pure_says_the_same_by_itself() -> None:
    looking = read_only_tools(TOOLS)
    assert "check_port" in looking
    assert "restart_node" not in looking
    assert account_of((), looking) == "No diagnosis was submitted. Nothing was changed."
    run, _ = _drive(Answer("act", (LOOK, RESTART)), Answer("", (Escalate("x"),)))
    assert [is_change(step, looking) for step in run.steps] == [False, True]
    assert not unproven(run.steps, looking), "nothing counts as a change before a diagnosis"
    assert check_diagnosis(DIAGNOSIS, {4}) == DIAGNOSIS
    assert used_up(Budget(), Budget()) == ""
    assert used_up(replace(Budget(), usd_max=0.0), Budget()) == "2 dollars"
