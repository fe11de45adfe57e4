"""What a mind is told that came from outside, each text with where it stands. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import Briefing
from operator_protocols.domain.target import Target
from operator_sre.agent.suspicion import folded

__all__ = ["briefed", "proven", "said"]

Texts = Iterator[tuple[str, str]]
NAME_CHARS_MAX = 40


def briefed(briefing: Briefing) -> Texts:
    """The texts of a briefing that others wrote: names, readings, problems, logs and comments."""
    for one in briefing.ticket.violations:
        where = f"{_short(one.invariant)} at {_short(one.target)}"
        yield f"the name of the violation {where}", f"{one.invariant} {one.target}"
        yield f"the detail of the violation {where}", one.detail
    for target in briefing.targets:
        yield f"the target {_short(target.name)}", _told_of(target)
    yield from _seen(briefing.observation)
    for trend in briefing.trends:
        yield f"the name of a reading of {_short(trend.target)}", trend.reading
    for log in briefing.logs:
        yield f"the log of {_short(log.target)}", "\n".join(log.lines)
    for comment in briefing.comments:
        yield f"the comment of {_short(comment.by)}", comment.text


def said(action: Action, result: Result) -> Texts:
    """The texts that a command or a tool gave back."""
    what = _short(action.command)
    yield f"what {what} wrote", result.stdout
    yield f"what {what} wrote of errors", result.stderr
    for name, value in (result.data or {}).items():
        yield f"the reading {_short(name)} of {what}", f"{name} {value}"


def proven(proof: Proof) -> Texts:
    """The texts of a proof."""
    yield "what was seen for a proof", "\n".join([proof.detail, *proof.harm])


def _seen(observation: Observation) -> Texts:
    yield "why nothing could be seen", observation.problem
    for one in observation.seen:
        target = _short(one.target)
        yield f"the problem of {target}", one.problem
        for name, value in one.readings.items():
            if isinstance(value, str):
                yield f"the reading {_short(name)} of {target}", value
        yield f"the name of a reading of {target}", "\n".join(map(str, one.readings))


def _told_of(target: Target) -> str:
    told = (target.name, target.kind, target.host, *target.endpoints, *target.depends_on)
    return "\n".join([*told, target.log, target.data_dir])


def _short(name: str) -> str:
    name = folded(name)
    return name if len(name) <= NAME_CHARS_MAX else f"{name[:NAME_CHARS_MAX]}..."
