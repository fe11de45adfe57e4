"""The API as a face of admission: tokens, error documents and request counts."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_sre.faces.api.response import problem, refuse
from operator_sre.faces.servers.admission import Refusal, TokenDesk

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Scope

    from operator_sre.faces.servers.admission import Admitted


__all__ = ["OPEN_PATH", "ApiFace", "Counts"]

OPEN_PATH = "/healthz"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_HARDENED: tuple[tuple[bytes, bytes], ...] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
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
class ApiFace:
    """Callers of the API have a token; whether the server lives is open to everybody."""

    desk: TokenDesk
    counts: Counts
    log: logging.Logger = log
    hardening: Sequence[tuple[bytes, bytes]] = _HARDENED
    names_secrets: bool = True

    def admit(self, scope: Scope, headers: Mapping[str, str], source: str) -> Admitted:
        """The token of the request."""
        if scope["path"] == OPEN_PATH:
            return self.desk.strangers.refusal(source, "")
        return self.desk.admit(headers.get("authorization", ""), source)

    def answer(self, scope: Scope, refusal: Refusal) -> ASGIApp:
        """The error document."""
        if refusal.error:
            return problem(refusal.error)
        headers = {"www-authenticate": "Bearer"} if refusal.status == 401 else {}
        if refusal.wait_s:
            headers["retry-after"] = str(refusal.wait_s)
        category = _CATEGORIES.get(refusal.status, ErrorCategory.POLICY_VALIDATION_FAILED)
        action = _ACTIONS[refusal.status]
        return refuse(
            refusal.status, refusal.message, category=category, action=action, headers=headers
        )

    def note(self, scope: Scope, status: int, took_s: float) -> bool:
        """Count the request."""
        self.counts.take(status, took_s)
        return True
