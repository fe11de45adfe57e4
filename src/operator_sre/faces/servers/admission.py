"""Admission of requests from the network: Host header, secrets in URLs, tokens and rates.

The API and MCP admit by token and the web console by session; the checks here are the same.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from operator_sre.app.tokens import PREFIX, check, wrong_door

if TYPE_CHECKING:
    from operator_protocols.domain.token import Audience, Token
    from operator_sre.app.wiring import App

__all__ = [
    "SECRET",
    "STRANGER_BURST",
    "STRANGER_PER_S",
    "UNKNOWN_HOST",
    "Rates",
    "Refusal",
    "TokenDesk",
    "has_secret",
    "is_ours",
    "names_of",
    "source_of",
]

NAMES_MAX = 10_000
# Requests without a token are few, and must not keep the server busy.
STRANGER_PER_S = 5.0
STRANGER_BURST = 20.0
UNKNOWN_HOST = "Unknown Host header. Add the name with --host, or connect by IP address."
# A token's secret that was pasted into a URL.
SECRET = re.compile(rf"{PREFIX}[\w-]{{20,}}")
_SECRET_NAMES = frozenset(
    {"token", "access_token", "api_key", "apikey", "key", "secret", "password", "authorization"}
)
_EXPLAINED = {"expired": "The token has expired.", "revoked": "The token was revoked."}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not admitted: the HTTP status, a sentence, and the reason in the ledger."""

    status: int
    message: str
    reason: str
    wait_s: int = 0
    token: str = ""


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


def has_secret(scope: MutableMapping[str, Any]) -> bool:
    """Whether a URL holds a secret, which logs and proxies on the way would keep."""
    query: bytes = scope["query_string"]
    if SECRET.search(scope["path"]) or PREFIX.encode() in query:
        return True
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=None)
    return any(name.lower() in _SECRET_NAMES for name, _ in pairs)


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


@dataclass(frozen=True, slots=True)
class TokenDesk:
    """Admits requests to one audience by their token, at the rate of that token."""

    home: App
    audience: Audience
    tokens: Rates
    strangers: Rates

    def admit(self, authorization: str, source: str) -> Token | Refusal:
        """The token of this header, or why it does not admit. StoreError without a store."""
        scheme, _, secret = authorization.partition(" ")
        token = check(self.home, secret.strip()) if scheme.lower() == "bearer" else None
        reason = "unknown token" if authorization else "no token"
        if token is not None:
            reason = token.refusal(self.home.clock.now(), self.audience)
        name = token.id if token else ""
        if token is not None and not reason:
            return self.tokens.refusal(name, token=name) or token
        if slowed := self.strangers.refusal(source, reason, token=name):
            return slowed
        if token is not None and reason == "audience":
            return Refusal(403, wrong_door(token, self.audience), reason, token=name)
        needed = "A token is required. Send the header Authorization: Bearer SECRET."
        return Refusal(401, _EXPLAINED.get(reason, needed), reason, token=name)
