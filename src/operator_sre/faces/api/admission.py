"""Admission: by which name we are asked, who asks, how often; before anything else happens."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from fastapi import Response

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.token import Audience, Token
from operator_protocols.errors import OperatorError
from operator_sre.app.tokens import PREFIX, Refusals, check, wrong_door
from operator_sre.faces.api.response import problem, refused
from operator_sre.faces.cli.output import clean
from operator_sre.faces.listening.admission import Rates, is_ours

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from operator_sre.app.wiring import App

__all__ = ["OPEN_PATH", "Admission", "Counts"]

OPEN_PATH = "/healthz"
PATH_MAX = 200
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_SECRETS = frozenset(
    {"token", "access_token", "api_key", "apikey", "key", "secret", "password", "authorization"}
)
# A secret that was pasted where an id belongs.
_SECRET = re.compile(rf"{PREFIX}[\w-]{{20,}}")
log = logging.getLogger("operator_sre.api")


@dataclass(slots=True)
class Counts:
    """How many requests there were, and how long they took, for whoever scrapes us."""

    statuses: Counter[int] = field(default_factory=Counter)
    slower: Counter[float] = field(default_factory=Counter)
    seconds: float = 0.0
    viewers: int = 0

    def take(self, status: int, seconds: float) -> None:
        """One more."""
        self.statuses[status] += 1
        self.seconds += seconds
        for limit in SECONDS:
            if seconds <= limit:
                self.slower[limit] += 1

    def lines(self) -> str:
        """The same in the words of Prometheus."""
        name, total = "operator_api_request_seconds", self.statuses.total()
        lines = ["# TYPE operator_api_requests_total counter"]
        for status, count in sorted(self.statuses.items()):
            lines.append(f'operator_api_requests_total{{status="{status}"}} {count}')
        lines.append(f"# TYPE {name} histogram")
        lines += [f'{name}_bucket{{le="{limit}"}} {self.slower[limit]}' for limit in SECONDS]
        lines += [f'{name}_bucket{{le="+Inf"}} {total}', f"{name}_sum {self.seconds:.6f}"]
        lines += [f"{name}_count {total}", "# TYPE operator_api_event_viewers gauge"]
        return "\n".join([*lines, f"operator_api_event_viewers {self.viewers}", ""])


@dataclass(slots=True)
class Admission:
    """Stands in front of every route. What is refused here never reaches one."""

    inner: ASGIApp
    home: App
    refusals: Refusals
    counts: Counts
    hosts: frozenset[str]
    tokens: Rates
    strangers: Rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request in, or answer it."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        began, status = time.monotonic(), 0
        scope["source"] = scope["client"][0] if scope.get("client") else "somebody"

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HARDENED]
            await send(message)

        try:
            response = await self._admit(scope)
            await (response or self.inner)(scope, receive, sending)
        finally:
            took = time.monotonic() - began
            self.counts.take(status, took)
            _log(scope, status, took)

    async def _admit(self, scope: Scope) -> Response | None:
        """What to answer instead; None when it may come in."""
        wanted = (b"host", b"authorization")
        told: list[tuple[bytes, bytes]] = scope["headers"]
        headers = {name.decode(): it.decode("latin-1") for name, it in told if name in wanted}
        if not is_ours(headers.get("host", ""), self.hosts):
            await self.refusals.refused(scope["source"], "host")
            return refused(421, "We are not known by that name.", action=NextAction.ASK_USER)
        if scope["path"] == OPEN_PATH:
            return self._slowed(self.strangers, scope["source"])
        if _tells_secret(scope):
            await self.refusals.refused(scope["source"], "secret in the address")
            words = "A secret does not belong into an address: revoke it, and send a header."
            return refused(400, words, action=NextAction.SET_SECRET)
        return await self._token(scope, headers.get("authorization", ""))

    async def _token(self, scope: Scope, told: str) -> Response | None:
        source = scope["source"]
        scheme, _, secret = told.partition(" ")
        try:
            token = check(self.home, secret.strip()) if scheme.lower() == "bearer" else None
        except OperatorError as error:
            return problem(error)
        why = "unknown token" if told else "no token"
        if token is not None:
            why = token.refusal(self.home.clock.now(), Audience.API)
        if token is None or why:
            slowed = self._slowed(self.strangers, source)
            await self.refusals.refused(source, why, token=token.id if token else "")
            if token is not None and why == "audience" and not slowed:
                words = wrong_door(token, Audience.API)
                denied = ErrorCategory.POLICY_DENIED
                return refused(403, words, category=denied, action=NextAction.SET_SECRET)
            return slowed or _unknown(why)
        if slowed := self._slowed(self.tokens, token.id):
            await self.refusals.refused(source, "rate", token=token.id)
            return slowed
        scope["token"] = token
        return None

    def _slowed(self, rates: Rates, name: str) -> Response | None:
        wait_s = rates.wait_s(name)
        if not wait_s:
            return None
        headers = {"retry-after": str(wait_s)}
        words = f"Too many requests; come back in {wait_s} s."
        return refused(429, words, action=NextAction.RERUN, headers=headers)


_HARDENED: list[tuple[bytes, bytes]] = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]


def _unknown(why: str) -> Response:
    # Whoever holds a token that was good once may know why it is not any more; it is their own.
    known = {"expired": "The token has expired.", "revoked": "The token was revoked."}
    words = known.get(why, "A token is needed: Authorization: Bearer SECRET.")
    return refused(
        401,
        words,
        category=ErrorCategory.TRIGGER_AUTH_FAILED,
        action=NextAction.SET_SECRET,
        headers={"www-authenticate": "Bearer"},
    )


def _tells_secret(scope: Scope) -> bool:
    query = scope["query_string"]
    if _SECRET.search(scope["path"]):
        return True
    if not query:
        return False
    if PREFIX.encode() in query:
        return True
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=None)
    return any(name.lower() in _SECRETS for name, _ in pairs)


def _log(scope: Scope, status: int, took: float) -> None:
    token: Token | None = scope.get("token")
    who = f"{token.id} ({token.created_by})" if token else "nobody"
    path: Any = scope["path"]
    # The address of a page may hold anything, so what follows the path is never written.
    log.info(
        "%s %s %s %d %.1f ms by %s",
        scope["source"],
        scope["method"],
        clean(_SECRET.sub(f"{PREFIX}...", str(path))[:PATH_MAX]),
        status,
        took * 1000,
        clean(who),
    )
