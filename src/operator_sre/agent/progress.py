"""What a run did so far, the rest of its budget, and its last obstacle.

After a failed proof the next attempt needs another plan, and its changes are rolled back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.health import Health
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import Act, Briefing, Budget, Diagnose, Prove, Spent, Step, Turn
from operator_protocols.domain.tool import ToolSpec

__all__ = [
    "ARRIVED",
    "Progress",
    "account_of",
    "caused_harm",
    "causes_of",
    "count_failed",
    "deadline_of",
    "is_change",
    "left_of",
    "limit_reached",
    "list_uncovered",
    "obstacle_of",
    "read_only_tools",
    "repeats",
    "to_undo",
    "undone_by",
    "undos_of",
    "unproven",
    "unreadable",
    "used_up",
]

# The claim about a ticket that needed no action.
ARRIVED = "All invariants hold again; Operator changed nothing."
REDACTED = "[REDACTED:"
TRIED_MAX = 5
COMMAND_CHARS_MAX = 120


class Progress:
    """The steps and turns of one run. `harmless` tells whether an action changes nothing."""

    def __init__(self, budget: Budget, harmless: Callable[[Action], bool]) -> None:
        self.steps: list[Step] = []
        self.turns: list[Turn] = []
        self._budget = budget
        self._harmless = harmless
        self._read_only: frozenset[str] = frozenset()
        # How many turns and actions the targets took that are proven already.
        self._turns_proven = self._commands_proven = 0

    def note_proven(self) -> None:
        """One target of several is proven: the others get turns and actions of their own."""
        self._turns_proven, self._commands_proven = len(self.turns), self._count_commands()

    def brief(self, briefing: Briefing) -> None:
        """Which tools there are now, and which of them are read-only."""
        self._read_only = read_only_tools(briefing.tools)

    def effective_steps(self) -> list[Step]:
        """The steps that may have changed something."""
        return [
            step
            for step in self.steps
            if not (isinstance(step.want, Act) and self._harmless(step.want.action))
        ]

    def account(self) -> str:
        """What was tried and what came of it."""
        return account_of(self.effective_steps(), self._read_only)

    def left_changed(self) -> str:
        """What was changed and is still so."""
        return left_of(self.effective_steps(), self._read_only)

    def unproven(self) -> bool:
        """Whether something was changed after the last proof."""
        return unproven(self.effective_steps(), self._read_only)

    def unproven_targets(self) -> frozenset[str]:
        """The targets of the changes that succeeded and that no proof has covered yet."""
        left = list_uncovered(self.effective_steps(), self._read_only)
        done = [each for each in left if isinstance(each.result, Result) and each.result.ok]
        return frozenset(filter(None, map(_target_of, done)))

    def caused_harm(self) -> str:
        """What the changes before the last proof broke that must never break."""
        return caused_harm(self.effective_steps(), self._read_only)

    def to_undo(self) -> tuple[Action, ...]:
        """What rolls back the changes that the last proof found of no help."""
        return to_undo(self.effective_steps())

    def obstacle(self) -> ErrorCategory | None:
        """What stood in the way, if it has a category."""
        return obstacle_of(self.steps, self.effective_steps())

    def citable_seqs(self) -> set[int]:
        """The entries of results and proofs, which a diagnosis may cite."""
        found = [step.seq for step in self.steps if isinstance(step.want, Act | Prove)]
        return {seq for seq in found if seq is not None}

    def attempts(self, target: str | None = None) -> int:
        """How many plans failed at a target; without one, at the target with the most of those
        that still have attempts.
        """
        failed = count_failed(self.steps)
        if target is not None:
            return failed[target]
        given_up = self.given_up()
        return max((count for name, count in failed.items() if name not in given_up), default=0)

    def given_up(self) -> frozenset[str]:
        """The targets whose attempts are used up; others of the same ticket have theirs."""
        failed = count_failed(self.steps)
        spent = self._budget.attempts_max
        return frozenset(name for name, count in failed.items() if name and count >= spent)

    def commands(self) -> int:
        """How many actions were asked for since a target was proven."""
        return self._count_commands() - self._commands_proven

    def _count_commands(self) -> int:
        return sum(isinstance(step.want, Act) for step in self.steps)

    def remaining(self, elapsed_s: float) -> Budget:
        """What is left of the budget after so many seconds."""
        spent = sum((turn.answer.spent for turn in self.turns), Spent())
        return replace(
            self._budget,
            turns_max=self._budget.turns_max - len(self.turns) + self._turns_proven,
            commands_max=self._budget.commands_max - self.commands(),
            seconds_max=self._budget.seconds_max - elapsed_s,
            attempts_max=self._budget.attempts_max - self.attempts(),
            tokens_max=self._budget.tokens_max - spent.tokens,
            usd_max=self._budget.usd_max - spent.usd,
        )


def limit_reached(left: Budget) -> str:
    """The name of the first limit that was reached; empty while there is some of each."""
    limits = {
        "turns": left.turns_max,
        "commands": left.commands_max,
        "seconds": left.seconds_max,
        "tokens": left.tokens_max,
        "usd": left.usd_max,
    }
    return next((name for name, rest in limits.items() if rest <= 0), "")


def used_up(left: Budget, budget: Budget) -> str:
    """The first limit that was reached, as people write it; empty while there is some of each."""
    limits = (
        (left.turns_max, f"{budget.turns_max} turns"),
        (left.commands_max, f"{budget.commands_max} commands"),
        (left.seconds_max, f"{budget.seconds_max:g} s"),
        (left.tokens_max, f"{budget.tokens_max} tokens"),
        (left.usd_max, f"{budget.usd_max:g} dollars"),
    )
    return next((limit for rest, limit in limits if rest <= 0), "")


def obstacle_of(steps: Sequence[Step], effective: Sequence[Step]) -> ErrorCategory | None:
    """The category of the last thing that failed with one, unless an action has succeeded since."""
    for step in reversed(steps):
        if not isinstance(step.want, Act) or not isinstance(step.result, Result):
            continue
        category = step.result.data.get("error_category")
        if category in tuple(ErrorCategory):
            return ErrorCategory(str(category))
        if step.result.ok and step in effective:
            return None
    return None


def account_of(steps: Sequence[Step], read_only: Iterable[str]) -> str:
    """The last diagnosis, what was tried, what of it remains, and what the last proof found."""
    known = frozenset(read_only)
    diagnoses = [
        (at, step.want.diagnosis)
        for at, step in enumerate(steps)
        if isinstance(step.want, Diagnose)
    ]
    proofs = [step.result for step in steps if isinstance(step.result, Proof)]
    sentences = ["No diagnosis was submitted.", "Nothing was changed.", left_of(steps, known)]
    if diagnoses:
        (first, _), (_, last) = diagnoses[0], diagnoses[-1]
        sentences[0] = f"Last diagnosis: {last.summary} Chosen: {last.choice}."
        tried = [_describe_action(step) for step in steps[first:] if is_change(step, known)]
        if tried:
            sentences[1] = f"Tried: {_list_few(tried)}."
    if proofs:
        sentences.append(f"Last proof: {proofs[-1].detail}")
    return " ".join(filter(None, sentences))


def left_of(steps: Sequence[Step], read_only: Iterable[str]) -> str:
    """What was changed and remains so, what failed, and what was rolled back; "" when nothing."""
    known, undos = frozenset(read_only), undos_of(steps)
    left: list[str] = []
    back: list[str] = []
    failed: list[str] = []
    for at, step in enumerate(steps):
        itself = isinstance(step.want, Act) and step.want.action in undos
        if itself or not _has_diagnosis(steps[:at]) or not is_change(step, known):
            continue
        result = step.result
        assert isinstance(result, Result)
        if undone_by(step, steps[at + 1 :]):
            back.append(_describe_action(step))
        elif result.outcome is Outcome.RAN and not result.ok:
            failed.append(_describe_action(step))
        elif result.data.get("changed") is not False:
            left.append(_describe_action(step))
    sentences = [f"Left changed: {_list_few(left)}."] if left else []
    sentences += [f"Failed: {_list_few(failed)}."] if failed else []
    sentences += [f"Rolled back: {_list_few(back)}."] if back else []
    return " ".join(sentences)


def caused_harm(steps: Sequence[Step], read_only: Iterable[str]) -> str:
    """What the changes before the last proof broke that must never break; "" when nothing."""
    proof = steps[-1].result if steps else None
    if not isinstance(proof, Proof) or not proof.critical:
        return ""
    changes = [_describe_action(step) for step in list_uncovered(steps[:-1], read_only)]
    if not changes:
        return ""
    broken = ", ".join(proof.critical)
    return f"Operator's action broke {broken}, which held before: {_list_few(changes)}."


def read_only_tools(tools: Iterable[ToolSpec]) -> frozenset[str]:
    """The names of tools that change nothing."""
    return frozenset(spec.name for spec in tools if not spec.changes)


def is_change(step: Step, read_only: Iterable[str]) -> bool:
    """True when an action ran that may have changed something."""
    if not isinstance(step.want, Act) or not isinstance(step.result, Result):
        return False
    ran = step.result.outcome is not Outcome.REFUSED and not step.late
    return ran and step.want.action.tool not in read_only


def list_uncovered(steps: Iterable[Step], read_only: Iterable[str] = ()) -> list[Step]:
    """The changes that no proof has covered yet, oldest first.

    A proof of one target covers what was changed there, and leaves other changes open. Where
    nothing was changed at its target, it is about the consequences of all that was.
    """
    known, left = frozenset(read_only), list[Step]()
    for step in steps:
        if isinstance(step.want, Prove):
            target = step.want.target
            others = [each for each in left if _target_of(each) not in ("", target)]
            is_about_one = target and any(_target_of(each) == target for each in left)
            left = others if is_about_one else []
        elif is_change(step, known):
            left.append(step)
    return left


def _target_of(step: Step) -> str:
    assert isinstance(step.want, Act)
    return str(step.want.action.arguments.get("target") or step.want.action.target)


def unproven(steps: Sequence[Step], read_only: Iterable[str]) -> bool:
    """True when something was changed after a diagnosis and not verified since."""
    undos = undos_of(steps)
    return _has_diagnosis(steps) and any(
        isinstance(step.want, Act) and step.want.action not in undos
        for step in list_uncovered(steps, read_only)
    )


def causes_of(steps: Iterable[Step], targets: Collection[str] = ()) -> frozenset[str]:
    """What the newest diagnosis of each part blames, since the last proof of everything.

    With targets, only the diagnoses of these, where there are any.
    """
    newest: dict[str, str] = {}
    last = ""
    for step in steps:
        if isinstance(step.want, Prove) and not step.want.target:
            newest = {last: newest[last]} if last in newest else {}
        elif isinstance(step.want, Diagnose):
            last = step.want.diagnosis.target
            newest[last] = step.want.diagnosis.cause
    wanted = {cause for name, cause in newest.items() if name in targets}
    return frozenset(wanted or newest.values())


def _has_diagnosis(steps: Sequence[Step]) -> bool:
    return any(isinstance(step.want, Diagnose) for step in steps)


def _list_few(actions: Sequence[str]) -> str:
    more = f" and {len(actions) - TRIED_MAX} before" if len(actions) > TRIED_MAX else ""
    return f"{'; '.join(actions[-TRIED_MAX:])}{more}"


def _describe_action(step: Step) -> str:
    assert isinstance(step.want, Act)
    assert isinstance(step.result, Result)
    result = step.result
    how = f"exit {result.exit_code}" if result.outcome is Outcome.RAN else str(result.outcome)
    return f"{step.want.action.command[:COMMAND_CHARS_MAX]} ({how})"


def count_failed(steps: Iterable[Step]) -> Counter[str]:
    """How many attempts failed at each target; repairs that hold count nowhere.

    An attempt is a proof after a change. The check on arrival is none.
    """
    return Counter(
        step.want.target
        for step in steps
        if isinstance(step.want, Prove)
        and isinstance(step.result, Proof)
        and not (step.want.arrival or step.result.held)
    )


def repeats(steps: Sequence[Step], action: Action) -> str:
    """Why this change makes no sense again: it was made, and a proof failed after it."""
    failed = [
        place
        for place, step in enumerate(steps)
        if isinstance(step.want, Prove)
        and isinstance(step.result, Proof)
        and not step.result.held
        and step.want.target in ("", action.target)
    ]
    undos = undos_of(steps)
    for step in steps[: failed[-1] if failed else 0]:
        if not isinstance(step.want, Act) or not isinstance(step.result, Result):
            continue
        if step.result.outcome not in {Outcome.RAN, Outcome.TIMED_OUT}:
            continue
        done = step.want.action
        same = (done.command, done.target) == (action.command, action.target)
        if same and action not in undos:
            return (
                f"{action.command} already ran and the proof after it failed; choose another"
                " plan, or escalate."
            )
    return ""


def to_undo(steps: Sequence[Step]) -> tuple[Action, ...]:
    """The actions that roll back what the last proof found of no help, newest first.

    What cannot be observed is left as it is. After harm everything unproven is rolled back, because
    any of it may have caused it.
    """
    last = steps[-1].result if steps else None
    if not isinstance(last, Proof) or last.held or not (last.harm or last.health is Health.BROKEN):
        return ()
    open_still = [] if last.harm else list_uncovered(steps)
    known = undos_of(steps)
    undos: list[Action] = []
    for step in reversed(list_uncovered(steps[:-1])):
        undo = step.result.undo if isinstance(step.result, Result) and step.result.ok else None
        itself = isinstance(step.want, Act) and step.want.action in known
        if undo is not None and not itself and not any(step is each for each in open_still):
            undos.append(undo)
    return tuple(undos)


def unreadable(steps: Iterable[Step], action: Action) -> str:
    """Why this cannot be rolled back: its record lacks a secret."""
    text = repr(replace(action, reasoning="", expected=""))
    if REDACTED not in text or action not in undos_of(steps):
        return ""
    return f"{action.command} cannot run: a secret in it was redacted. Roll it back manually."


def deadline_of(steps: Sequence[Step], tools: Iterable[ToolSpec]) -> float | None:
    """How long the slowest change that no proof has covered needs until its effect shows."""
    settles = {spec.name: spec.settle_s for spec in tools}
    tools_used = [
        step.want.action.tool for step in list_uncovered(steps) if isinstance(step.want, Act)
    ]
    return max((settles.get(name, 0.0) for name in tools_used), default=0.0) or None


def undos_of(steps: Iterable[Step]) -> list[Action]:
    """The actions that roll back what these steps did."""
    results = [step.result for step in steps if isinstance(step.result, Result)]
    return [result.undo for result in results if result.undo is not None]


def undone_by(step: Step, later: Iterable[Step]) -> bool:
    """Whether a later step rolled this one back."""
    undo = step.result.undo if isinstance(step.result, Result) else None
    return undo is not None and any(
        isinstance(after.want, Act)
        and after.want.action == undo
        and isinstance(after.result, Result)
        and after.result.ok
        for after in later
    )
