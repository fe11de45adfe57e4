"""Speaking to the members of an etcd cluster: the JSON gateway of its v3 API, over HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import OperatorError
from operator_protocols.kit.access import addresses_of, authority, sentence_of, trust_for
from operator_protocols.kit.http import Request, UnaskableError, exchange
from operator_protocols.ports import SubjectSettings

__all__ = ["Answer", "Etcd", "number", "to_base64"]

BODY_BYTES_MAX = 1 << 20
METRICS_BYTES_MAX = 4 << 20
INT_DIGITS_MAX = 20
UNAUTHENTICATED = 16
DENIED = (7, UNAUTHENTICATED)
# The message beside the code for an invalid argument that means: not authenticated.
DENIALS = ("user name is empty", "authentication failed", "invalid user id or password")
OPEN = Access()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a member. With an `error` it did not do what the request asked for.

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
        error = self.error.lower()
        return self.code in DENIED or any(words in error for words in DENIALS)


class Etcd:
    """Asks all members, for one check or one call of a tool.

    Nothing that a member does raises: every failure is an Answer. `tokens` outlives it, because
    every new token costs the member the hashing of a password.
    """

    def __init__(self, settings: SubjectSettings, tokens: dict[str, str] | None = None) -> None:
        self._settings = settings
        self._tokens = {} if tokens is None else tokens
        self._first: dict[str, str] = {}

    @property
    def timeout_s(self) -> float:
        """How long an answer may take."""
        return self._settings.timeout_s

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
        answer = await self._ask_anywhere(target, "POST", f"/v3/{path}", body or {}, within_s)
        access = target.access
        if answer.code == UNAUTHENTICATED and access is not None and access.user:
            self._tokens.pop(target.name, None)
            answer = await self._ask_anywhere(target, "POST", f"/v3/{path}", body or {}, within_s)
        return answer

    async def metrics(self, target: Target, *, timeout_s: float | None = None) -> Answer:
        """The text of its metrics."""
        within_s = self._settings.timeout_s if timeout_s is None else timeout_s
        return await self._ask_anywhere(target, "GET", "/metrics", None, within_s)

    async def peer(
        self, target: Target, url: str, body: Mapping[str, Any], *, timeout_s: float | None = None
    ) -> Answer:
        """GET from the address at which other members speak to this one."""
        within_s = self._settings.timeout_s if timeout_s is None else timeout_s
        return await self._ask_once(target, "GET", url, body, within_s)

    async def _ask_anywhere(
        self,
        target: Target,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        timeout_s: float,
    ) -> Answer:
        addresses = [authority(address) for address in addresses_of(target)]
        if not addresses:
            return Answer(error="the target has no port", reached=False)
        known = self._first.get(target.name)
        if known in addresses:
            addresses = [known, *(address for address in addresses if address != known)]
        scheme = "https" if (target.access or OPEN).tls else "http"
        answer = Answer()
        for address in addresses:
            url = f"{scheme}://{address}{path}"
            answer = await self._ask_once(target, method, url, body, timeout_s / len(addresses))
            if answer.reached:
                self._first[target.name] = address
                return answer
        return answer

    async def _ask_once(
        self,
        target: Target,
        method: str,
        url: str,
        body: Mapping[str, Any] | None,
        timeout_s: float,
    ) -> Answer:
        access, (base, is_api, _) = target.access or OPEN, url.partition("/v3/")
        try:
            # One limit for all of it: an answer that drips would never end.
            async with asyncio.timeout(timeout_s):
                # Our credentials: a token in a file, or a token that the member gives for a
                # password.
                token = ""
                if is_api and access.user:
                    if target.name not in self._tokens:
                        password = self._settings.secret(access.password_file)
                        claim = {"name": access.user, "password": password}
                        place = f"{base}/v3/auth/authenticate"
                        given = (await self._send(target, "POST", place, claim)).body.get("token")
                        self._tokens[target.name] = given if isinstance(given, str) else ""
                    token = self._tokens[target.name]
                elif is_api and access.token_file:
                    token = self._settings.secret(access.token_file)
                return await self._send(target, method, url, body, token)
        except OSError as error:
            return Answer(error=f"{urlsplit(url).netloc}: {sentence_of(error)}", reached=False)
        except (UnaskableError, ValueError) as error:
            return Answer(error=f"it cannot be queried: {error}")
        except OperatorError as error:  # files that say who we are
            return Answer(error=f"no connection possible: {error}")

    async def _send(
        self,
        target: Target,
        method: str,
        url: str,
        body: Mapping[str, Any] | None,
        token: str = "",
    ) -> Answer:
        access, place = target.access or OPEN, urlsplit(url)
        as_text = place.path.endswith("/metrics")
        try:
            trust = trust_for(access) if place.scheme == "https" else None
        except OSError as error:
            return Answer(error=f"no connection possible: {error}")
        request = Request(
            method,
            place.path,
            {"authorization": token} if token else {},
            b"" if body is None else json.dumps(body).encode(),
            METRICS_BYTES_MAX if as_text else BODY_BYTES_MAX,
        )
        address = (place.hostname or "", place.port or 0)
        got = await exchange(address, request, trust=trust, server_name=access.server_name)
        if got.cut:
            return Answer(error="the answer is too long", took_s=got.took_s)
        if as_text:
            problem = "" if got.status == 200 else f"it answered {got.status}"
            text = got.body.decode("utf-8", "replace")
            return Answer(text=text, error=problem, took_s=got.took_s)
        try:
            document = json.loads(got.body)
        except (RecursionError, ValueError):
            document = None
        if not isinstance(document, dict):
            problem = "something that is not JSON" if got.status == 200 else str(got.status)
            return Answer(error=f"it answered {problem}", strange=True, took_s=got.took_s)
        if got.status == 200:
            return Answer(document, took_s=got.took_s)
        message = document.get("message") or document.get("error")
        words = message if isinstance(message, str) else f"it answered {got.status}"
        return Answer(document, error=words, code=number(document, "code"), took_s=got.took_s)


def to_base64(text: str | bytes) -> str:
    """Bytes as the gateway wants them."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def number(body: Mapping[str, Any], name: str) -> int:
    """A number of 64 bits, which the gateway writes as text, and leaves out when it is 0."""
    value = body.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | str):
        return 0
    text = str(value)
    return int(text) if len(text) <= INT_DIGITS_MAX and text.lstrip("-").isdecimal() else 0
