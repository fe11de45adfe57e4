"""Admission of API requests, before any route sees them; request counts and the access log."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.token import Token
from operator_protocols.errors import OperatorError
from operator_sre.app.tokens import PREFIX, Refusals
from operator_sre.faces.api.response import problem, refuse
from operator_sre.faces.servers.admission import (
    SECRET,
    UNKNOWN_HOST,
    Rates,
    Refusal,
    TokenDesk,
    has_secret,
    is_ours,
    source_of,
)
from operator_sre.faces.terminal_text import clean

if TYPE_CHECKING:
    from fastapi import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["OPEN_PATH", "Admission", "Counts"]

OPEN_PATH = "/healthz"
PATH_MAX = 200
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_HARDENED: list[tuple[bytes, bytes]] = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]
# What a program does about a refusal, by status.
_ACTIONS = {
    400: NextAction.SET_SECRET,
    401: NextAction.SET_SECRET,
    403: NextAction.SET_SECRET,
    421: NextAction.ASK_USER,
    429: NextAction.RERUN,
}
_CATEGORIES = {
    401: ErrorCategory.TRIGGER_AUTH_FAILED,
    403: ErrorCategory.POLICY_DENIED,
}
log = logging.getLogger("operator_sre.api")


@dataclass(slots=True)
class Counts:
    """How many requests there were and how long they took, as metrics."""

    statuses: Counter[int] = field(default_factory=Counter)
    slower: Counter[float] = field(default_factory=Counter)
    seconds: float = 0.0
    viewers: int = 0

    def take(self, status: int, seconds: float) -> None:
        """Count one request."""
        self.statuses[status] += 1
        self.seconds += seconds
        for limit in SECONDS:
            if seconds <= limit:
                self.slower[limit] += 1

    def lines(self) -> str:
        """The counts in the text format of Prometheus."""
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
    """Middleware before every route. A refused request never reaches one."""

    inner: ASGIApp
    desk: TokenDesk
    refusals: Refusals
    counts: Counts
    hosts: frozenset[str]
    strangers: Rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit one request, or answer it."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        began, status = time.monotonic(), 0
        scope["source"] = source_of(scope)

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
            took_s = time.monotonic() - began
            self.counts.take(status, took_s)
            token: Token | None = scope.get("token")
            # A query may hold anything, so only the path is logged.
            log.info(
                "%s %s %s %d %.1f ms by %s",
                scope["source"],
                scope["method"],
                clean(SECRET.sub(f"{PREFIX}...", str(scope["path"]))[:PATH_MAX]),
                status,
                took_s * 1000,
                clean(f"{token.id} ({token.created_by})" if token else "nobody"),
            )

    async def _admit(self, scope: Scope) -> Response | None:
        """The answer to a request that is not admitted; None if it is."""
        wanted, source = (b"host", b"authorization"), scope["source"]
        given: list[tuple[bytes, bytes]] = scope["headers"]
        headers = {name.decode(): text.decode("latin-1") for name, text in given if name in wanted}
        admitted: Token | Refusal | None
        if not is_ours(headers.get("host", ""), self.hosts):
            admitted = Refusal(421, UNKNOWN_HOST, "host")
        elif scope["path"] == OPEN_PATH:
            slowed = self.strangers.refusal(source)
            return _answer(slowed) if slowed else None
        elif has_secret(scope):
            message = "The URL contains a secret. Revoke it, and send a token in a header instead."
            admitted = Refusal(400, message, "secret in the address")
        else:
            try:
                admitted = self.desk.admit(headers.get("authorization", ""), source)
            except OperatorError as error:
                return problem(error)
        if isinstance(admitted, Refusal):
            await self.refusals.record_refusal(source, admitted.reason, token=admitted.token)
            return _answer(admitted)
        scope["token"] = admitted
        return None


def _answer(refusal: Refusal) -> Response:
    headers = {"www-authenticate": "Bearer"} if refusal.status == 401 else {}
    if refusal.wait_s:
        headers["retry-after"] = str(refusal.wait_s)
    category = _CATEGORIES.get(refusal.status, ErrorCategory.POLICY_VALIDATION_FAILED)
    action = _ACTIONS[refusal.status]
    return refuse(
        refusal.status, refusal.message, category=category, action=action, headers=headers
    )
