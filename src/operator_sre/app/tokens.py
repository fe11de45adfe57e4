"""Tokens: who is let in by the network, in whose name, and a record of who was not.

A token acts in the name of the person who created it, and can do no more than they may, nor more
than its role. Its secret is shown once; what is kept is a hash.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.permit import fingerprint_of
from operator_protocols.domain.token import Audience, Role, Token
from operator_protocols.domain.verdict import Level, Risk, Verdict
from operator_protocols.errors import AuthorityError, OperatorError, UsageError
from operator_sre.app.persons import acting_person, must_be_a_person, signed_in
from operator_sre.app.wiring import App

__all__ = [
    "DAYS",
    "DAYS_MAX",
    "PREFIX",
    "Refusals",
    "check",
    "create",
    "find",
    "record_listener",
    "record_sign_in",
    "record_sign_out",
    "revoke",
    "role_in_force",
    "wrong_door",
]

DAYS = 30
DAYS_MAX = 366
PREFIX = "operator_"
SECRET_BYTES = 32
NAME_MAX = 64
# A refusal is recorded at once; later ones from the same source are counted.
TOLD_EVERY_S = 60.0
SOURCES_MAX = 20
OTHERS = "others"
DOORS = {
    Audience.API: "the HTTP API (operator serve)",
    Audience.MCP: "the MCP server (operator mcp --http)",
    Audience.WEB: "the web console (operator web)",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@:-]{0,63}")


def wrong_door(token: Token, door: Audience) -> str:
    """The error for a token that is used at the wrong interface."""
    return (
        f"This token is for {DOORS[token.audience]}. To use {DOORS[door]}, create another one with:"
        f" operator tokens create NAME --for {door}"
    )


async def create(
    app: App, name: str, role: Role, days: int = DAYS, *, audience: Audience = Audience.API
) -> tuple[Token, str]:
    """A new token and its secret, which is shown only once. Only for people."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:NAME_MAX]!r} is not a valid name of a token.",
            next_step=f"Use up to {NAME_MAX} letters, digits, spaces, '.', '_', '@', ':' or '-'.",
        )
    if not 1 <= days <= DAYS_MAX:
        raise UsageError(f"A token lasts between 1 and {DAYS_MAX} days.", next_step="Say --days.")
    person = _at_the_keyboard(app, "create a token")
    now = app.clock.now()
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    until = now + timedelta(days=days)
    token = Token(app.new_id()[:12], name, role, person, now, until, audience=audience)
    if (own := role_in_force(app, token)) is not role:
        words = f"{person!r} may have tokens of the role {own}, not {role}."
        raise AuthorityError(words, next_step="Ask an admin for a higher role.")
    await app.store.tokens.add(token, fingerprint=fingerprint_of(secret))
    return token, secret


def check(app: App, secret: str) -> Token | None:
    """The token with this secret, whether it still counts or not; None when there is none."""
    if not secret.startswith(PREFIX) or len(secret) > 4 * SECRET_BYTES:
        return None
    return app.store.tokens.of(fingerprint_of(secret))


def role_in_force(app: App, token: Token) -> Role:
    """The present rights of a token: at most its role, and those of its creator."""
    person = token.created_by
    if not app.permissions.may_administer(person, "use the token"):
        return token.role
    change = Verdict(Action("tokens", {}), Level.REVIEW, Risk.LOW, (), "it changes something", "")
    viewer = app.permissions.may_request(Actor(person, "user"), change)
    return min([token.role, Role.VIEWER if viewer else Role.APPROVER], key=list(Role).index)


async def revoke(app: App, token: str, *, reason: str = "") -> Token:
    """Revoke a token: for its creator and for admins."""
    person = _at_the_keyboard(app, "revoke a token")
    known = next((known for known in app.store.tokens.find() if known.id == token), None)
    if known is not None and known.created_by != person:
        why = app.permissions.may_administer(person, "revoke the token of another")
        if why:
            raise AuthorityError(why, next_step="Ask an admin.")
    return await app.store.tokens.revoke(token, by=Actor(person, "user"), reason=reason)


def find(app: App, *, every: bool = True) -> Sequence[Token]:
    """Tokens, newest first: valid ones, or all."""
    now = app.clock.now()
    return [token for token in app.store.tokens.find() if every or not token.refusal(now)]


async def record_listener(app: App, *, address: str, tls: bool, public: bool) -> None:
    """Write down that others can reach us there from now on."""
    payload = {"address": address, "tls": tls, "public": public}
    actor = Actor(signed_in(), "user")
    await app.store.journal.append(Draft(Kind.LISTENER_OPENED, payload, actor=actor))


async def record_sign_in(app: App, token: Token, *, source: str) -> None:
    """Write down that a browser acts with this token from now on."""
    await _record(app, Kind.SIGNED_IN, token, {"source": source, "role": token.role.value})


async def record_sign_out(app: App, token: Token, *, source: str) -> None:
    """Write down that it does so no more, because a person ended it."""
    await _record(app, Kind.SIGNED_OUT, token, {"source": source})


async def _record(app: App, kind: Kind, token: Token, details: Mapping[str, Any]) -> None:
    # Not called a token, which the redactor would take for a secret.
    payload = {"admission": token.id, "name": token.name, **details}
    await app.store.journal.append(Draft(kind, payload, actor=Actor(token.created_by, "user")))


@dataclass(slots=True)
class _Source:
    told_at: float
    token: str = ""
    by: Actor | None = None
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Refusals:
    """Who was not let in: in the ledger once a minute for each source, with how often and why.

    However many sources there are, so many entries a minute are the most; the rest count together.
    """

    app: App
    _sources: dict[str, _Source] = field(default_factory=dict, init=False)

    async def record_refusal(
        self,
        source: str,
        reason: str,
        *,
        token: str = "",
        by: Actor | None = None,
        first: Mapping[str, Any] | None = None,
    ) -> None:
        """Count a refusal. Only the ledger gets the reason.

        `by` is an authenticated person, `first` the reason of the first refusal of a minute.
        """
        now = self.app.clock.monotonic()
        await self.flush(now)
        name = source if source in self._sources or len(self._sources) < SOURCES_MAX else OTHERS
        known = self._sources.get(name)
        if known is None:
            # The first refusal of a minute is recorded at once.
            self._sources[name] = _Source(now, by=by)
            await self._tell(name, Counter({reason: 1}), token, by, first or {})
        else:
            known.reasons[reason] += 1
            known.token = token or known.token

    async def flush(self, now: float | None = None) -> None:
        """Record the counts of sources whose minute has ended; without a time, of all."""
        over = [
            (name, source)
            for name, source in self._sources.items()
            if now is None or now - source.told_at >= TOLD_EVERY_S
        ]
        for name, ended in over:
            # Meanwhile another request may have recorded it.
            if self._sources.get(name) is not ended:
                continue
            del self._sources[name]
            if ended.reasons:
                await self._tell(name, ended.reasons, ended.token, ended.by, {})

    async def _tell(
        self,
        source: str,
        reasons: Counter[str],
        token: str,
        by: Actor | None,
        first: Mapping[str, Any],
    ) -> None:
        payload = {
            "source": source,
            "count": reasons.total(),
            "reasons": dict(sorted(reasons.items())),
            **({"admission": token} if token else {}),
            **first,
        }
        actor = by if by is not None and source != OTHERS else Actor(source, "network")
        try:
            await self.app.store.journal.append(Draft(Kind.ACCESS_REFUSED, payload, actor=actor))
        except OperatorError:
            # The request stays refused, even if the refusal cannot be recorded.
            self._sources.setdefault(source, _Source(self.app.clock.monotonic())).reasons += reasons


def _at_the_keyboard(app: App, deed: str) -> str:
    """The signed-in person; AuthorityError for a token and for an agent's command."""
    must_be_a_person(app)
    if acting_person():
        raise AuthorityError(f"Only a person may {deed}.", next_step="Do it in a terminal.")
    return signed_in()
