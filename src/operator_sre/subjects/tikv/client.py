"""Speaking to the parts of a TiKV cluster over HTTP: PD's API, and the metrics of anybody."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urlsplit

from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import OperatorError
from operator_protocols.kit.access import authorize, sentence_of, trust_for
from operator_protocols.kit.http import Request, UnaskableError, exchange
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.tikv.kinds import PD, addresses_of

__all__ = ["Answer", "Pd", "Reading"]

API = "/pd/api/v1/"
# What a follower answers of its own memory, instead of asking the leader for us.
ITSELF: Mapping[str, str] = {"PD-Allow-follower-handle": "true"}
# An answer that took longer may have been dated at any time meanwhile.
SOON_S = 2.0
OPEN = Access()
# How an answer is taken: as JSON, as bytes, or as no more than the beginning of it.
Reading = Literal["json", "text", "head"]
# Lists of regions can be as long as there are regions; how many there are stands in front.
_BYTES_MAX: Mapping[Reading, int] = {"json": 8 << 20, "text": 16 << 20, "head": 64 << 10}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a PD or a store. With an `error` it did not do what the request asked for.

    It was `reached` unless nothing at all came back. What is `strange` is not how PD speaks.
    `unasked`: it could not even be asked, because of how we are set up. `offset_s` is how far its
    clock is ahead of ours, to half a second.
    """

    body: Any = None
    content: bytes = b""
    error: str = ""
    status: int = 0
    reached: bool = True
    strange: bool = False
    unasked: bool = False
    took_s: float = 0.0
    offset_s: float | None = None

    @property
    def ok(self) -> bool:
        """It did what it was asked."""
        return not self.error

    @property
    def untaken(self) -> bool:
        """No PD accepted it, so that it can be sent again: none listens, or none knows a leader."""
        leaderless = self.status == 503 and "no leader" in self.error
        return leaderless or (not self.reached and self.error.endswith("refused"))


class Pd:
    """Asks everybody, for one check or one call of a tool.

    Nothing that anybody does raises: every failure is an Answer. `requests` counts what was sent.
    """

    def __init__(self, settings: SubjectSettings, leader: str = "") -> None:
        self._settings = settings
        self._leader = leader
        self.requests = 0

    async def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        body: Mapping[str, Any] | None = None,
        reading: Reading = "json",
        timeout_s: float | None = None,
    ) -> Answer:
        """Ask the current leader of PD: each PD knows it, and forwards the request.

        A change is sent once, to the first PD that was reached, and never again.
        """
        known = [target for target in self._settings.targets() if target.kind == PD]
        known.sort(key=lambda target: target.name != self._leader)
        answer = Answer(error="there is no PD to ask", reached=False)
        for target in known:
            answer = await self.at(
                target, path, method=method, body=body, reading=reading, timeout_s=timeout_s
            )
            if answer.ok:
                self._leader = target.name
            if answer.reached and answer.status != 503:
                return answer
            if method != "GET" and not answer.untaken:
                return answer  # it may have been heard
        return answer

    async def at(
        self,
        target: Target,
        path: str,
        *,
        method: str = "GET",
        body: Mapping[str, Any] | None = None,
        reading: Reading = "json",
        itself: bool = False,
        timeout_s: float | None = None,
    ) -> Answer:
        """Ask one PD; `itself` of its own memory, without its leader."""
        place = path if path.startswith("/") else f"{API}{path}"
        return await self.get(
            target,
            addresses_of(target),
            place,
            method=method,
            body=body,
            reading=reading,
            headers=ITSELF if itself else {},
            timeout_s=timeout_s,
        )

    async def get(
        self,
        target: Target,
        addresses: Sequence[str],
        path: str,
        *,
        method: str = "GET",
        body: Mapping[str, Any] | None = None,
        reading: Reading = "text",
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Ask at the first of these addresses that answers, as the target wants to be asked.

        All of them lead to the same server: the address that accepts us has all the remaining time,
        and a name that does not resolve here takes none of it away.
        """
        now = asyncio.get_running_loop().time
        ends = now() + (self._settings.timeout_s if timeout_s is None else timeout_s)
        content = b"" if body is None else json.dumps(body).encode()
        request = Request(method, path, headers or {}, content, _BYTES_MAX[reading])
        answer = Answer(error="the target has no port", reached=False)
        for untried, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            left_s = ends - now()
            if left_s <= 0:
                break
            access, connect_s = target.access or OPEN, left_s / untried
            answer = await self._send(access, address, request, reading, left_s, connect_s)
            if answer.reached or (method != "GET" and not answer.error.endswith("refused")):
                return answer
        return answer

    async def _send(
        self,
        access: Access,
        address: str,
        request: Request,
        reading: Reading,
        timeout_s: float,
        connect_s: float,
    ) -> Answer:
        self.requests += 1
        loop = asyncio.get_running_loop()
        started, at = loop.time(), self._settings.clock.now()
        try:
            headers = {**request.headers, **authorize(access, self._settings.secret)}
            trust = trust_for(access) if access.tls else None
        except (OSError, OperatorError) as error:  # files that say who we are, and whom to trust
            return Answer(error=f"no connection possible: {error}", unasked=True)
        try:
            place = urlsplit(f"//{address}")
            # One limit for all of it: an answer that drips would never end.
            async with asyncio.timeout(timeout_s):
                got = await exchange(
                    (place.hostname or "", place.port or 0),
                    replace(request, headers=headers),
                    trust=trust,
                    server_name=access.server_name,
                    connect_s=connect_s,
                )
        except OSError as error:
            return Answer(error=f"{address or 'it'}: {sentence_of(error)}", reached=False)
        except (UnaskableError, ValueError) as error:
            return Answer(error=f"it cannot be queried: {error}", unasked=True)
        took_s = loop.time() - started
        if got.cut and reading != "head":
            return Answer(error="the answer is too long", status=got.status, took_s=took_s)
        offset_s = None
        with contextlib.suppress(KeyError, ValueError):
            date = parsedate_to_datetime(got.headers["date"]).timestamp()
            if took_s <= SOON_S:  # it is cut to whole seconds
                offset_s = round(date + 0.5 - at.timestamp() - took_s / 2, 1)
        return replace(_read(got.status, got.body, reading), took_s=took_s, offset_s=offset_s)


def _read(status: int, content: bytes, reading: Reading) -> Answer:
    """What came back, as it was wanted; a refusal has the words of who refused."""
    words = " ".join(content[:200].decode("utf-8", "replace").split())
    refusal = f"it answered {status}" + (f": {words}" if words.isprintable() and words else "")
    if reading != "json":
        return Answer(content=content, error="" if status == 200 else refusal, status=status)
    try:
        body, strange = json.loads(content) if content.strip() else None, False
    except (RecursionError, ValueError):
        body, strange = None, True
    if status >= 300:
        error = (body if isinstance(body, str) else "") or refusal
        return Answer(body, error=error, status=status)
    if strange:
        return Answer(error="it answered something that is not JSON", status=status, strange=True)
    return Answer(body, content=content, status=status)
