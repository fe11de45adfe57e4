"""What a command says, as it says it: redacted, bounded, and never faster than it can be shown."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path, Request, Response

from operator_protocols.domain.command import Command
from operator_protocols.errors import NotFoundError
from operator_sre.app.history import RunningOutput, running_output, show_command, show_output
from operator_sre.drawing import span
from operator_sre.faces.web.responses import home_of, hub_of, session_of
from operator_sre.faces.web.routes import SEQ_MAX, router_of, shows
from operator_sre.faces.web.stream import BEAT, STREAM_S_MAX, Events, Say

if TYPE_CHECKING:
    from operator_sre.app.wiring import App
    from operator_sre.faces.web.sessions import Session
    from operator_sre.faces.web.stream import Hub

__all__ = ["Said", "router"]

PAUSE_S = 0.1
ASK_AGAIN_S = 1.0
BEAT_S = 10.0
# Of a burst of output only the beginning and the end are shown.
HEAD_CHARACTERS_MAX = 64 * 1024
TAIL_CHARACTERS_MAX = 128 * 1024
# Of a finished command; the whole output can be downloaded from the history.
WHOLE_BYTES_MAX = 4_000_000
# Of a running command; the rest is in the download.
LIVE_BYTES_MAX = 64_000_000
STEPS_MAX = 4
STREAMS_MAX = 48
STREAMS_OF_SESSION_MAX = 8
router = router_of()


@dataclass(slots=True)
class Said:
    """Text of two streams that is not sent yet; the middle of a long text is left out."""

    size_bytes: int = 0
    head: str = ""
    tail: str = ""
    left_out: int = 0
    _decoders: dict[int, codecs.IncrementalDecoder] = field(
        default_factory=lambda: {
            number: codecs.getincrementaldecoder("utf-8")("backslashreplace") for number in (1, 2)
        }
    )

    def feed(self, number: int, data: bytes) -> bool:
        """The next bytes of stdout (1) or stderr (2); False when there was enough of it."""
        self.size_bytes += len(data)
        text = self._decoders[number].decode(data)
        if not self.tail:
            room = HEAD_CHARACTERS_MAX - len(self.head)
            self.head, text = self.head + text[:room], text[room:]
        self.tail += text
        if len(self.tail) > 2 * TAIL_CHARACTERS_MAX:
            self._shorten()
        return self.size_bytes < LIVE_BYTES_MAX

    def feed_limited(self, number: int, data: bytes) -> bool:
        """The same, with less patience."""
        self.feed(number, data)
        return self.size_bytes < WHOLE_BYTES_MAX

    def take(self) -> dict[str, Any]:
        """What there is to show now; empty where there is nothing."""
        if len(self.tail) > TAIL_CHARACTERS_MAX:
            self._shorten()
        event = {"text": self.head, "cut": self.left_out, "rest": self.tail}
        self.head, self.tail, self.left_out = "", "", 0
        return {name: value for name, value in event.items() if value}

    def _shorten(self) -> None:
        more = len(self.tail) - TAIL_CHARACTERS_MAX
        self.left_out += more
        self.tail = self.tail[more:]


@shows(router, "/parts/outputs/{seq}")
async def output(request: Request, seq: Annotated[int, Path(ge=1, le=SEQ_MAX)]) -> Response:
    """All that one command says, from its beginning to its end."""
    home, session = home_of(request), session_of(request)
    await asyncio.to_thread(show_command, home, seq)  # NotFoundError becomes a page
    streams: list[Session] = _streams(request)
    if len(streams) >= STREAMS_MAX or streams.count(session) >= STREAMS_OF_SESSION_MAX:
        return Response("Too many outputs are open.\n", 429, {"retry-after": "10"})
    return _Output(home, hub_of(request), seq, session, streams)


def _streams(request: Request) -> list[Session]:
    state = request.app.state
    if not hasattr(state, "outputs"):
        state.outputs = []
    found: list[Session] = state.outputs
    return found


class _Output(Events):
    """One output, sent until it ends or the viewer leaves."""

    def __init__(
        self, home: App, hub: Hub, seq: int, session: Session, streams: list[Session]
    ) -> None:
        super().__init__()
        self._home, self._hub, self._seq = home, hub, seq
        self._session, self._streams = session, streams
        self._output = Said()
        self._streams.append(session)

    def leave(self) -> None:
        """There is room for another."""
        self._streams.remove(self._session)

    async def tell(self, say: Say, gone: asyncio.Future[None]) -> None:
        """Send what it says."""
        home, seq, loop = self._home, self._seq, asyncio.get_running_loop()
        following: RunningOutput | None = None
        asked_s = spoke_s = loop.time()
        ends_s = asked_s + STREAM_S_MAX
        head = -1
        while not gone.done() and not self._hub.closing and loop.time() < ends_s:
            if head != self._hub.head or loop.time() - asked_s >= ASK_AGAIN_S:
                head, asked_s = self._hub.head, loop.time()
                command = (await asyncio.to_thread(show_command, home, seq)).command
                if command.outcome:
                    await self._end(say, command, following)
                    return
                if not self._hub.sessions.lives(self._session):
                    return
            if following is None:
                following = await asyncio.to_thread(running_output, home, seq, self._output.feed)
            more = following is not None and await asyncio.to_thread(_advance, following)
            if event := self._output.take():
                await say(_event(event))
                spoke_s = loop.time()
            elif loop.time() - spoke_s >= BEAT_S:
                await say(BEAT)
                spoke_s = loop.time()
            if not more or event.get("cut"):
                await asyncio.wait([gone], timeout=PAUSE_S)

    async def _end(self, say: Say, command: Command, following: RunningOutput | None) -> None:
        """The rest of a followed output, or the recorded output of a finished command."""
        if following is not None and following.is_there:
            while await asyncio.to_thread(_advance, following):
                await say(_event(self._output.take()))
            following.end()
        else:
            if self._output.size_bytes:
                # The end of it was put away before we came to it: the record has all of it.
                await say(_event({"anew": True}))
                self._output, following = Said(), None
            await asyncio.to_thread(_read_recorded, self._home, command, self._output)
        await say(_event(self._output.take()))
        code = f"exit {command.exit_code}" if command.outcome == "ran" else command.outcome
        took = span(command.duration_s)
        most = LIVE_BYTES_MAX if following is not None else WHOLE_BYTES_MAX
        note = f"; only the first {most // 1_000_000} MB are shown"
        more = note if self._output.size_bytes >= most else ""
        await say(_event({"over": f"{code.replace('_', ' ')} after {took}{more}"}))


def _advance(following: RunningOutput) -> bool:
    return all(following.advance() for _ in range(STEPS_MAX))


def _read_recorded(home: App, command: Command, output: Said) -> None:
    """All that lies on this machine, or what the record keeps."""
    with contextlib.suppress(NotFoundError, OSError):
        show_output(home, command.seq, output.feed_limited)
    if output.size_bytes:
        return
    ends = [command.head, *(["\n[...]\n", command.tail] if command.tail else [])]
    for end in ends:
        output.feed(1, end.encode("utf-8", "backslashreplace"))


def _event(event: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(event)}\n\n".encode() if event else BEAT
