"""Notifying people: of what the ledger tells, without ever holding it up."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from operator_protocols.errors import MissingExtraError, OperatorError, UsageError
from operator_sre.app.redaction import open_redactor
from operator_sre.app.secret_store import read_secret
from operator_sre.notify.channel import PREFIX, AppriseChannel, Follower, Terms, channels_of
from operator_sre.notify.notice import Message

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "ChannelStatus",
    "Tried",
    "configured_channels",
    "notify_status",
    "run_notices",
    "send_notices",
    "send_test",
]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """The state of one channel. `holder` is the sending process, `behind` its backlog.

    `lost` notices could not be delivered since a message last was.
    """

    name: str
    configured: bool
    sent: int
    failed: int
    lost: int
    behind: int
    problem: str = ""
    sent_at: datetime | None = None
    failed_at: datetime | None = None
    holder: str = ""


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of a test message."""

    name: str
    problem: str = ""


def notify_status(app: App) -> Sequence[ChannelStatus]:
    """Every channel that is configured, or that ever was sent to."""
    names = (
        [channel.name for channel in configured_channels(app)]
        if app.config.notices.urls_file
        else []
    )
    known = {known.name.removeprefix(PREFIX): known for known in app.store.cursors.find(PREFIX)}
    newest = app.store.entries.newest(limit=1)
    head = newest[0].seq if newest else 0
    views = []
    for name in dict.fromkeys([*names, *known]):
        cursor = known.get(name)
        note = cursor.note if cursor else {}
        views.append(
            ChannelStatus(
                name=name,
                configured=name in names,
                sent=int(note.get("sent", 0)),
                failed=int(note.get("failed", 0)),
                lost=int(note.get("lost", 0)),
                behind=max(0, head - cursor.seq) if cursor else 0,
                problem=str(note.get("problem", "")),
                sent_at=_moment(note.get("sent_at")),
                failed_at=_moment(note.get("failed_at")),
                holder=cursor.holder if cursor and cursor.until > app.clock.now() else "",
            )
        )
    return views


async def send_notices(app: App) -> None:
    """Notify beside other work, until cancelled; whatever is wrong with it is only logged.

    Returns at once if notifications are not configured.
    """
    if not app.config.notices.urls_file:
        return
    try:
        await run_notices(app)
    except OperatorError as error:  # a ticket matters more than word of it
        log.error("notifications are not sent: %s", error)


async def run_notices(app: App) -> None:
    """Notify until cancelled. UsageError if notifications are not configured."""
    channels = configured_channels(app)
    _must_be_installed()
    redactor = open_redactor(app.config)
    settings, store = app.config.notices, app.store
    terms = Terms(
        settings.events,
        settings.min_severity,
        settings.group_s,
        settings.per_hour_max,
        settings.web_url,
        settings.quiet,
    )
    # What is new by process: a lease is not to be taken for one's own after a restart.
    holder = f"{app.initiator.host}:{app.initiator.process.pid}:{app.new_id()[:8]}"
    async with asyncio.TaskGroup() as group:
        for channel in channels:
            follower = Follower(
                channel=channel,
                cursors=store.cursors,
                entries=store.entries,
                tickets=store.tickets,
                approvals=store.approvals,
                clock=app.clock,
                holder=holder,
                terms=terms,
                redact=redactor.text,
                recipient=channel.recipient,
            )
            group.create_task(follower.run())


async def send_test(app: App) -> Sequence[Tried]:
    """One test message to every channel, each tried once."""
    channels = configured_channels(app)
    _must_be_installed()
    message = Message(
        "Operator: test notification",
        "Operator can send notifications to you.\n\noperator notify status",
    )
    problems = await asyncio.gather(*(channel.send(message) for channel in channels))
    return [Tried(channel.name, why) for channel, why in zip(channels, problems, strict=True)]


def configured_channels(app: App) -> list[AppriseChannel]:
    """The channels of [notify]; UsageError when there are none."""
    file = app.config.notices.urls_file
    if not file:
        raise UsageError(
            "Notifications are not configured.",
            next_step='Add to operator.toml: [notify] urls_file = "FILE".',
        )
    channels = channels_of(read_secret(file))
    if not channels:
        raise UsageError(f"{file!r} contains no URL.", next_step="Write one URL on each line.")
    return channels


def _must_be_installed() -> None:
    if importlib.util.find_spec("apprise") is None:
        raise MissingExtraError("notify", needed_for="Notifying people")


def _moment(seconds: Any) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int | float) else None
