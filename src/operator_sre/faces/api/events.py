"""Server-sent events: the ledger as it grows, resumed behind the last entry that was seen."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from operator_protocols.domain.category import NextAction
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.token import Role, Token
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app.audit import behind
from operator_sre.app.tokens import find
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.api.response import encode_json, refuse
from operator_sre.faces.api.routes import Door, ask, opens

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from operator_sre.app.wiring import App
    from operator_sre.faces.api.admission import Counts

__all__ = ["EventDocument", "Feed", "router", "up_to_revocation"]

VIEWERS_MAX = 32
# No token keeps all others from listening.
VIEWERS_OF_TOKEN_MAX = 8
PAGE = 100
POLL_S = 0.2
BEAT_S = 15.0
# How long a stream goes on after its token was revoked, at most.
ASK_AGAIN_S = 1.0
SEND_S_MAX = 20.0
STREAM_S_MAX = 3600.0
PIECE_BYTES = 64 * 1024
SEQ_MAX = 2**63 - 1
router = APIRouter(route_class=Door, prefix="/v1")


@dataclass(frozen=True, slots=True)
class EventDocument:
    """What the data of one event holds."""

    entry: Entry
    schema_version: str = SCHEMA_VERSION


@dataclass(slots=True)
class Feed:
    """Knows how far the ledger has come, for everybody who listens; asked once for all of them."""

    home: App
    counts: Counts
    head: int = 0
    closing: bool = False
    listening: Counter[str] = field(default_factory=Counter)
    _grew: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def run(self) -> None:
        """Read new entries while there are listeners, until cancelled."""
        while True:
            if self.counts.viewers:
                await self.look()
            await asyncio.sleep(POLL_S)

    async def look(self) -> None:
        """How far it has come now."""
        try:
            newest = await ask(self.home, lambda home: home.store.entries.newest(limit=1))
        except OperatorError:
            return  # listeners get the heartbeat, and the missing entries later
        if newest and newest[0].seq > self.head:
            self.head = newest[0].seq
            self._wake()

    def begin(self, token: Token) -> None:
        """One more listens, with this token."""
        self.counts.viewers += 1
        self.listening[token.id] += 1

    def end(self, token: Token) -> None:
        """One of them is gone."""
        self.counts.viewers -= 1
        self.listening[token.id] -= 1
        if not self.listening[token.id]:
            del self.listening[token.id]

    def close(self) -> None:
        """End every stream."""
        self.closing = True
        self._wake()

    def _wake(self) -> None:
        grew, self._grew = self._grew, asyncio.Event()
        grew.set()

    async def beyond(self, seq: int, *, within_s: float) -> bool:
        """Wait until there is more than this; False when there is not in time."""
        if self.head > seq or self.closing:
            return True
        try:
            async with asyncio.timeout(within_s):
                await self._grew.wait()
        except TimeoutError:
            return False
        return True


class EventStream(Response):
    """One listener. A listener that does not read, or lost its access, is disconnected."""

    media_type = "text/event-stream"

    def __init__(self, feed: Feed, token: Token, after: int) -> None:
        super().__init__(None, 200, {"x-accel-buffering": "no"})
        self._feed = feed
        self._token = token
        self._after = after
        # Starlette counts an empty body; a stream has no length.
        self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what there is, then what comes, until the other side is gone."""

        async def wait_for_disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        headers = self.raw_headers
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self._feed.begin(self._token)
        gone = asyncio.ensure_future(wait_for_disconnect())
        telling = asyncio.ensure_future(self._tell(send))
        try:
            await asyncio.wait([gone, telling], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._feed.end(self._token)
            for task in (gone, telling):
                task.cancel()
            await asyncio.gather(gone, telling, return_exceptions=True)

    async def _tell(self, send: Send) -> None:
        def is_valid_now(home: App) -> bool:
            return any(row.id == self._token.id for row in find(home, every=False))

        feed, loop = self._feed, asyncio.get_running_loop()
        spoke_at = asked_at = loop.time()
        ends = spoke_at + STREAM_S_MAX
        is_valid, is_last = True, False
        await _send(send, b"retry: 1000\n\n")
        while not feed.closing and not is_last and loop.time() < ends:
            if loop.time() - asked_at >= ASK_AGAIN_S:
                asked_at = loop.time()
                is_valid = await ask(feed.home, is_valid_now)
            # Read after the question above, so that a listener that is up to date learns why.
            found = await ask(feed.home, behind, self._after, limit=PAGE)
            page, is_last = up_to_revocation(found, self._token)
            if not is_valid and not is_last:
                break
            if page:
                for piece in _pieces(page):
                    await _send(send, piece)
                spoke_at = loop.time()
                self._after = page[-1].seq
                feed.head = max(feed.head, self._after)
                continue
            if await feed.beyond(self._after, within_s=ASK_AGAIN_S):
                continue
            if loop.time() - spoke_at >= BEAT_S:
                spoke_at = loop.time()
                await _send(send, b": still here\n\n")
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@opens(
    router,
    "GET",
    "/events",
    role=Role.VIEWER,
    answers=EventDocument,
    media="text/event-stream",
)
async def follow_events(
    request: Request,
    after: Annotated[int, Query(ge=0, le=SEQ_MAX, description="Only entries after this one.")] = 0,
    last_event_id: Annotated[
        str, Header(max_length=20, description="The same, sent by a browser that reconnects.")
    ] = "",
) -> Response:
    """Every entry of the ledger behind one, and those to come, as server-sent events.

    Each event has the sequence of its entry as `id`, its kind as `event`, and an EventDocument as
    `data`. A comment comes every 15 seconds when there is nothing else. When the token of
    the stream is revoked, its event `token_revoked` is the last one, and the stream ends.
    """
    if last_event_id and not (last_event_id.isascii() and last_event_id.isdigit()):
        raise UsageError("Last-Event-ID must be the number of an entry.", next_step="Leave it out.")
    feed: Feed = request.app.state.feed
    token: Token = request.scope["token"]
    mine = feed.listening[token.id] >= VIEWERS_OF_TOKEN_MAX
    if mine or feed.counts.viewers >= VIEWERS_MAX:
        many = VIEWERS_OF_TOKEN_MAX if mine else VIEWERS_MAX
        words = f"{many} others listen already{' with this token' if mine else ''}."
        headers = {"retry-after": "30"}
        return refuse(429, words, action=NextAction.RERUN, headers=headers)
    seq = min(int(last_event_id), SEQ_MAX) if last_event_id else after
    return EventStream(feed, token, seq)


def up_to_revocation(page: Sequence[Entry], token: Token) -> tuple[Sequence[Entry], bool]:
    """What of a page this token may still read, and whether the last of it revokes the token."""
    for place, entry in enumerate(page, start=1):
        if entry.kind is Kind.TOKEN_REVOKED and entry.payload.get("id") == token.id:
            return page[:place], True
    return page, False


def _pieces(page: Iterable[Entry]) -> Iterator[bytes]:
    """The events, made as they are read: of who does not read, no more than a piece waits."""
    piece = bytearray()
    for entry in page:
        data = encode_json(EventDocument(entry))
        piece += b"id: %d\nevent: %s\ndata: %s\n\n" % (entry.seq, entry.kind.encode(), data)
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


async def _send(send: Send, data: bytes) -> None:
    async with asyncio.timeout(SEND_S_MAX):
        await send({"type": "http.response.body", "body": data, "more_body": True})
