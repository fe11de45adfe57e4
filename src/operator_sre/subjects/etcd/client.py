"""Speaking to the members of an etcd cluster: the JSON gateway of its v3 API, over HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import httpx2

from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import OperatorError
from operator_protocols.ports import SubjectSettings
from operator_sre.transport import ClosingTransport

__all__ = ["Answer", "Etcd", "encoded", "number"]

BODY_BYTES_MAX = 1 << 20
METRICS_BYTES_MAX = 4 << 20
INT_DIGITS_MAX = 20
UNAUTHENTICATED = 16
DENIED = (7, UNAUTHENTICATED)
# What is said with the code of an argument that makes no sense, and means that we are nobody.
DENIALS = ("user name is empty", "authentication failed", "invalid user id or password")
OPEN = Access()
# A client that gives up by itself closes what it opened; one that is cancelled may not.
EARLIER = 0.9
# Loading the machine's certificate authorities costs more than a whole look, and who speaks plain
# HTTP needs none of them.
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a member said. With an `error` it did not do what it was asked.

    It was `reached` unless nothing at all came back; `code` is the gRPC code of a refusal. What is
    `strange` is not how etcd speaks.
    """

    body: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    error: str = ""
    code: int = 0
    reached: bool = True
    strange: bool = False
    took_s: float = 0.0

    @property
    def ok(self) -> bool:
        """It did what it was asked."""
        return not self.error

    @property
    def denied(self) -> bool:
        """It answered that we are not let in, or may not do that."""
        said = self.error.lower()
        return self.code in DENIED or any(words in said for words in DENIALS)


class Etcd:
    """One pool of connections to all members, for one look or one deed.

    Nothing that a member does raises: every failure is an Answer. `tokens` outlives it, because
    every new token costs the member the hashing of a password.
    """

    def __init__(self, settings: SubjectSettings, tokens: dict[str, str] | None = None) -> None:
        self._settings = settings
        self._tokens = {} if tokens is None else tokens
        self._clients: dict[Access, httpx2.AsyncClient] = {}
        self._first: dict[str, str] = {}

    async def __aenter__(self) -> Etcd:
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
        target: Target,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Answer:
        """POST to `/v3/PATH` of a member, at the first of its endpoints that answers."""
        within_s = self._settings.timeout_s if timeout_s is None else timeout_s
        answer = await self._somewhere(target, "POST", f"/v3/{path}", body or {}, within_s)
        access = target.access
        if answer.code == UNAUTHENTICATED and access is not None and access.user:
            self._tokens.pop(target.name, None)
            answer = await self._somewhere(target, "POST", f"/v3/{path}", body or {}, within_s)
        return answer

    async def metrics(self, target: Target, *, timeout_s: float | None = None) -> Answer:
        """The text of its metrics."""
        within_s = self._settings.timeout_s if timeout_s is None else timeout_s
        return await self._somewhere(target, "GET", "/metrics", None, within_s)

    async def peer(
        self, target: Target, url: str, body: Mapping[str, Any], *, timeout_s: float | None = None
    ) -> Answer:
        """GET from the address at which other members speak to this one."""
        within_s = self._settings.timeout_s if timeout_s is None else timeout_s
        return await self._bounded(target, "GET", url, body, within_s)

    async def _somewhere(
        self,
        target: Target,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        timeout_s: float,
    ) -> Answer:
        addresses = _addresses(target)
        if not addresses:
            return Answer(error="it has no port to ask at", reached=False)
        known = self._first.get(target.name)
        if known in addresses:
            addresses = [known, *(one for one in addresses if one != known)]
        scheme = "https" if (target.access or OPEN).tls else "http"
        answer = Answer()
        for address in addresses:
            url = f"{scheme}://{address}{path}"
            answer = await self._bounded(target, method, url, body, timeout_s / len(addresses))
            if answer.reached:
                self._first[target.name] = address
                return answer
        return answer

    async def _bounded(
        self,
        target: Target,
        method: str,
        url: str,
        body: Mapping[str, Any] | None,
        timeout_s: float,
    ) -> Answer:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            # A client limits each read only; an answer that drips would never end.
            async with asyncio.timeout(timeout_s):
                headers = await self._headers(target, url, timeout_s)
                begun = loop.time()
                status, content, long = await self._send(
                    target, method, url, body, headers, timeout_s
                )
        except (TimeoutError, httpx2.TimeoutException):
            return _lost(url, "it does not answer in time")
        except httpx2.TransportError as error:
            return _lost(url, _sentence(error))
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            return Answer(error=f"it cannot be asked: {error}")
        except (OSError, OperatorError) as error:  # files that say who we are, and whom to trust
            return Answer(error=f"we cannot speak to it: {error}")
        took_s = loop.time() - begun
        if long:
            return Answer(error="its answer is too long", took_s=took_s)
        return _read(status, content, took_s, as_text=url.endswith("/metrics"))

    async def _send(
        self,
        target: Target,
        method: str,
        url: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> tuple[int, bytes, bool]:
        """Status, body, and whether there was more of it than we read."""
        access = target.access or OPEN
        content = None if body is None else json.dumps(body).encode()
        names = {"sni_hostname": access.server_name} if access.server_name else {}
        bytes_max = METRICS_BYTES_MAX if url.endswith("/metrics") else BODY_BYTES_MAX
        parts: list[bytes] = []
        size = 0
        async with (
            self._client(access).stream(
                method,
                url,
                content=content,
                headers=headers,
                extensions=names,
                timeout=timeout_s * EARLIER,
            ) as answer,
            aclosing(answer.aiter_bytes()) as coming,
        ):
            async for part in coming:
                parts.append(part)
                size += len(part)
                if size > bytes_max:
                    return answer.status_code, b"", True
        return answer.status_code, b"".join(parts), False

    async def _headers(self, target: Target, url: str, timeout_s: float) -> dict[str, str]:
        """Who we are: a token in a file, or one that the member gives for a password."""
        access = target.access or OPEN
        base, is_api, _ = url.partition("/v3/")
        if not is_api:
            return {}
        if not access.user:
            token = self._settings.secret(access.token_file) if access.token_file else ""
            return {"authorization": token} if token else {}
        if target.name not in self._tokens:
            password = self._settings.secret(access.password_file)
            claim = {"name": access.user, "password": password}
            place = f"{base}/v3/auth/authenticate"
            sent = await self._send(target, "POST", place, claim, {}, timeout_s)
            given = _read(*sent[:2], 0.0, as_text=False).body.get("token")
            self._tokens[target.name] = given if isinstance(given, str) else ""
        known = self._tokens[target.name]
        return {"authorization": known} if known else {}

    def _client(self, access: Access) -> httpx2.AsyncClient:
        if access not in self._clients:
            trust = _context(access) if access.tls else NO_AUTHORITIES
            transport = ClosingTransport(trust_env=False, verify=trust)
            self._clients[access] = httpx2.AsyncClient(trust_env=False, transport=transport)
        return self._clients[access]


def encoded(text: str | bytes) -> str:
    """Bytes as the gateway wants them."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def number(body: Mapping[str, Any], name: str) -> int:
    """A number of 64 bits, which the gateway writes as text, and leaves out when it is 0."""
    value = body.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | str):
        return 0
    text = str(value)
    return int(text) if len(text) <= INT_DIGITS_MAX and text.lstrip("-").isdecimal() else 0


def _addresses(target: Target) -> list[str]:
    own = [f"{_bracketed(target.host)}:{target.port}"] if target.port is not None else []
    return [*own, *target.endpoints]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _context(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=access.ca_file or None)
    if access.certificate_file:
        context.load_cert_chain(access.certificate_file, access.key_file or None)
    return context


def _read(status: int, content: bytes, took_s: float, *, as_text: bool) -> Answer:
    if as_text:
        error = "" if status == 200 else f"it answered {status}"
        return Answer(text=content.decode("utf-8", "replace"), error=error, took_s=took_s)
    try:
        said = json.loads(content)
    except (RecursionError, ValueError):
        said = None
    if not isinstance(said, dict):
        what = "something that is not JSON" if status == 200 else str(status)
        return Answer(error=f"it answered {what}", took_s=took_s, strange=True)
    if status == 200:
        return Answer(said, took_s=took_s)
    told = said.get("message") or said.get("error")
    error = told if isinstance(told, str) else f"it answered {status}"
    return Answer(said, error=error, code=number(said, "code"), took_s=took_s)


def _lost(url: str, why: str) -> Answer:
    place = url.split("://", 1)[1].split("/", 1)[0]
    return Answer(error=f"{place}: {why}", reached=False)


def _sentence(error: Exception) -> str:
    text = str(error).lower()
    refused = "all connection attempts" in text or "refused" in text
    return "connection refused" if refused else (text or "connection lost")
