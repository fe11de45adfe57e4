"""Silences and maintenance windows: what is broken and opens no ticket, for a while."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from operator_protocols.domain.health import Health
from operator_protocols.domain.silence import Silence
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app.persons import administrator, signed_in
from operator_sre.app.wiring import App
from operator_sre.config import seconds_of

__all__ = [
    "PLANNED",
    "add_silence",
    "end_silence",
    "list_silences",
    "parse_end",
    "planned_now",
    "silences_now",
    "time_of",
]

SILENCE_S_MAX = 30 * 86_400.0
TEXT_MAX = 200
# What such a silence is called; it ends when somebody takes back what was done.
PLANNED = "planned"
# It is asked for again at every look, so that its end does not matter.
UNTIL_S = 86_400.0


def silences_now(
    app: App, subject: str = "", specs: Iterable[ToolSpec] | None = None
) -> Sequence[Silence]:
    """What is silent at this moment, by people or by windows; of one subject or of all.

    What people planned with a tool is told of one subject; `specs` are its tools, where known.
    """
    now = app.clock.now()
    found = list(app.store.silences.find(at=now))
    for one in app.config.subjects:
        if subject in ("", one.name):
            found += [
                silence for window in one.windows for silence in window.silences(one.name, now)
            ]
    if specs is None and any(
        one.health is Health.BROKEN for one in app.store.conditions.of(subject)
    ):
        # Whoever asks what is silent is told elsewhere of a subject that cannot be had.
        with suppress(OperatorError):
            specs = app.controls(subject).registry.specs
    return [*found, *planned_now(app, subject, specs or ())]


def list_silences(app: App, *, every: bool) -> Sequence[Silence]:
    """Those that hold or are still to come, windows that are open too; or all there ever were."""
    now = app.clock.now()
    known = app.store.silences.find()
    windows = [one for one in silences_now(app) if one.id == "window"]
    if every:
        return [*windows, *known]
    return [*windows, *(one for one in known if one.ended_at is None and one.until > now)]


async def add_silence(
    app: App, *, subject: str, target: str, invariant: str, until: str, for_: str, reason: str
) -> Silence:
    """Keep what matches these patterns quiet, from now until a time or for a span."""
    if not reason.strip():
        raise UsageError("A silence needs a reason.", next_step="Say why with --reason.")
    for text in (subject, target, invariant, reason):
        if len(text) > TEXT_MAX or not text:
            raise UsageError(f"A pattern or reason has between 1 and {TEXT_MAX} characters.")
    if subject == target == invariant == "*":
        raise UsageError(
            "This would silence everything.",
            next_step="Name a --subject, a --target or an --invariant; they may have a '*'.",
        )
    now = app.clock.now()
    if bool(until) == bool(for_):
        raise UsageError(
            "A silence has one end.", next_step="Say --for 2h, or --until 2030-01-31T06:00."
        )
    ends = parse_end(for_, until, now, s_max=SILENCE_S_MAX)
    if (ends - now).total_seconds() > SILENCE_S_MAX:
        raise UsageError(
            "A silence lasts 30 days at most.", next_step="Renew it then, if it is still needed."
        )
    person = administrator(app, "silence")
    silence = Silence(
        id=f"quiet-{app.new_id()[:8]}",
        starts_at=now,
        until=ends,
        by=person,
        reason=reason,
        subject=subject,
        target=target,
        invariant=invariant,
    )
    await app.store.silences.add(silence)
    return silence


async def end_silence(app: App, silence: str, *, reason: str) -> Silence:
    """It counts no more; what is still broken opens its ticket at the next look."""
    if silence == "window":
        raise UsageError(
            "A maintenance window ends by itself.", next_step="Change it in operator.toml."
        )
    # Whoever may see may also want to see more, so that nobody needs to be an admin for this.
    await app.store.silences.end(silence, by=signed_in(), reason=reason)
    return next(one for one in app.store.silences.find() if one.id == silence)


def parse_end(for_: str, until: str, now: datetime, *, s_max: float) -> datetime:
    """When a span or a time to come ends; whether it is longer than `s_max` is told by the end."""
    if for_:
        span = seconds_of(for_)
        if not span:
            raise UsageError(
                f"{for_!r} is no span of time.", next_step="Write it as 90s, 30m, 2h or 1d."
            )
        ends = now + timedelta(seconds=min(span, 2 * s_max))
    else:
        ends = time_of(until)
    if ends <= now:
        raise UsageError(f"{until!r} is over already.", next_step="Name a time to come.")
    return ends


def time_of(text: str) -> datetime:
    """A moment as people write it; without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no time.", next_step="Write it as 2030-01-31T06:00 (UTC) or with +02:00."
        ) from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def planned_now(app: App, subject: str, specs: Iterable[ToolSpec]) -> Sequence[Silence]:
    """What people planned with tools that say what they break.

    What an agent did and left behind is an incident like any other.
    """
    planning = {spec.name: spec for spec in specs if spec.plans}
    if not planning:
        return []
    undoing = {spec.undo for spec in planning.values() if spec.undo}
    until = app.clock.now() + timedelta(seconds=UNTIL_S)
    return [
        Silence(
            id=PLANNED,
            starts_at=change.at,
            until=until,
            by=change.by,
            reason=f"{change.tool} by {change.by}",
            subject=glob.escape(subject),
            target=glob.escape(change.target),
            invariant=glob.escape(invariant),
        )
        for change in app.store.limit_usage.newest(subject, sorted({*planning, *undoing}))
        if change.planned and change.tool in planning
        for invariant in planning[change.tool].plans
    ]
