"""The loop of a mind at work: bounded, in order, and without a conclusion of its own."""

from __future__ import annotations

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import (
    Act,
    Answer,
    Ask,
    Budget,
    Call,
    Diagnose,
    Escalate,
    Finish,
    Misuse,
    Prove,
    Step,
    Want,
)
from operator_sre.agent import Conclusion, Run
from tests.contract.samples import proof
from tests.contract.workshop import DIAGNOSIS
from tests.models.world import briefing

BUDGET = Budget(turns_max=5, commands_max=4, seconds_max=100.0, attempts_max=3)
RAN = Result(Outcome.RAN, 0, "fine")
_MISUSE = Misuse("fly", "{}", "There is no tool 'fly'.")


def _look(number: int) -> Action:
    return Action.shell(f"ps -p {number}")


class _Talk:
    """A run that is told what the test says, and remembers what it wanted."""

    def __init__(self, *turns: tuple[Call, ...], proofs: tuple[bool, ...] = ()) -> None:
        self.now = 0.0
        self.wants: list[Want] = []
        self._turns = list(turns)
        self._proofs = list(proofs)
        self.run = Run(briefing(), budget=BUDGET, seconds=lambda: self.now)

    def _reply(self, want: Want) -> Answer | Result | Proof | None:
        match want:
            case Ask():
                return Answer("r", self._turns.pop(0)) if self._turns else Answer("", ())
            case Act():
                return RAN
            case Prove():
                return proof(held=self._proofs.pop(0))
            case _:
                return None

    def step(self) -> bool:
        """One want and its answer; False when it is over."""
        want = self.run.next()
        if want is None:
            return False
        self.wants.append(want)
        self.run.receive(self._reply(want), len(self.wants))
        return True

    def end(self) -> Conclusion:
        while self.step():
            assert len(self.wants) < 1000
        assert self.run.conclusion is not None
        return self.run.conclusion

    @property
    def kinds(self) -> list[str]:
        return [type(want).__name__ for want in self.wants]


def test_it_begins_by_asking_the_mind() -> None:
    talk = _Talk()
    first = talk.run.next()
    assert isinstance(first, Ask)
    assert first.steps == ()
    assert first.left == BUDGET
    assert talk.run.conclusion is None


def test_parallel_calls_are_all_made_and_told_in_their_order() -> None:
    talk = _Talk((_look(1), _look(2), _look(3)), (Escalate("enough"),))
    talk.end()
    assert talk.kinds == ["Ask", "Act", "Act", "Act", "Ask"]
    last = talk.wants[-1]
    assert isinstance(last, Ask)
    assert list(last.steps) == [Step(Act(_look(n)), RAN, n + 1) for n in (1, 2, 3)]


def test_the_turns_are_limited() -> None:
    talk = _Talk(*[(_MISUSE,)] * 9)
    conclusion = talk.end()
    assert talk.kinds == ["Ask"] * 5
    assert conclusion.proof is None
    assert conclusion.category is ErrorCategory.BUDGET_EXCEEDED
    assert "5 turns" in conclusion.reason


def test_the_commands_are_limited_within_a_turn_too() -> None:
    talk = _Talk(tuple(_look(n) for n in range(10)))
    conclusion = talk.end()
    assert talk.kinds == ["Ask", *["Act"] * 4]
    assert conclusion.category is ErrorCategory.BUDGET_EXCEEDED
    assert "4 commands" in conclusion.reason


def test_the_time_is_limited() -> None:
    talk = _Talk((_look(1),), (_look(2),))
    talk.step()
    talk.step()
    talk.now = 100.0
    conclusion = talk.end()
    assert talk.kinds == ["Ask", "Act"]
    assert conclusion.category is ErrorCategory.BUDGET_EXCEEDED
    assert "100 s" in conclusion.reason


def test_time_that_people_took_is_not_spent() -> None:
    now = [0.0]
    run = Run(briefing(), budget=BUDGET, seconds=lambda: now[0])
    run.next()
    run.receive(Answer("look", (_look(1),)))
    run.next()
    now[0] = 7200.0
    run.exclude_wait(7150.0)
    run.receive(Result(Outcome.RAN, 0))
    ask = run.next()
    assert isinstance(ask, Ask)
    assert ask.left.seconds_max == 50.0


def test_the_mind_is_told_what_is_left() -> None:
    talk = _Talk((_look(1), _look(2), Finish("done")), (), proofs=(False,))
    talk.now = 0.0
    for _ in range(4):
        talk.step()
    talk.now = 30.0
    talk.step()
    last = talk.wants[-1]
    assert isinstance(last, Ask)
    assert last.left == Budget(turns_max=4, commands_max=2, seconds_max=70.0, attempts_max=2)


def test_a_claim_is_only_a_claim_until_it_is_proven() -> None:
    talk = _Talk((Finish("all is well"),), proofs=(True,))
    conclusion = talk.end()
    assert talk.wants[1] == Prove("all is well")
    assert conclusion == Conclusion(proof(held=True), "all is well")


def test_a_claim_that_does_not_hold_ends_nothing() -> None:
    talk = _Talk((Finish("done"),), (Escalate("I was wrong"),), proofs=(False,))
    conclusion = talk.end()
    assert talk.kinds == ["Ask", "Prove", "Ask"]
    assert conclusion == Conclusion(None, "I was wrong")


def test_a_claim_without_any_proof_ends_nothing() -> None:
    run = Run(briefing(), budget=BUDGET, seconds=lambda: 0.0)
    run.next()
    run.receive(Answer("", (Finish("done"),)))
    assert run.next() == Prove("done")
    run.receive(None)
    assert isinstance(run.next(), Ask)
    assert run.conclusion is None


def test_attempts_are_limited() -> None:
    talk = _Talk(*[(Finish("done"),)] * 5, proofs=(False,) * 5)
    conclusion = talk.end()
    assert talk.kinds == ["Ask", "Prove"] * 3
    assert conclusion.proof is not None
    assert not conclusion.proof.held
    assert "3 attempts" in conclusion.reason


@pytest.mark.parametrize("held", [False, True])
def test_what_was_planned_behind_a_proof_is_dropped(held: bool) -> None:
    talk = _Talk((Finish("done"), _look(1), Escalate("x")), (Escalate("y"),), proofs=(held,))
    talk.end()
    assert "Act" not in talk.kinds
    assert talk.kinds == (["Ask", "Prove"] if held else ["Ask", "Prove", "Ask"])


def test_what_was_planned_behind_giving_up_is_dropped() -> None:
    talk = _Talk((Escalate("x"), _look(1), Finish("y")))
    assert talk.end() == Conclusion(None, "x")
    assert talk.kinds == ["Ask"]


def test_a_diagnosis_is_handed_in_once_it_is_recorded() -> None:
    talk = _Talk((DIAGNOSIS, _look(1)), (Escalate("x"),))
    diagnosed = []
    for _ in range(3):
        talk.step()
        diagnosed.append(talk.run.diagnosed)
    taken = talk.wants[1]
    assert isinstance(taken, Diagnose)
    assert taken.diagnosis.summary == DIAGNOSIS.diagnosis.summary
    # It counts from the moment at which what was told of it is taken up.
    assert diagnosed == [False, False, True]
    assert talk.run.steps[0] == Step(taken, None, 2)


def test_an_action_of_which_nothing_was_told_is_unknown() -> None:
    run = Run(briefing(), budget=BUDGET, seconds=lambda: 0.0)
    run.next()
    run.receive(Answer("", (_look(1),)))
    run.next()
    run.receive(None)
    run.next()
    assert run.steps == [Step(Act(_look(1)), Result(Outcome.UNKNOWN), None)]


def test_an_answer_that_is_none_costs_a_turn_and_nothing_else() -> None:
    run = Run(briefing(), budget=BUDGET, seconds=lambda: 0.0)
    for _ in range(5):
        assert isinstance(run.next(), Ask)
        run.receive(None)
    assert run.next() is None
    assert run.conclusion is not None
    assert run.conclusion.category is ErrorCategory.BUDGET_EXCEEDED


def test_a_run_that_is_over_wants_nothing() -> None:
    talk = _Talk((Escalate("x"),))
    talk.end()
    assert talk.run.next() is None
