"""The loop of a mind at work: it says what it wants and is told what became of it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import (
    Act,
    Answer,
    Ask,
    Briefing,
    Budget,
    Diagnose,
    Escalate,
    Finish,
    Misuse,
    Prove,
    Spent,
    Step,
    Turn,
    Want,
)

__all__ = ["Conclusion", "Run"]

Reply = Answer | Result | Proof | None


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How a run ended: with a proof, or with the reason why there is none."""

    proof: Proof | None
    reason: str
    category: ErrorCategory | None = None


class Run:
    """One mind's work on one ticket. `next` says what it wants, `tell` answers it.

    It is deterministic in what it is told, so feeding it the recorded answers resumes it.
    """

    def __init__(self, briefing: Briefing, *, budget: Budget, seconds: Callable[[], float]) -> None:
        self.briefing = briefing
        self.conclusion: Conclusion | None = None
        self.steps: list[Step] = []
        self.turns: list[Turn] = []
        self._budget = budget
        self._seconds = seconds
        self._started = seconds()
        self._told: tuple[Reply, int | None] = (None, None)
        self._loop = self._think()

    def next(self) -> Want | None:
        """What it wants now; None when it has come to its conclusion."""
        return next(self._loop, None)

    def tell(self, reply: Reply, seq: int | None = None) -> None:
        """What became of the last want, and the ledger entry that records it."""
        self._told = (reply, seq)

    def waited(self, seconds: float) -> None:
        """Time that people took to answer is not spent by the mind."""
        self._started += seconds

    @property
    def diagnosed(self) -> bool:
        """True once a Diagnosis was handed in; without one nothing may be changed."""
        return any(isinstance(step.want, Diagnose) for step in self.steps)

    def _think(self) -> Generator[Want, None, None]:
        while (spent := self._spent()) is None:
            yield Ask(self.briefing, tuple(self.steps), self._left(), tuple(self.turns))
            answer = self._told[0]
            answer = answer if isinstance(answer, Answer) else Answer("", ())
            begun = len(self.steps)
            yield from self._follow(answer)
            self.turns.append(Turn(answer, tuple(self.steps[begun:])))
            if self.conclusion is not None:
                return
        reason = f"The budget is used up ({spent}); nothing is proven."
        self.conclusion = Conclusion(None, reason, ErrorCategory.BUDGET_EXCEEDED)

    def _follow(self, answer: Answer) -> Generator[Want, None, None]:
        for call in answer.calls:
            match call:
                case Action():
                    yield from self._act(Act(call))
                case Diagnose():
                    yield call
                    self.steps.append(Step(call, None, self._told[1]))
                case Finish():
                    yield from self._prove(Prove(call.summary))
                case Escalate():
                    self.conclusion = Conclusion(None, call.reason)
                case Misuse():
                    self.steps.append(Step(call, Result(Outcome.REFUSED, stderr=call.why)))
            if self.conclusion is not None or self._proof_failed_just_now():
                return  # whatever else the mind had planned rests on a world that has changed

    def _act(self, want: Act) -> Generator[Want, None, None]:
        if self._commands() >= self._budget.commands_max:
            return
        yield want
        reply, seq = self._told
        result = reply if isinstance(reply, Result) else Result(Outcome.UNKNOWN)
        self.steps.append(Step(want, result, seq))

    def _prove(self, want: Prove) -> Generator[Want, None, None]:
        yield want
        proof, seq = self._told
        if not isinstance(proof, Proof):
            return
        self.steps.append(Step(want, proof, seq))
        if proof.held:
            self.conclusion = Conclusion(proof, want.claim)
        elif self._attempts() >= self._budget.attempts_max:
            reason = f"{self._attempts()} attempts were made and none held. {proof.detail}"
            self.conclusion = Conclusion(proof, reason)

    def _proof_failed_just_now(self) -> bool:
        return bool(self.steps) and isinstance(self.steps[-1].result, Proof)

    def _attempts(self) -> int:
        return sum(isinstance(step.result, Proof) for step in self.steps)

    def _commands(self) -> int:
        return sum(isinstance(step.want, Act) for step in self.steps)

    def _left(self) -> Budget:
        spent = sum((turn.answer.spent for turn in self.turns), Spent())
        return replace(
            self._budget,
            turns_max=self._budget.turns_max - len(self.turns),
            commands_max=self._budget.commands_max - self._commands(),
            seconds_max=self._budget.seconds_max - (self._seconds() - self._started),
            attempts_max=self._budget.attempts_max - self._attempts(),
            tokens_max=self._budget.tokens_max - spent.tokens,
            usd_max=self._budget.usd_max - spent.usd,
        )

    def _spent(self) -> str | None:
        left = self._left()
        if left.turns_max <= 0:
            return f"{self._budget.turns_max} turns"
        if left.commands_max <= 0:
            return f"{self._budget.commands_max} commands"
        if left.seconds_max <= 0:
            return f"{self._budget.seconds_max:g} s"
        if left.tokens_max <= 0:
            return f"{self._budget.tokens_max} tokens"
        if left.usd_max <= 0:
            return f"{self._budget.usd_max:g} dollars"
        return None
