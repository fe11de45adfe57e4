"""How the operator itself does: metrics for Prometheus, and a heartbeat for whoever misses us."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.watcher import Watch
from operator_protocols.errors import OperatorError
from operator_sre.app.confirmations import find as find_confirmations
from operator_sre.app.notices import send_notices
from operator_sre.app.secrets import read_secret
from operator_sre.app.telemetry import send_spans, telemetry_status
from operator_sre.notify.follower import PREFIX
from operator_sre.telemetry.counting import WORDS_MAX, LedgerCounts, LookCounts
from operator_sre.telemetry.heartbeat import Heartbeat
from operator_sre.telemetry.metrics import CONTENT_TYPE, Channel, Figures, exposition
from operator_sre.telemetry.server import MetricsServer

if TYPE_CHECKING:
    from operator_protocols.domain.health import Health
    from operator_sre.app.wiring import App

__all__ = ["Meter", "attend", "attended", "send_heartbeats", "serve_metrics"]

T = TypeVar("T")
Watches = Callable[[], Sequence[Watch]]
FOLLOW_S = 1.0
AGAIN_S = 15.0
BEAT_S_MAX = 10.0
PAGE = 1000
ALERTS_MAX = 10_000
LIVE = tuple(state for state in TicketState if state.live)
log = logging.getLogger(__name__)


async def attend(app: App, watches: Watches) -> None:
    """What goes on beside watching, until cancelled: notices, metrics, the heartbeat and traces.

    None of it ever stops the watching.
    """
    async with asyncio.TaskGroup() as group:
        group.create_task(send_notices(app))
        group.create_task(serve_metrics(app, watches))
        group.create_task(send_heartbeats(app, watches))
        group.create_task(send_spans(app))


@contextlib.asynccontextmanager
async def attended(app: App, watches: Watches) -> AsyncIterator[None]:
    """The same for the length of an `async with`, whatever becomes of it."""
    beside = asyncio.ensure_future(attend(app, watches))
    beside.add_done_callback(_told)
    try:
        yield
    finally:
        beside.cancel()
        await asyncio.wait([beside])


def _told(beside: asyncio.Future[None]) -> None:
    if not beside.cancelled() and (error := beside.exception()):
        log.error("nobody is notified, and no metrics are served: %r", error)


class Meter:
    """Counts while it follows the ledger, and asks the store for the rest when it is read."""

    def __init__(self, app: App, watches: Watches) -> None:
        self._app = app
        self._watches = watches
        self._ledger = LedgerCounts()
        self._looks = LookCounts()
        self._errors = 0
        self._seq: int | None = None

    def follow(self) -> None:
        """Count what has come since the last time; from the head on when it is the first."""
        self._looks.take(self._watches())
        entries = self._app.store.entries
        if self._seq is None:
            newest = self._ask(lambda: entries.newest(limit=1))
            self._seq = None if newest is None else newest[0].seq if newest else 0
            return
        while page := self._ask(lambda: entries.after(self._seq or 0, limit=PAGE)):
            self._ledger.take(page)
            self._seq = page[-1].seq

    def figures(self) -> Figures:
        """Everything as it is now."""
        from operator_sre import __version__

        store = self._app.store
        newest = self._ask(lambda: store.entries.newest(limit=1))
        pending = self._ask(lambda: store.approvals.find(states=[ApprovalState.PENDING]))
        tickets = self._ask(lambda: store.tickets.find(states=LIVE)) or ()
        firing = self._ask(lambda: store.alerts.find(firing=True, limit=ALERTS_MAX)) or ()
        triggers = {one.name for one in self._app.config.triggers}
        traces = self._ask(lambda: telemetry_status(self._app))
        confirmations = self._ask(lambda: find_confirmations(self._app, pending_only=True))
        return Figures(
            version=__version__,
            ledger=self._ledger,
            looks=self._looks,
            head=None if newest is None else newest[0].seq if newest else 0,
            behind=self._ask(store.search.behind),
            approvals=None if pending is None else len(pending),
            confirmations=None if confirmations is None else len(confirmations),
            spans={"sent": traces.sent, "dropped": traces.dropped} if traces else {},
            tickets=Counter((one.state.value, one.severity.value) for one in tickets),
            health=self._health(),
            firing=Counter(one.trigger for one in firing if one.trigger in triggers),
            channels=self._channels(),
            store_errors=self._errors,
        )

    def _health(self) -> Mapping[str, Health]:
        from operator_sre.app.health import health_of

        found: dict[str, Health] = {}
        for watch in self._watches()[:WORDS_MAX]:
            seen = self._ask(partial(health_of, self._app, watch.subject))
            if seen is not None:
                found[watch.subject] = seen.health
        return found

    def _channels(self) -> Sequence[Channel]:
        return [
            Channel(
                one.name.removeprefix(PREFIX),
                *(int(one.note.get(word, 0)) for word in ("sent", "failed", "lost")),
            )
            for one in (self._ask(lambda: self._app.store.cursors.find(PREFIX)) or ())[:WORDS_MAX]
        ]

    def _ask(self, question: Callable[[], T]) -> T | None:
        try:
            return question()
        except OperatorError as error:  # what cannot be asked is left out, and counted
            self._errors += 1
            log.debug("cannot read the store: %s", error)
            return None


async def serve_metrics(app: App, watches: Watches) -> None:
    """Serve our figures where the setting says, until cancelled; returns where it says nowhere."""
    address = str(app.config.values["metrics"])
    if not address:
        return
    host, _, port = address.rpartition(":")
    meter = Meter(app, watches)

    async def render() -> bytes:
        meter.follow()
        # Reading the store takes a while, and nobody is to wait for it.
        return await asyncio.to_thread(exposition, meter.figures)

    server = MetricsServer(host.strip("[]"), int(port), content_type=CONTENT_TYPE, render=render)
    while True:
        try:
            async with server:
                log.info("metrics are at http://%s/metrics", address)
                while True:
                    meter.follow()
                    await app.clock.sleep(FOLLOW_S)
        except OSError as error:  # watching goes on without them
            log.error("metrics cannot be served at %s: %s", address, error.strerror or error)
        await app.clock.sleep(AGAIN_S)


async def send_heartbeats(app: App, watches: Watches) -> None:
    """Tell the URL of the setting that we look, until cancelled; returns where there is none."""
    file = str(app.config.values["heartbeat_url_file"])
    if not file:
        return
    heartbeat = Heartbeat(
        watches=watches,
        beat=lambda: _beat(file),
        clock=app.clock,
        every_s=app.config.number("heartbeat_s"),
    )
    await heartbeat.run()


async def _beat(file: str) -> str:
    """Why the heartbeat was not taken, without a word of where it goes; or ""."""
    import httpx2

    logging.getLogger("httpx2").setLevel(logging.WARNING)  # below that it logs addresses
    try:
        async with asyncio.timeout(BEAT_S_MAX), httpx2.AsyncClient(timeout=BEAT_S_MAX) as client:
            answer = await client.get(read_secret(file).strip())
    except OperatorError as error:
        return str(error)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TimeoutError) as error:
        return type(error).__name__
    return "" if answer.is_success else f"status {answer.status_code}"
