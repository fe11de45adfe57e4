"""Speaking to the parts of a TiKV cluster over HTTP: PD's API, and the metrics of anybody."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Literal

import httpx2

from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import OperatorError
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.tikv.kinds import PD, address_of, addresses_of
from operator_sre.transport import ClosingTransport

__all__ = ["Answer", "Pd", "Reading"]

API = "/pd/api/v1/"
# What a follower answers of its own memory, instead of asking the leader for us.
ITSELF: Mapping[str, str] = {"PD-Allow-follower-handle": "true"}
JSON_BYTES_MAX = 8 << 20
TEXT_BYTES_MAX = 16 << 20
# Lists of regions can be as long as there are regions; how many there are stands in front.
HEAD_BYTES = 64 << 10
# A client that gives up by itself closes what it opened; one that is cancelled may not.
EARLIER = 0.9
# An answer that took longer may have been dated at any time meanwhile.
SOON_S = 2.0
OPEN = Access()
# Loading the machine's certificate authorities costs more than a whole look, and who speaks plain
# HTTP needs none of them.
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
# How an answer is taken: as JSON, as bytes, or as no more than the beginning of it.
Reading = Literal["json", "text", "head"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody said. With an `error` it did not do what it was asked.

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
        """Nobody took it, so that it can be sent again: nobody listens, or knows of a leader."""
        leaderless = self.status == 503 and "no leader" in self.error
        return leaderless or (not self.reached and self.error.endswith("refused"))


class Pd:
    """One pool of connections to everybody, for one look or one deed.

    Nothing that anybody does raises: every failure is an Answer. `requests` counts what was sent.
    """

    def __init__(self, settings: SubjectSettings, leader: str = "") -> None:
        self._settings = settings
        self._clients: dict[Access, httpx2.AsyncClient] = {}
        self._leader = leader
        self.requests = 0

    async def __aenter__(self) -> Pd:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        body: Mapping[str, Any] | None = None,
        reading: Reading = "json",
        timeout_s: float | None = None,
    ) -> Answer:
        """Ask the leader of PD, whoever that is now: each PD knows it, and asks it for us.

        What changes something is sent once to whoever was reached, and never again.
        """
        known = [one for one in self._settings.targets() if one.kind == PD]
        known.sort(key=lambda one: one.name != self._leader)
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

        All of them lead to the same one: whoever lets us in has all the time that is left, and a
        name that nobody knows here takes none of it away.
        """
        now = asyncio.get_running_loop().time
        ends = now() + (self._settings.timeout_s if timeout_s is None else timeout_s)
        scheme = "https" if (target.access or OPEN).tls else "http"
        answer = Answer(error="it has no port to ask at", reached=False)
        for untried, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            left_s = ends - now()
            if left_s <= 0:
                break
            answer = await self._bounded(
                target.access or OPEN,
                _Request(method, f"{scheme}://{address}{path}", body, headers or {}, reading),
                left_s,
                connect_s=left_s / untried,
            )
            if answer.reached or (method != "GET" and not answer.error.endswith("refused")):
                return answer
        return answer

    async def _bounded(
        self, access: Access, request: _Request, timeout_s: float, *, connect_s: float
    ) -> Answer:
        self.requests += 1
        loop = asyncio.get_running_loop()
        begun, at = loop.time(), self._settings.clock.now()
        try:
            # A client limits each read only; an answer that drips would never end.
            async with asyncio.timeout(timeout_s):
                got = await self._send(access, request, _limits(timeout_s, connect_s))
        except (TimeoutError, httpx2.TimeoutException):
            return _lost(request.url, "it does not answer in time")
        except httpx2.TransportError as error:
            return _lost(request.url, _sentence(error))
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            return Answer(error=f"it cannot be asked: {error}", unasked=True)
        except (OSError, OperatorError) as error:  # files that say who we are, and whom to trust
            return Answer(error=f"we cannot speak to it: {error}", unasked=True)
        took_s = loop.time() - begun
        offset_s = None
        if got.date is not None and took_s <= SOON_S:  # it is cut to whole seconds
            offset_s = round(got.date + 0.5 - at.timestamp() - took_s / 2, 1)
        if got.long and request.reading != "head":
            return Answer(error="its answer is too long", status=got.status, took_s=took_s)
        answer = _read(got.status, got.content, request.reading)
        return replace(answer, took_s=took_s, offset_s=offset_s)

    async def _send(self, access: Access, request: _Request, limits: httpx2.Timeout) -> _Got:
        most = {"json": JSON_BYTES_MAX, "text": TEXT_BYTES_MAX, "head": HEAD_BYTES}
        bytes_max = most[request.reading]
        parts: list[bytes] = []
        size, long = 0, False
        async with (
            self._client(access).stream(
                request.method,
                request.url,
                content=None if request.body is None else json.dumps(request.body).encode(),
                # Packing costs both sides more than the bytes do.
                headers={"accept-encoding": "identity", **request.headers, **self._claim(access)},
                extensions={"sni_hostname": access.server_name} if access.server_name else {},
                timeout=limits,
            ) as answer,
            aclosing(answer.aiter_raw()) as coming,
        ):
            async for part in coming:
                parts.append(part)
                size += len(part)
                if size > bytes_max:
                    long = True
                    break
        return _Got(answer.status_code, b"".join(parts), long, _date(answer.headers.get("date")))

    def _claim(self, access: Access) -> dict[str, str]:
        """Who we are, for what stands in front of a cluster or of a Prometheus."""
        if access.user:
            password = self._settings.secret(access.password_file) if access.password_file else ""
            claim = base64.b64encode(f"{access.user}:{password}".encode()).decode()
            return {"authorization": f"Basic {claim}"}
        if access.token_file:
            return {"authorization": f"Bearer {self._settings.secret(access.token_file)}"}
        return {}

    def _client(self, access: Access) -> httpx2.AsyncClient:
        if access not in self._clients:
            trust = _context(access) if access.tls else NO_AUTHORITIES
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=4)
            transport = ClosingTransport(trust_env=False, verify=trust, limits=limits)
            self._clients[access] = httpx2.AsyncClient(trust_env=False, transport=transport)
        return self._clients[access]


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: str
    body: Mapping[str, Any] | None
    headers: Mapping[str, str]
    reading: Reading


@dataclass(frozen=True, slots=True)
class _Got:
    status: int
    content: bytes
    long: bool
    date: float | None


def _limits(timeout_s: float, connect_s: float) -> httpx2.Timeout:
    return httpx2.Timeout(timeout_s * EARLIER, connect=connect_s * EARLIER)


def _context(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=access.ca_file or None)
    if access.certificate_file:
        context.load_cert_chain(access.certificate_file, access.key_file or None)
    return context


def _read(status: int, content: bytes, reading: Reading) -> Answer:
    if reading != "json":
        error = "" if status == 200 else _refusal(status, content)
        return Answer(content=content, error=error, status=status)
    try:
        said = json.loads(content) if content.strip() else None
    except (RecursionError, ValueError):
        said, strange = None, True
    else:
        strange = False
    if status >= 300:
        told = said if isinstance(said, str) else ""
        return Answer(said, error=told or _refusal(status, content), status=status)
    if strange:
        return Answer(error="it answered something that is not JSON", status=status, strange=True)
    return Answer(said, content=content, status=status)


def _refusal(status: int, content: bytes) -> str:
    told = " ".join(content[:200].decode("utf-8", "replace").split())
    return f"it answered {status}" + (f": {told}" if told.isprintable() and told else "")


def _date(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except ValueError:
        return None


def _lost(url: str, why: str) -> Answer:
    return Answer(error=f"{address_of(url) or 'it'}: {why}", reached=False)


def _sentence(error: Exception) -> str:
    text = str(error).lower()
    refused = "all connection attempts" in text or "refused" in text
    return "connection refused" if refused else (text or "connection lost")
