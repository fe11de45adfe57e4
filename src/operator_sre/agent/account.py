"""What a run knows when it ends without a proof, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import Act, Diagnose, Prove, Step
from operator_protocols.domain.tool import ToolSpec
from operator_sre.agent.attempts import undone_by, undos_of

__all__ = ["account_of", "is_change", "left_of", "looking_tools", "unproven"]

TRIED_MAX = 5
COMMAND_CHARS_MAX = 120


def account_of(steps: Sequence[Step], looking: Iterable[str]) -> str:
    """The last diagnosis, what was tried, what of it was left, and what the last proof said."""
    known = frozenset(looking)
    told = [_diagnosis(steps), _tried(steps, known), left_of(steps, known), _proof(steps)]
    return " ".join(one for one in told if one)


def left_of(steps: Sequence[Step], looking: Iterable[str]) -> str:
    """What was changed and is so still, and what was taken back; empty when nothing was changed."""
    known, undos = frozenset(looking), undos_of(steps)
    left: list[str] = []
    back: list[str] = []
    for at, step in enumerate(steps):
        itself = isinstance(step.want, Act) and step.want.action in undos
        if not itself and _diagnosed(steps[:at]) and is_change(step, known):
            (back if undone_by(step, steps[at + 1 :]) else left).append(_deed(step))
    told = [f"Left changed: {_several(left)}."] if left else []
    return " ".join(told + ([f"Taken back: {_several(back)}."] if back else []))


def looking_tools(tools: Iterable[ToolSpec]) -> frozenset[str]:
    """The names of tools that change nothing."""
    return frozenset(spec.name for spec in tools if not spec.changes)


def is_change(step: Step, looking: Iterable[str]) -> bool:
    """True when an action ran that may have changed something."""
    if not isinstance(step.want, Act) or not isinstance(step.result, Result):
        return False
    ran = step.result.outcome is not Outcome.REFUSED and not step.late
    return ran and step.want.action.tool not in looking


def unproven(steps: Sequence[Step], looking: Iterable[str]) -> bool:
    """True when something was changed after a diagnosis that no proof has spoken about yet."""
    known = frozenset(looking)
    since = max((at for at, one in enumerate(steps) if isinstance(one.want, Prove)), default=-1)
    undos = undos_of(steps)
    return _diagnosed(steps) and any(
        is_change(step, known) and not (isinstance(step.want, Act) and step.want.action in undos)
        for step in steps[since + 1 :]
    )


def _diagnosed(steps: Sequence[Step]) -> bool:
    return any(isinstance(step.want, Diagnose) for step in steps)


def _diagnosis(steps: Sequence[Step]) -> str:
    for step in reversed(steps):
        if isinstance(step.want, Diagnose):
            found = step.want.diagnosis
            return f"Last diagnosis: {found.summary} Chosen: {found.choice}."
    return "No diagnosis was handed in."


def _tried(steps: Sequence[Step], looking: frozenset[str]) -> str:
    begun = next((at for at, one in enumerate(steps) if isinstance(one.want, Diagnose)), len(steps))
    tried = [_deed(step) for step in steps[begun:] if is_change(step, looking)]
    if not tried:
        return "Nothing was changed."
    return f"Tried: {_several(tried)}."


def _several(deeds: Sequence[str]) -> str:
    more = f" and {len(deeds) - TRIED_MAX} before" if len(deeds) > TRIED_MAX else ""
    return f"{'; '.join(deeds[-TRIED_MAX:])}{more}"


def _deed(step: Step) -> str:
    assert isinstance(step.want, Act)
    assert isinstance(step.result, Result)
    result = step.result
    how = f"exit {result.exit_code}" if result.outcome is Outcome.RAN else str(result.outcome)
    return f"{step.want.action.command[:COMMAND_CHARS_MAX]} ({how})"


def _proof(steps: Sequence[Step]) -> str:
    for step in reversed(steps):
        if isinstance(step.result, Proof):
            return f"Last proof: {step.result.detail}"
    return ""
