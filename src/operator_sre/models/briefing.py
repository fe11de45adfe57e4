"""The first message of a conversation: everything that is known of the ticket."""

from __future__ import annotations

import json
from collections.abc import Iterable

from operator_protocols.domain.cause import Cause
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.run import Briefing, Comment, LogTail, Trend
from operator_protocols.domain.target import Target
from operator_sre.models.fence import Fence, cleaned

__all__ = ["opening_text"]

CAUSES_MAX = 60
LOGS_MAX = 12


def opening_text(briefing: Briefing, fence: Fence, *, chars_max: int) -> str:
    """What a mind is told first; every part of it has its share of `chars_max`."""
    ticket, seq = briefing.ticket, briefing.observation_seq
    share = chars_max // 20
    head = (
        f"Ticket {ticket.id} on the subject {ticket.subject!r}: {ticket.severity}, opened"
        f" {ticket.opened_at.isoformat()}, attempt {max(ticket.attempts, 1)}"
        f"{', flapping' if ticket.flapping else ''}. Health of its invariants now:"
        f" {briefing.health}."
    )
    parts = [
        cleaned(head),
        fence.block("the ticket", _ticket(briefing), chars_max=3 * share),
        fence.block("targets", _targets(briefing.targets), chars_max=2 * share),
        fence.block("observation", _seen(briefing.observation), seq=seq, chars_max=5 * share),
    ]
    if briefing.trends:
        told = _trends(briefing.trends)
        title = "trends of the last half hour"
        parts.append(fence.block(title, told, seq=seq, chars_max=2 * share))
    parts += _logs(briefing.logs, fence, 5 * share)
    if briefing.comments:
        told = _comments(briefing.comments)
        parts.append(fence.block("comments of people", told, chars_max=share))
    if briefing.causes:
        told = fence.inside(_causes(briefing.causes), 2 * share)
        parts.append(f"Causes that are known for such systems (there may be others):\n{told}")
    if briefing.notes:
        notes = fence.inside(briefing.notes, share)
        parts.append(f"Notes of the people who know this system:\n{notes}")
    return "\n\n".join(parts)


def _ticket(briefing: Briefing) -> str:
    lines = [briefing.ticket.summary]
    lines += [
        f"- {one.invariant} at {one.target}: {one.severity}, broken since"
        f" {one.since.isoformat()}: {one.detail}"
        for one in briefing.ticket.violations
    ]
    return "\n".join(lines)


def _targets(targets: Iterable[Target]) -> str:
    return "\n".join(map(_target, targets)) or "none"


def _target(target: Target) -> str:
    told = [f"{target.name} ({target.kind})"]
    if target.port is not None:
        told.append(f"at {target.host}:{target.port}")
    if target.endpoints:
        told.append(f"also at {', '.join(target.endpoints)}")
    if target.depends_on:
        told.append(f"needs {', '.join(target.depends_on)}")
    if target.process is not None:
        told.append(f"pid {target.process.pid}")
    if target.log:
        told.append(f"log {target.log}")
    if target.data_dir:
        told.append(f"data in {target.data_dir}")
    if target.runs_at:
        told.append(f"commands run at {target.runs_at}")
    return "; ".join(told)


def _seen(observation: Observation) -> str:
    lines = [f"at {observation.at.isoformat()}"]
    if observation.problem:
        lines.append(f"Nothing could be seen: {observation.problem}")
    for seen in observation.seen:
        readings = json.dumps(dict(seen.readings), default=str, ensure_ascii=False)
        problem = f" PROBLEM: {seen.problem}" if seen.problem else ""
        lines.append(f"{seen.target}:{problem} {readings}")
    return "\n".join(lines)


def _trends(trends: Iterable[Trend]) -> str:
    lines = ["target reading: first -> last (lowest to highest, looks)"]
    lines += [
        f"{one.target} {one.reading}: {one.first:g} -> {one.last:g}"
        f" ({one.low:g} to {one.high:g}, {one.looks})"
        for one in trends
    ]
    return "\n".join(lines)


def _logs(logs: Iterable[LogTail], fence: Fence, chars_max: int) -> list[str]:
    """The newest lines of each log, an equal share each."""
    shown = [one for one in logs if one.lines][:LOGS_MAX]
    share = chars_max // max(len(shown), 1)
    blocks = []
    for log in shown:
        newest = fence.newest(log.lines, share)
        blocks.append(fence.block(f"log of {log.target}", newest, chars_max=share + 40))
    return blocks


def _comments(comments: Iterable[Comment]) -> str:
    """The newest first: what is too long is cut behind it."""
    lines = [f"{one.by} at {one.at.isoformat()}: {one.text}" for one in comments]
    return "\n".join(reversed(lines))


def _causes(causes: tuple[Cause, ...]) -> str:
    lines = []
    for cause in causes[:CAUSES_MAX]:
        ends = ", ".join(remedy.tool for remedy in cause.remedies)
        lines.append(f"- {cause.name}: {cause.sentence}{f' Ended by: {ends}.' if ends else ''}")
    return "\n".join(lines)
