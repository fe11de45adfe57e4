"""Admission of requests from the network: one middleware in front of every server.

It checks the Host header and the URL, has the face authenticate the caller, records refusals,
hardens answers and writes the access log. A token authenticates a caller, or a session that began
with one.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote_plus

from operator_protocols.domain.token import Role, Token
from operator_protocols.errors import OperatorError
from operator_sre.app.persons import acting_as
from operator_sre.app.tokens import PREFIX, Refusals, check, wrong_door
from operator_sre.faces.terminal_text import clean

if TYPE_CHECKING:
    from fastapi.routing import APIRoute
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from operator_protocols.domain.token import Audience
    from operator_sre.app.wiring import App

__all__ = [
    "BODY_S_MAX",
    "ROLE",
    "SECRET",
    "STRANGER_BURST",
    "STRANGER_PER_S",
    "UNKNOWN_HOST",
    "Admission",
    "Admitted",
    "BodyError",
    "Caller",
    "Face",
    "Rates",
    "Refusal",
    "TokenDesk",
    "has_secret",
    "identify",
    "is_ours",
    "names_of",
    "read_bounded",
    "role_of",
    "source_of",
]

NAMES_MAX = 10_000
PATH_MAX = 200
# Requests without a token are few, and must not keep the server busy.
STRANGER_PER_S = 5.0
STRANGER_BURST = 20.0
BODY_S_MAX = 10.0
# Where the declaration of a route says which role it requires.
ROLE = "x-required-role"
UNKNOWN_HOST = "Unknown Host header. Add the name with --host, or connect by IP address."
# A token's secret that was pasted into a URL.
SECRET = re.compile(rf"{PREFIX}[\w-]{{20,}}")
_SECRET_NAMES = frozenset(
    {"token", "access_token", "api_key", "apikey", "key", "secret", "password", "authorization"}
)
_EXPLAINED = {"expired": "The token has expired.", "revoked": "The token was revoked."}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not admitted: the HTTP status, a sentence, and the reason in the ledger.

    Without a reason it is not recorded. `error` says why the store is not available.
    """

    status: int
    message: str
    reason: str
    wait_s: int = 0
    token: str = ""
    error: OperatorError | None = None


def names_of(hosts: Iterable[str]) -> frozenset[str]:
    """The host names that are accepted besides IP addresses: these and `localhost`."""
    return frozenset(host.lower() for host in ("localhost", *hosts))


def is_ours(place: str, names: frozenset[str]) -> bool:
    """Whether a host, with or without a port, is an IP address or one of these names."""
    name = place.rpartition(":")[0] if not place.endswith("]") and ":" in place else place
    name = name.strip("[]").lower().rstrip(".")
    if name in names:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def source_of(scope: MutableMapping[str, Any]) -> str:
    """The address that a request comes from."""
    return str(scope["client"][0]) if scope.get("client") else "somebody"


def has_secret(scope: MutableMapping[str, Any], *, by_name: bool = True) -> bool:
    """Whether a URL holds a secret, which logs and proxies on the way would keep.

    With `by_name`, parameters such as `key` and `token` hold secrets, whatever their values are,
    and so does every value with the prefix of secrets. Without, a value may be a name like that.
    """
    query = scope["query_string"].decode("latin-1")
    if SECRET.search(scope["path"]) or SECRET.search(unquote_plus(query)):
        return True
    if not by_name:
        return False
    pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=None)
    return PREFIX in query or any(name.lower() in _SECRET_NAMES for name, _ in pairs)


@dataclass(slots=True)
class Rates:
    """A token bucket for each name. The name that was used least recently is forgotten first."""

    per_s: float
    burst: float
    now: Callable[[], float]
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict, init=False)

    def wait_s(self, name: str) -> int:
        """Take one; 0, or the whole seconds until there is one again."""
        now = self.now()
        left, at = self._buckets.pop(name, (self.burst, now))
        left = min(self.burst, left + (now - at) * self.per_s)
        wait = 0 if left >= 1 else max(1, math.ceil((1 - left) / self.per_s))
        self._buckets[name] = (left if wait else left - 1, now)
        if len(self._buckets) > NAMES_MAX:
            self._buckets.popitem(last=False)
        return wait

    def refusal(self, name: str, reason: str = "rate", *, token: str = "") -> Refusal | None:
        """Take one; a refusal with status 429 where there is none."""
        if not (wait_s := self.wait_s(name)):
            return None
        message = f"Too many requests. Retry in {wait_s} s."
        return Refusal(429, message, reason, wait_s, token)


def identify(home: App, audience: Audience, secret: str) -> Token | Refusal:
    """The token with this secret, or why it does not admit. StoreError without a store."""
    token = check(home, secret)
    reason = token.refusal(home.clock.now(), audience) if token else "unknown token"
    if token is not None and not reason:
        return token
    name = token.id if token else ""
    if token is not None and reason == "audience":
        return Refusal(403, wrong_door(token, audience), reason, token=name)
    needed = "A token is required. Send the header Authorization: Bearer SECRET."
    return Refusal(401, _EXPLAINED.get(reason, needed), reason, token=name)


@dataclass(frozen=True, slots=True)
class TokenDesk:
    """Admits requests to one audience by their token, at the rate of that token."""

    home: App
    audience: Audience
    tokens: Rates
    strangers: Rates

    @classmethod
    def of(
        cls, home: App, audience: Audience, *, rate: float, stranger_rate: float = STRANGER_PER_S
    ) -> TokenDesk:
        """A desk that admits so many requests a second of each token, and few of strangers."""
        now = home.clock.monotonic
        strangers = Rates(stranger_rate, max(STRANGER_BURST, stranger_rate), now)
        return cls(home, audience, Rates(rate, 2 * rate, now), strangers)

    def admit(self, authorization: str, source: str) -> Token | Refusal:
        """The token of this header, or why it does not admit. StoreError without a store."""
        scheme, _, secret = authorization.partition(" ")
        bearer = secret.strip() if scheme.lower() == "bearer" else ""
        found = identify(self.home, self.audience, bearer)
        if isinstance(found, Token):
            return self.tokens.refusal(found.id, token=found.id) or found
        if not authorization:
            found = replace(found, reason="no token")
        return self.strangers.refusal(source, found.reason, token=found.token) or found


# The token of a caller, why it is refused, or None for what is open to everybody.
Admitted: TypeAlias = "Token | Refusal | None"


class Face(Protocol):
    """What a server adds to admission: its ways to authenticate, and the form of its answers."""

    @property
    def log(self) -> logging.Logger:
        """Where requests are logged."""
        ...

    @property
    def hardening(self) -> Sequence[tuple[bytes, bytes]]:
        """Headers that every answer has, unless it sets them itself."""
        ...

    @property
    def names_secrets(self) -> bool:
        """Whether parameters of a URL with names such as `key` are refused."""
        ...

    def admit(self, scope: Scope, headers: Mapping[str, str], source: str) -> Admitted:
        """Authenticate the caller."""
        ...

    def answer(self, scope: Scope, refusal: Refusal) -> ASGIApp:
        """The answer to a refused request."""
        ...

    def note(self, scope: Scope, status: int, took_s: float) -> bool:
        """Take note of an answered request; whether it belongs into the access log."""
        ...


@dataclass(slots=True)
class Admission:
    """Middleware in front of a face. A refused request never reaches it."""

    inner: ASGIApp
    face: Face
    refusals: Refusals
    hosts: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit one request, or answer it."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        began, status, source = time.monotonic(), 0, source_of(scope)
        scope["source"] = source

        async def send_hardened(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", ()))
                given = {name.lower() for name, _ in headers}
                more = [header for header in self.face.hardening if header[0] not in given]
                message["headers"] = [*headers, *more]
            await send(message)

        try:
            refusal = self._admit(scope, source)
            if refusal is None:
                await self.inner(scope, receive, send_hardened)
                return
            if refusal.reason:
                await self.refusals.record_refusal(source, refusal.reason, token=refusal.token)
            await self.face.answer(scope, refusal)(scope, receive, send_hardened)
        finally:
            took_s = time.monotonic() - began
            if self.face.note(scope, status, took_s):
                token: Token | None = scope.get("token")
                # A query may hold anything, so only the path is logged.
                self.face.log.info(
                    "%s %s %s %d %.1f ms by %s",
                    source,
                    scope["method"],
                    clean(SECRET.sub(f"{PREFIX}...", str(scope["path"]))[:PATH_MAX]),
                    status,
                    took_s * 1000,
                    clean(f"{token.id} ({token.created_by})" if token else "nobody"),
                )

    def _admit(self, scope: Scope, source: str) -> Refusal | None:
        # Of a repeated header the first counts, as for everything behind admission.
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in reversed(list(scope["headers"]))
        }
        if not is_ours(headers.get("host", ""), self.hosts):
            return Refusal(421, UNKNOWN_HOST, "host")
        if has_secret(scope, by_name=self.face.names_secrets):
            message = "The URL contains a secret. Revoke it, and send a token in a header instead."
            return Refusal(400, message, "secret in the address")
        try:
            admitted = self.face.admit(scope, headers, source)
        except OperatorError as error:
            return Refusal(
                503, "The store is not available. Retry in 1 s.", "store", 1, error=error
            )
        if isinstance(admitted, Refusal):
            return admitted
        if admitted is not None:
            scope["token"] = admitted
        return None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a token with its present role, where the request comes from and came in."""

    token: Token
    role: Role
    source: str
    door: Audience
    refusals: Refusals

    async def lacks(self, role: Role) -> str:
        """Why the role of the caller is not enough, which is recorded; "" when it is."""
        if self.role.may(role):
            return ""
        await self.refusals.record_refusal(self.source, "role", token=self.token.id)
        return f"This needs the role {role}; the token has the role {self.role}."

    def acting(self) -> AbstractContextManager[None]:
        """For the length of a `with`, everything is in the name of the owner of the token."""
        person, role = self.token.created_by, self.role.value
        return acting_as(person, role=role, refusals=self.refusals, door=self.door)


def role_of(route: APIRoute) -> Role:
    """The role that a route requires; admin where it declares none."""
    return Role((route.openapi_extra or {}).get(ROLE, Role.ADMIN))


class BodyError(Exception):
    """A request body that is not read: too large (status 413), or too slow (408)."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


async def read_bounded(request: Request, *, bytes_max: int) -> bytes:
    """The whole body of a request, bounded in size and time; BodyError when it exceeds either."""
    from starlette.requests import ClientDisconnect

    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length[:20]) > bytes_max:
        raise BodyError(413)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S_MAX):
            async for part in request.stream():
                body += part
                if len(body) > bytes_max:
                    raise BodyError(413)
    except (TimeoutError, ClientDisconnect):
        raise BodyError(408) from None
    return bytes(body)
