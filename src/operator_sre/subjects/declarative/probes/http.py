"""Asking over HTTP: the status, the body, how long it takes, and how long the certificate lasts."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from operator_protocols.domain.observation import Value
from operator_sre.subjects.declarative.probes.exchange import (
    Answer,
    Request,
    UnaskableError,
    exchange,
)
from operator_sre.subjects.declarative.probes.place import (
    Address,
    Blind,
    Place,
    Readings,
    addresses_of,
    checked,
    down,
    first_answer,
)
from operator_sre.subjects.declarative.table import Table
from operator_sre.subjects.declarative.taking import Taken, taken_in
from operator_sre.subjects.declarative.values import document_of, path_of, pick, plain

__all__ = ["KEYS", "HttpProbe", "authorization", "read_http"]

BODY_BYTES_MAX = 256 * 1024
STATUSES = ("2xx", "3xx")
METHODS = ("GET", "HEAD", "OPTIONS", "POST")
# Whoever reads a description must not find a password in it.
_SECRET_HEADERS = ("authorization", "proxy-authorization", "cookie", "x-api-key")
KEYS = ("method", "path", "port", "headers", "header_files", "body", "expect", "read", "reviewed")
_DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class HttpProbe:
    """One request and what is expected of its answer."""

    method: str = "GET"
    path: str = "/"
    port: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    header_files: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    statuses: tuple[str, ...] = STATUSES
    json: Mapping[str, tuple[tuple[str | int, ...], Value]] = field(default_factory=dict)
    latency_ms_max: float | None = None
    taken: Taken = field(default_factory=Taken)

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        own = {"up", "ok", "error", "status", "latency_ms", "bytes", "certificate_days"}
        return frozenset(own | {"endpoint"}) | self.taken.fields

    async def look(self, place: Place) -> Readings:
        """Ask the first address that answers."""
        headers, access = self._headers(place), place.access
        trust = place.links.trust(access) if access.tls else None

        async def ask(address: Address) -> tuple[Answer, float]:
            return await self._ask(address, headers, trust, access.server_name)

        addresses = addresses_of(place.target, self.port)
        found, problem, address = await first_answer(addresses, place.timeout_s, ask)
        if found is None:
            return down(problem)
        answer, took_ms = found
        readings: Readings = {
            "status": answer.status,
            "latency_ms": round(took_ms, 3),
            "bytes": len(answer.body),
            "endpoint": f"{address[0]}:{address[1]}",
        }
        if (days := _days_left(answer.certificate)) is not None:
            readings["certificate_days"] = days
        document = document_of(answer.body) if self.json or self.taken.paths else None
        readings |= self.taken.found(document, answer.body)
        return checked(readings, self._disappointed(answer.status, took_ms, document, readings))

    def _headers(self, place: Place) -> dict[str, str]:
        headers = {"user-agent": "operator", **self.headers, **authorization(place)}
        for name, file in self.header_files.items():
            headers[name] = place.secret(file)
        return headers

    async def _ask(
        self, address: Address, headers: Mapping[str, str], trust: ssl.SSLContext | None, name: str
    ) -> tuple[Answer, float]:
        request = Request(self.method, self.path, headers, self.body.encode(), BODY_BYTES_MAX)
        begun = time.perf_counter()
        try:
            answer = await exchange(address, request, trust=trust, server_name=name)
        except UnaskableError as error:
            raise Blind(f"it cannot be asked: {error}") from error
        return answer, (time.perf_counter() - begun) * 1000

    def _disappointed(self, code: int, took_ms: float, document: object, readings: Readings) -> str:
        """What is not as it is expected, or ""."""
        status = str(code)
        if not any(one in (status, f"{status[0]}xx") for one in self.statuses):
            return f"it answered {status}, not {' or '.join(self.statuses)}"
        for text, (path, wanted) in self.json.items():
            found = pick(document, path)
            if found != wanted or isinstance(found, bool) != isinstance(wanted, bool):
                return f"{text} is {found!r}, not {wanted!r}"
        if readings.get("matched") is False:
            return "its body does not match"
        if self.latency_ms_max is not None and took_ms > self.latency_ms_max:
            return f"it took {took_ms:.0f} ms, not {self.latency_ms_max:g}"
        return ""


def read_http(table: Table) -> HttpProbe:
    """The probe of a description."""
    method = table.choice("method", METHODS, "GET")
    if method == "POST" and not table.flag("reviewed"):
        raise table.wrong(
            "a POST may change something, and a look may not.",
            "method",
            next_step="Write 'reviewed: true' beside it if it changes nothing.",
        )
    path = table.text("path", "/")
    if not path.startswith("/") or any(one.isspace() or ord(one) < 32 for one in path):
        raise table.wrong("'path' begins with '/' and has no spaces.", "path")
    headers = {name: str(value) for name, value in table.pairs("headers").items()}
    for name, value in headers.items():
        if name.lower() in _SECRET_HEADERS:
            raise table.wrong(
                f"the header {name!r} is a secret, which does not belong here.",
                "headers",
                next_step="Name a file under 'header_files', or one under 'access' of the target.",
            )
        if "\n" in value or "\r" in value or not name.isascii():
            raise table.wrong(f"the header {name[:40]!r} makes no sense.", "headers")
    expect = table.table("expect", "status", "json", "body", "latency")
    return HttpProbe(
        method=method,
        path=path,
        port=table.port(),
        headers=headers,
        header_files={name: str(value) for name, value in table.pairs("header_files").items()},
        body=table.text("body"),
        statuses=_statuses(expect),
        json=_json(expect),
        latency_ms_max=_milliseconds(expect),
        taken=taken_in(table, expect),
    )


def _statuses(expect: Table | None) -> tuple[str, ...]:
    if expect is None or "status" not in expect:
        return STATUSES
    single = expect.node("status")
    assert single is not None
    found = (str(single.value),) if isinstance(single.value, int) else expect.texts("status")
    for one in found:
        if not (len(one) == 3 and one[0] in "12345" and (one[1:] == "xx" or one.isdecimal())):
            raise expect.wrong(f"{one[:20]!r} is no status, such as 200 or 2xx.", "status")
    return found


def _json(expect: Table | None) -> dict[str, tuple[tuple[str | int, ...], Value]]:
    found: dict[str, tuple[tuple[str | int, ...], Value]] = {}
    for text, wanted in (expect.pairs("json") if expect is not None else {}).items():
        assert expect is not None
        try:
            found[text] = path_of(text), plain(wanted)
        except ValueError as error:
            raise expect.wrong(f"{error}.", "json") from error
    return found


def _milliseconds(expect: Table | None) -> float | None:
    found = expect.seconds("latency", None) if expect is not None else None
    return None if found is None else found * 1000


def authorization(place: Place) -> dict[str, str]:
    """Who we are, as HTTP says it, read anew from its file."""
    access = place.access
    if access.user:
        password = place.secret(access.password_file) if access.password_file else ""
        both = base64.b64encode(f"{access.user}:{password}".encode()).decode()
        return {"authorization": f"Basic {both}"}
    if access.token_file:
        return {"authorization": f"Bearer {place.secret(access.token_file)}"}
    return {}


def _days_left(certificate: Mapping[str, object] | None) -> Value:
    """How long a certificate is still good for; None without one."""
    until = (certificate or {}).get("notAfter")
    if not isinstance(until, str):
        return None
    return round((ssl.cert_time_to_seconds(until) - time.time()) / _DAY_S, 2)
