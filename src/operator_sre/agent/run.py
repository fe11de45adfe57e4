"""The loop of a run: it yields what the agent wants and receives what became of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import dataclass, replace

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.diagnosis import Evidence
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
    Step,
    Turn,
    Want,
)
from operator_sre.agent.progress import ARRIVED, Progress, limit_reached, used_up
from operator_sre.agent.transcript import Stopped

__all__ = ["Conclusion", "Run", "check_diagnosis"]

Reply = Answer | Result | Proof | Stopped | None

CLAIM_CHARS_MAX = 300
SILENT_TURNS_MAX = 3

UNDO_TRIES_MAX = 3  # to roll a change back while others change the same subject


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How a run ended: with a proof, or with the reason why there is none."""

    proof: Proof | None
    reason: str
    category: ErrorCategory | None = None
    limit: str = ""


class Run:
    """An agent's work on one ticket. `next` returns what it wants, `receive` answers that.

    It is deterministic in what it receives, so feeding it the recorded answers resumes it. `shown`
    are observations recorded before it was resumed. With `well`, everything held on arrival: that
    is proven or refuted first. `harmless` tells whether an action changes nothing.
    """

    def __init__(
        self,
        briefing: Briefing,
        *,
        budget: Budget,
        seconds: Callable[[], float],
        shown: Iterable[int] = (),
        well: bool = False,
        harmless: Callable[[Action], bool] = lambda action: False,
    ) -> None:
        self._shown = set(shown)
        self._well = well
        self._done = Progress(budget, harmless)
        self._stopped: Stopped | None = None
        self.brief(briefing)
        self.conclusion: Conclusion | None = None
        self.steps = self._done.steps
        self.turns = self._done.turns
        self._budget = budget
        self._seconds = seconds
        self._started = seconds()
        self._received: tuple[Reply, int | None] = (None, None)
        self._loop = self._think()

    def next(self) -> Want | None:
        """What the agent wants now; None after its conclusion."""
        return next(self._loop, None)

    def receive(self, reply: Reply, seq: int | None = None) -> None:
        """Take what became of the last want, and the ledger entry that records it."""
        self._received = (reply, seq)
        self._stopped = reply if isinstance(reply, Stopped) else self._stopped

    def brief(self, briefing: Briefing) -> None:
        """Take a new briefing; entries shown before may still be cited."""
        self.briefing = briefing
        self._done.brief(briefing)
        if briefing.observation_seq is not None:
            self._shown.add(briefing.observation_seq)

    def exclude_wait(self, seconds: float) -> None:
        """Time spent on approvals does not count."""
        self._started += seconds

    @property
    def diagnosed(self) -> bool:
        """True once a diagnosis was submitted; nothing may be changed before."""
        return any(isinstance(step.want, Diagnose) for step in self.steps)

    @property
    def unproven(self) -> bool:
        """True while something was changed that no proof has covered yet."""
        return self._done.unproven()

    @property
    def given_up(self) -> frozenset[str]:
        """The targets whose attempts are used up: nothing is changed there any more."""
        return self._done.given_up()

    @property
    def unproven_targets(self) -> frozenset[str]:
        """The targets whose changes succeeded and are not proven yet."""
        return self._done.unproven_targets()

    @property
    def changes(self) -> list[Step]:
        """The steps that may have changed something, with diagnoses and proofs."""
        return self._done.effective_steps()

    def _think(self) -> Generator[Want, None, None]:
        if self._well:
            yield from self._prove(Prove(ARRIVED, arrival=True))
            if self.conclusion is not None:
                return
        while not (spent := used_up(self._remaining(), self._budget)):
            yield Ask(self.briefing, tuple(self.steps), self._remaining(), tuple(self.turns))
            if self._stopped and self._stopped.spent:
                spent = self._stopped.reason
                break
            if self._stopped:
                yield from self._give_up(self._stopped)
                return
            reply, first = self._received[0], len(self.steps)
            answer = reply if isinstance(reply, Answer) else Answer("", ())
            if answer is reply:
                yield from self._follow(answer)
            self.turns.append(Turn(answer, tuple(self.steps[first:])))
            if self.conclusion is not None:
                return
        # An agent that never calls finish may still have resolved the incident.
        if self._done.unproven():
            yield from self._prove(Prove("The budget is used up after a change."))
        if self.conclusion is None:
            reason = f"The budget is used up ({spent}); nothing is proven. {self._done.account()}"
            # A timeout of the model ends the run before its own limit is reached.
            limit = limit_reached(self._remaining()) or "seconds"
            self.conclusion = Conclusion(None, reason, ErrorCategory.BUDGET_EXCEEDED, limit)

    def _give_up(self, why: Stopped) -> Generator[Want, None, None]:
        """Escalate: a change that was never proven and does not help is rolled back."""
        if self._done.unproven():
            yield from self._prove(Prove("The agent gives up after a change.", hasty=True))
        done = self._done.account() if self._stopped else self._done.left_changed()
        category = why.category or self._done.obstacle()
        self.conclusion = Conclusion(None, f"{why.reason} {done}".strip(), category)

    def _follow(self, answer: Answer) -> Generator[Want, None, None]:
        if not answer.calls and self._done.unproven():  # after a change it claims success
            yield from self._prove(
                Prove(answer.reasoning[:CLAIM_CHARS_MAX] or "The model gave no reasoning.")
            )
        elif not answer.calls:
            silent = [turn for turn in self.turns[1 - SILENT_TURNS_MAX :] if not turn.answer.calls]
            if len(silent) == SILENT_TURNS_MAX - 1:
                why = f"The agent made no call in {SILENT_TURNS_MAX} turns in a row."
                yield from self._give_up(Stopped(why))
        for call in answer.calls:
            match call:
                case Action():
                    if self._done.commands() >= self._budget.commands_max:
                        return
                    yield from self._act(Act(call))
                case Diagnose():
                    taken = check_diagnosis(call, self._shown | self._done.citable_seqs())
                    if isinstance(taken, Misuse):
                        self.steps.append(Step(taken, Result(Outcome.REFUSED, stderr=taken.why)))
                    else:
                        yield taken
                        self.steps.append(Step(taken, None, self._received[1]))
                case Finish():
                    yield from self._prove(Prove(call.summary, target=call.target))
                case Escalate():
                    yield from self._give_up(Stopped(call.reason))
                case Misuse():
                    self.steps.append(Step(call, Result(Outcome.REFUSED, stderr=call.why)))
            if self.conclusion is not None or isinstance(call, Finish):
                return  # the rest of its plan was for a state that has changed

    def _act(self, want: Act) -> Generator[Want, None, None]:
        yield want
        reply, seq = self._received
        result = reply if isinstance(reply, Result) else Result(Outcome.UNKNOWN)
        self.steps.append(Step(want, result, seq))

    def _prove(self, want: Prove) -> Generator[Want, None, None]:
        yield want
        proof, seq = self._received
        if not isinstance(proof, Proof):
            return
        self.steps.append(Step(want, proof, seq))
        if proof.held:
            if not proof.target:
                self.conclusion = Conclusion(proof, want.claim)
            else:
                self._done.note_proven()
            return
        harm = self._done.caused_harm()
        for undo in self._done.to_undo():
            # No agent proposes it again when it comes late, so it is tried again here.
            for _ in range(UNDO_TRIES_MAX):
                yield from self._act(Act(undo))
                if not self.steps[-1].late:
                    break
        if harm:
            reason = f"{harm} No further action was taken. {self._done.left_changed()}".strip()
            self.conclusion = Conclusion(proof, reason, self._done.obstacle())
            return
        failed = self._done.attempts(want.target)
        # A target without attempts left does not hold up the others.
        if failed >= self._budget.attempts_max and not (want.target and self._has_others()):
            reason = f"{failed} attempts were made, none proven. {self._done.account()}"
            self.conclusion = Conclusion(proof, reason, self._done.obstacle())

    def _has_others(self) -> bool:
        """Whether something else of the ticket is broken, or was changed and is not proven yet."""
        briefing, given_up = self.briefing, self.given_up
        broken = {each.target for each in briefing.ticket.violations if each.key in briefing.broken}
        return bool(broken - given_up) or self.unproven

    def _remaining(self) -> Budget:
        return self._done.remaining(self._seconds() - self._started)


def check_diagnosis(call: Diagnose, citable: Collection[int]) -> Diagnose | Misuse:
    """The diagnosis with each unproven claim marked, or what it lacks.

    `citable` are the entries with observations, results and proofs of this run. A sentence that
    cites anything else is a claim.
    """
    lacks = {
        "it names no cause": not call.diagnosis.cause.strip(),
        "it has no evidence": not any(
            evidence.sentence.strip() for evidence in call.diagnosis.evidence
        ),
        "it has no rejected alternatives": not any(
            alternative.cause.strip() and alternative.why_rejected.strip()
            for alternative in call.diagnosis.alternatives
        ),
    }
    if missing := [lack for lack, is_lacking in lacks.items() if is_lacking]:
        why = f"The diagnosis was rejected: {' and '.join(missing)}. Submit a complete one."
        return Misuse("diagnose", call.diagnosis.summary, why)
    diagnosis = replace(
        call.diagnosis,
        timeline=tuple(_mark_claim(evidence, citable) for evidence in call.diagnosis.timeline),
        evidence=tuple(_mark_claim(evidence, citable) for evidence in call.diagnosis.evidence),
    )
    return call if diagnosis == call.diagnosis else Diagnose(diagnosis)


def _mark_claim(evidence: Evidence, citable: Collection[int]) -> Evidence:
    return evidence if evidence.seq in citable else replace(evidence, seq=None)
