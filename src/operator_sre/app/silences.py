"""Silences and maintenance windows: what is broken and opens no ticket, for a while."""

from __future__ import annotations

import difflib
import glob
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

from operator_protocols.domain.health import Health
from operator_protocols.domain.silence import Silence
from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.errors import NotFoundError, OperatorError, UsageError
from operator_sre.app.persons import administrator, signed_in
from operator_sre.app.wiring import App
from operator_sre.config import seconds_of

__all__ = [
    "PLANNED",
    "add_silence",
    "end_silence",
    "list_silences",
    "parse_end",
    "silences_now",
    "time_of",
]

SILENCE_S_MAX = 30 * 86_400.0
TEXT_MAX = 200
# The author of such a silence; it ends when the change is rolled back.
PLANNED = "planned"
# It is computed again at every check, so its end does not matter.
UNTIL_S = 86_400.0


def silences_now(
    app: App, subject: str = "", specs: Iterable[ToolSpec] | None = None
) -> Sequence[Silence]:
    """What is silent at this moment, by people or by windows; of one subject or of all.

    Planned changes by tools count for one subject; `specs` are its tools, if known.
    """
    now = app.clock.now()
    found = list(app.store.silences.find(at=now))
    for configured in app.config.subjects:
        if subject in ("", configured.name):
            found += [
                silence
                for window in configured.windows
                for silence in window.silences(configured.name, now)
            ]
    if specs is None and any(
        condition.health is Health.BROKEN for condition in app.store.conditions.of(subject)
    ):
        # Other commands report a subject that cannot be opened.
        with suppress(OperatorError):
            specs = app.controls(subject).registry.specs
    return [*found, *planned_now(app, subject, specs or ())]


def list_silences(app: App, *, every: bool) -> Sequence[Silence]:
    """Present and future silences and open windows; or all."""
    now = app.clock.now()
    known = app.store.silences.find()
    windows = [silence for silence in silences_now(app) if silence.id == "window"]
    if every:
        return [*windows, *known]
    return [
        *windows,
        *(silence for silence in known if silence.ended_at is None and silence.until > now),
    ]


async def add_silence(
    app: App, *, subject: str, target: str, invariant: str, until: str, for_: str, reason: str
) -> Silence:
    """Keep what matches these patterns quiet, from now until a time or for a span."""
    if not reason.strip():
        raise UsageError("A silence requires a reason.", next_step="Give one with --reason.")
    for text in (subject, target, invariant, reason):
        if len(text) > TEXT_MAX or not text:
            raise UsageError(f"A pattern or a reason has 1 to {TEXT_MAX} characters.")
    if subject == target == invariant == "*":
        raise UsageError(
            "This would silence everything.",
            next_step="Name a --subject, a --target or an --invariant; '*' is allowed in each.",
        )
    now = app.clock.now()
    if bool(until) == bool(for_):
        raise UsageError(
            "A silence requires one end.", next_step="Use --for 2h, or --until 2030-01-31T06:00."
        )
    ends = parse_end(for_, until, now, s_max=SILENCE_S_MAX)
    if (ends - now).total_seconds() > SILENCE_S_MAX:
        raise UsageError(
            "A silence lasts 30 days at most.", next_step="Renew it later if you still need it."
        )
    _must_match_a_subject(app, subject)
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


def _must_match_a_subject(app: App, pattern: str) -> None:
    """NotFoundError for a pattern that no subject matches: such a silence would silence nothing."""
    known = [*app.subjects(), *(trigger.name for trigger in app.config.triggers)]
    live = [state for state in TicketState if state.live]
    known += [ticket.subject for ticket in app.store.tickets.find(states=live)]
    if pattern == "*" or any(fnmatchcase(name, pattern) for name in known):
        return
    near = difflib.get_close_matches(pattern, known, n=1, cutoff=0.0)
    hint = f"Did you mean {near[0]!r}?" if near else "Add one with: operator subjects init"
    raise NotFoundError(f"No subject matches {pattern!r}.", next_step=hint)


async def end_silence(app: App, silence: str, *, reason: str) -> Silence:
    """End a silence; what is still broken opens a ticket at the next check."""
    if silence == "window":
        raise UsageError(
            "A maintenance window ends by itself.", next_step="Change it in operator.toml."
        )
    # Ending a silence only shows more, so it requires no admin.
    await app.store.silences.end(silence, by=signed_in(), reason=reason)
    return next(known for known in app.store.silences.find() if known.id == silence)


def parse_end(for_: str, until: str, now: datetime, *, s_max: float) -> datetime:
    """The end of a duration or a future time; more than `s_max` is left to the caller."""
    if for_:
        span = seconds_of(for_)
        if not span:
            raise UsageError(
                f"{for_!r} is not a valid duration.", next_step="Write it as 90s, 30m, 2h or 1d."
            )
        ends = now + timedelta(seconds=min(span, 2 * s_max))
    else:
        ends = time_of(until)
    if ends <= now:
        raise UsageError(f"{until!r} is in the past.", next_step="Name a time in the future.")
    return ends


def time_of(text: str) -> datetime:
    """A moment as people write it; without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a valid time.",
            next_step="Write it as 2030-01-31T06:00 (UTC) or with +02:00.",
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
