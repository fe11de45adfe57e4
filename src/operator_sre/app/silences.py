"""Silences and maintenance windows: what is broken and opens no ticket, for a while."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from operator_protocols.domain.health import Health
from operator_protocols.domain.silence import Silence
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app.approvals import signed_in
from operator_sre.app.persons import administrator
from operator_sre.app.planned import planned_now
from operator_sre.app.wiring import App
from operator_sre.config import seconds_of

__all__ = ["add_silence", "end_silence", "list_silences", "silences_now", "time_of"]

SILENCE_S_MAX = 30 * 86_400.0
TEXT_MAX = 200


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
    return [*found, *planned_now(app, subject, _specs(app, subject) if specs is None else specs)]


def _specs(app: App, subject: str) -> Iterable[ToolSpec]:
    """The tools of a subject of which something is broken; none of one that cannot be had."""
    if not any(one.health is Health.BROKEN for one in app.store.conditions.of(subject)):
        return ()
    try:
        return app.hands(subject).registry.specs
    except OperatorError:  # whoever asks what is silent is told of that elsewhere
        return ()


def list_silences(app: App, *, every: bool) -> Sequence[Silence]:
    """Those that hold or are still to come, windows that are open too; or all there ever were."""
    now = app.clock.now()
    known = app.store.silences.find()
    windows = [one for one in silences_now(app) if one.id == "window"]
    if every:
        return [*windows, *known]
    return [*windows, *(one for one in known if one.ended_at is None and one.until > now)]


async def add_silence(
    app: App,
    *,
    subject: str,
    target: str,
    invariant: str,
    until: str,
    for_: str,
    reason: str,
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
    ends = _end(until, for_, now)
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


def _end(until: str, for_: str, now: datetime) -> datetime:
    if bool(until) == bool(for_):
        raise UsageError(
            "A silence has one end.", next_step="Say --for 2h, or --until 2030-01-31T06:00."
        )
    if for_:
        span = seconds_of(for_)
        if span is None or not span:
            raise UsageError(
                f"{for_!r} is no span of time.", next_step="Write it as 90s, 30m, 2h or 1d."
            )
        ends = now + timedelta(seconds=min(span, 2 * SILENCE_S_MAX))
    else:
        ends = time_of(until)
    if ends <= now:
        raise UsageError(f"{until!r} is over already.", next_step="Name a time to come.")
    if (ends - now).total_seconds() > SILENCE_S_MAX:
        raise UsageError(
            "A silence lasts 30 days at most.", next_step="Renew it then, if it is still needed."
        )
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
