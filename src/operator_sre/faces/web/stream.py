"""The event stream: one follower of the ledger serves all viewers, independently of each other.

Each event names an entry and the parts of pages that it concerns; a page loads these parts again. A
client that reconnects names the last entry that it saw, and gets every later one.
"""

from __future__ import annotations

import asyncio
import json
import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import Request, Response

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.errors import OperatorError
from operator_sre.app.audit import behind, tail
from operator_sre.app.story import brief_of
from operator_sre.drawing import visible
from operator_sre.faces.api.routes import ask
from operator_sre.faces.web.responses import hub_of, session_of
from operator_sre.faces.web.routes import router_of, shows

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from operator_sre.app.wiring import App
    from operator_sre.faces.web.sessions import Session, Sessions

__all__ = [
    "BEAT",
    "STREAM_S_MAX",
    "TOPICS",
    "Events",
    "Hub",
    "Say",
    "event_of",
    "note_of",
    "router",
    "topics_of",
]

# A client that reads nothing for so long is disconnected, and connects again.
SEND_S_MAX = 20.0
STREAM_S_MAX = 3600.0
# A comment that keeps proxies from closing an idle stream.
BEAT = b": still here\n\n"
Say = Callable[[bytes], Awaitable[None]]


class Events(Response):
    """A stream that speaks with `tell` and cleans up with `leave`."""

    media_type = "text/event-stream"

    def __init__(self) -> None:
        super().__init__(None, 200, {"x-accel-buffering": "no"})
        # Starlette counts an empty body; a stream has no length.
        self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]

    @abstractmethod
    async def tell(self, say: Say, gone: asyncio.Future[None]) -> None:
        """Send all events; `gone` is done when the page is closed."""

    @abstractmethod
    def leave(self) -> None:
        """Clean up, however the stream ended."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what comes."""

        async def say(data: bytes) -> None:
            async with asyncio.timeout(SEND_S_MAX):
                await send({"type": "http.response.body", "body": data, "more_body": True})

        async def wait_for_disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        gone = asyncio.ensure_future(wait_for_disconnect())
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            await self.tell(say, gone)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OperatorError) as error:
            # A page that is still there comes back, and misses nothing.
            log.warning("a stream ended early: %s", str(error) or "the client stopped reading")
        finally:
            self.leave()
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)


WORDS_MAX = 160
# Each topic with how the kinds begin that belong to it. A ticket and a run have their own besides.
TOPICS: dict[str, tuple[str, ...]] = {
    "health": ("observed", "alert", "silence", "ticket_opened", "ticket_resolved", "ticket_closed"),
    "tickets": ("ticket",),
    "approvals": ("approval", "kill_switch", "policy"),
    "confirmations": ("confirmation",),
    "rules": ("rule",),
    "runs": ("run",),
    "commands": ("tool", "permit", "refused", "verdict", "pattern"),
    "restraints": ("kill_switch", "mode", "session", "limits", "policy"),
    "policy": ("policy", "rule", "confirmation"),
    "silences": ("silence",),
    "secrets": ("secret",),
    "tokens": ("token", "access", "signed", "listener"),
    "workflows": ("workflow",),
}


def topics_of(entry: Entry) -> list[str]:
    """The topics of one entry; `ledger` is a topic of all."""
    kind = entry.kind.value
    found = [name for name, starts in TOPICS.items() if kind.startswith(starts)]
    found += [f"ticket:{entry.ticket}"] if entry.ticket is not None else []
    found += [f"run:{entry.run}"] if entry.run else []
    return [*found, "ledger"]


def note_of(entry: Entry) -> dict[str, Any]:
    """The desktop notification of an entry; empty for most."""
    place = f"/tickets/{entry.ticket}" if entry.ticket is not None else "/"
    match entry.kind:
        case Kind.APPROVAL_REQUESTED:
            approval = _document(entry, "approval")
            action = approval.get("action")
            brief = brief_of(action) if isinstance(action, Mapping) else ""
            return _note(
                "Approval required",
                visible(brief[:WORDS_MAX]) or "An action needs approval.",
                _place_of("/approvals", approval),
            )
        case Kind.CONFIRMATION_REQUESTED:
            approval = _document(entry, "confirmation")
            text = visible(str(approval.get("rationale", ""))[:WORDS_MAX])
            return _note("Confirmation required", text, _place_of("/confirmations", approval))
        case Kind.TICKET_OPENED:
            return _note(f"Ticket {entry.ticket}", _text(entry, "summary"), place)
        case Kind.TICKET_ESCALATED:
            return _note(f"Ticket {entry.ticket} is escalated", _text(entry, "reason"), place)
        case Kind.KILL_SWITCH_ON:
            return _note("The kill switch is on", _text(entry, "reason"), "/")
        case _:
            return {}


def _document(entry: Entry, name: str) -> Mapping[str, Any]:
    """A document that an entry holds; empty where it was purged."""
    found = entry.payload.get(name)
    return found if isinstance(found, Mapping) else {}


def _place_of(place: str, document: Mapping[str, Any]) -> str:
    """Where it is answered."""
    name = str(document.get("id", ""))
    return f"{place}/{quote(name, safe='')}" if name else place


def _note(title: str, text: str, place: str) -> dict[str, Any]:
    return {"note": {"title": title, "text": text, "place": place}}


def _text(entry: Entry, name: str) -> str:
    return visible(str(entry.payload.get(name, ""))[:WORDS_MAX])


POLL_S = 0.04
# Without viewers: each page reads the ledger itself.
IDLE_POLL_S = 0.5
PAGE = 500
# Entries kept for clients that reconnect soon; a later client loads the whole page again.
RECENT_MAX = 2000
QUEUE_MAX = 256
VIEWERS_MAX = 256
VIEWERS_OF_SESSION_MAX = 128
BEAT_S = 15.0
ASK_AGAIN_S = 1.0
router = router_of()
log = logging.getLogger(__name__)


def event_of(entry: Entry) -> bytes:
    """One entry as it is sent: what it is and whom it concerns, not what it holds."""
    event = {
        "seq": entry.seq,
        "kind": entry.kind.value,
        "ticket": entry.ticket,
        "topics": topics_of(entry),
        **note_of(entry),
    }
    return b"id: %d\ndata: %s\n\n" % (entry.seq, json.dumps(event).encode())


@dataclass(eq=False, slots=True)
class Viewer:
    """One open page. What it does not take in time is not kept for it."""

    session: Session
    after: int
    queue: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(QUEUE_MAX))
    dropped: bool = False


@dataclass(slots=True)
class Hub:
    """Follows the ledger once for all viewers."""

    home: App
    sessions: Sessions
    head: int = 0
    closing: bool = False
    _viewers: set[Viewer] = field(default_factory=set, init=False)
    _recent: deque[tuple[int, bytes]] = field(
        default_factory=lambda: deque(maxlen=RECENT_MAX), init=False
    )
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _begun: bool = field(default=False, init=False)

    @property
    def followed(self) -> bool:
        """Whether anybody listens, so that the head is as new as it can be."""
        return bool(self._viewers)

    def __len__(self) -> int:
        return len(self._viewers)

    async def run(self) -> None:
        """Look for what is new until cancelled."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(POLL_S if self._viewers else IDLE_POLL_S)
        finally:
            self.close()

    async def look(self) -> None:
        """Take what was written since, and tell everybody who listens."""
        async with self._looking:
            try:
                while found := await self._ask():
                    self.head = found[-1].seq
                    for entry in found:
                        self._recent.append((entry.seq, event_of(entry)))
                    for viewer in list(self._viewers):
                        news = [data for seq, data in self._since(viewer.after)]
                        viewer.after = self.head
                        self._give(viewer, b"".join(news))
                    if len(found) < PAGE:
                        break
            except OperatorError as error:
                # Viewers get the heartbeat, and the missing entries later.
                log.warning("cannot follow the ledger: %s", error)

    async def _ask(self) -> Sequence[Entry]:
        if not self._begun:
            newest = await ask(self.home, tail, count=1)
            self.head, self._begun = (newest[-1].seq if newest else 0), True
            return ()
        return await ask(self.home, behind, self.head, limit=PAGE)

    def _since(self, after: int) -> list[tuple[int, bytes]]:
        found = []
        for row in reversed(self._recent):
            if row[0] <= after:
                break
            found.append(row)
        return found[::-1]

    def _give(self, viewer: Viewer, data: bytes) -> None:
        try:
            viewer.queue.put_nowait(data)
        except asyncio.QueueFull:
            # It comes back with the last entry that it took.
            viewer.dropped = True
            self._viewers.discard(viewer)

    def join(self, session: Session, after: int | None) -> Viewer | None:
        """One more looks, behind this entry or from now on; None when there are too many."""
        mine = sum(viewer.session is session for viewer in self._viewers)
        if mine >= VIEWERS_OF_SESSION_MAX or len(self._viewers) >= VIEWERS_MAX:
            return None
        viewer = Viewer(session, self.head)
        if after is not None and after < self.head:
            oldest = self._recent[0][0] if self._recent else self.head + 1
            if after + 1 >= oldest:
                viewer.queue.put_nowait(b"".join(data for _, data in self._since(after)))
            else:
                # The client was away for too long: it loads the whole page again.
                event = json.dumps({"seq": self.head, "kind": "anew", "topics": ["*"]})
                viewer.queue.put_nowait(b"id: %d\ndata: %s\n\n" % (self.head, event.encode()))
        self._viewers.add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """It is gone, and does not wait for what comes next."""
        self._viewers.discard(viewer)
        viewer.dropped = True
        self._give(viewer, b"")

    def close(self) -> None:
        """End every stream."""
        self.closing = True
        for viewer in list(self._viewers):
            self._give(viewer, b"")


class _Stream(Events):
    """What one viewer is sent until it is gone, cut off, or signed out."""

    def __init__(self, hub: Hub, viewer: Viewer) -> None:
        super().__init__()
        self._hub, self._viewer = hub, viewer

    def leave(self) -> None:
        """Remove the viewer."""
        self._hub.leave(self._viewer)

    async def tell(self, say: Say, gone: asyncio.Future[None]) -> None:
        """Send what comes."""
        hub, viewer, loop = self._hub, self._viewer, asyncio.get_running_loop()
        gone.add_done_callback(lambda _: hub.leave(viewer))
        spoke_s = loop.time()
        ends_s = spoke_s + STREAM_S_MAX
        await say(b"retry: 1000\n: here\n\n")
        while not hub.closing and not viewer.dropped and loop.time() < ends_s:
            try:
                async with asyncio.timeout(ASK_AGAIN_S):
                    data = await viewer.queue.get()
            except TimeoutError:
                data = b""
                if not hub.sessions.lives(viewer.session):
                    break
            if not data and loop.time() - spoke_s >= BEAT_S:
                data = BEAT
            if data:
                await say(data)
                spoke_s = loop.time()


@shows(router, "/stream")
async def stream(request: Request) -> Response:
    """What happens from now on, or behind an entry."""
    hub = hub_of(request)
    await hub.look()
    last = request.headers.get("last-event-id", "") or request.query_params.get("after", "")
    after = int(last) if last.isascii() and last.isdigit() and len(last) < 19 else None
    viewer = hub.join(session_of(request), after)
    if viewer is None:
        return Response("Too many pages are open.\n", 429, {"retry-after": "30"})
    return _Stream(hub, viewer)
