"""HTTP requests: the status, the body, the latency, and the validity of the certificate."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from operator_protocols.domain.observation import Value
from operator_protocols.kit.access import Address, authorize
from operator_protocols.kit.http import Answer, Request, UnaskableError, exchange
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.probes.place import (
    Blind,
    Place,
    down,
    first_answer,
    is_accepting,
    places_of,
    up,
)
from operator_sre.subjects.declarative.symptom import quote_reason
from operator_sre.subjects.declarative.values import (
    Extraction,
    Path,
    Readings,
    document_of,
    path_of,
    pick,
    plain,
    read_extraction,
)

__all__ = ["KEYS", "HttpProbe", "read_http"]

BODY_BYTES_MAX = 256 * 1024
ERROR_STATUS = 500
REASON_BYTES_READ = 64 * 1024
STATUSES = ("2xx", "3xx")
METHODS = ("GET", "HEAD", "OPTIONS", "POST")
# A reader of a description must not find a password in it.
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
    json: Mapping[str, tuple[Path, Value]] = field(default_factory=dict)
    latency_ms_max: float | None = None
    extraction: Extraction = field(default_factory=Extraction)

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        own = {
            "up",
            "ok",
            "error",
            "status",
            "reason",
            "latency_ms",
            "bytes",
            "certificate_days",
            "connected",
        }
        return frozenset(own | {"endpoint"}) | self.extraction.fields

    async def observe(self, place: Place) -> Readings:
        """Ask the first address that answers."""
        headers = {
            "user-agent": "operator",
            **self.headers,
            **authorize(place.access, place.secret),
            **{name: place.secret(file) for name, file in self.header_files.items()},
        }
        body = self.body.encode()
        request = Request(self.method, self.path, headers, body, BODY_BYTES_MAX)
        trust, name = place.trust, place.access.server_name

        async def ask(address: Address) -> tuple[Answer, float]:
            started = time.perf_counter()
            try:
                answer = await exchange(address, request, trust=trust, server_name=name)
            except UnaskableError as error:
                raise Blind(f"it cannot be queried: {error}") from error
            return answer, (time.perf_counter() - started) * 1000

        addresses = places_of(place.target, self.port)
        result, problem, address = await first_answer(addresses, place.timeout_s, ask)
        if result is None:
            # A server that accepts connections is reachable, however long its answers take.
            if problem.endswith("did not answer in time") and await is_accepting(address):
                return down(f"{problem}, though it accepts connections", connected=True)
            return down(problem)
        answer, took_ms = result
        readings: Readings = {
            "status": answer.status,
            "latency_ms": round(took_ms, 3),
            "bytes": len(answer.body),
            "endpoint": f"{address[0]}:{address[1]}",
        }
        until = (answer.certificate or {}).get("notAfter")
        if isinstance(until, str):
            left_s = ssl.cert_time_to_seconds(until) - time.time()
            readings["certificate_days"] = round(left_s / _DAY_S, 2)
        document = document_of(answer.body) if self.json or self.extraction.paths else None
        readings |= self.extraction.extract(document, answer.body)
        why = self._find_mismatch(answer.status, took_ms, document, readings)
        if why and answer.status >= ERROR_STATUS and "reason" not in readings:
            text = answer.body[:REASON_BYTES_READ].decode("utf-8", "replace")
            if reason := quote_reason(text):
                readings["reason"] = reason
                why = f"{why}: {reason}"
        return up(readings, why)

    def _find_mismatch(
        self, code: int, took_ms: float, document: object, readings: Readings
    ) -> str:
        """What is not as it is expected, or ""."""
        status = str(code)
        if not any(accepted in (status, f"{status[0]}xx") for accepted in self.statuses):
            return f"it answered {status}, not {' or '.join(self.statuses)}"
        for text, (path, wanted) in self.json.items():
            value = pick(document, path)
            if value != wanted or isinstance(value, bool) != isinstance(wanted, bool):
                return f"{text} is {value!r}, not {wanted!r}"
        if readings.get("matched") is False:
            return "the body does not match"
        if self.latency_ms_max is not None and took_ms > self.latency_ms_max:
            return f"it took {took_ms:.0f} ms, more than {self.latency_ms_max:g} ms"
        return ""


def read_http(table: Table, folder: str) -> HttpProbe:
    """Parse the probe of a description; paths of secrets are relative to it."""
    method = table.choice("method", METHODS, "GET")
    if method == "POST" and not table.flag("reviewed"):
        raise table.wrong(
            "a POST may change something, and a probe must not.",
            "method",
            next_step="Write 'reviewed: true' beside it if it changes nothing.",
        )
    path = table.text("path", "/")
    if not path.startswith("/") or any(letter.isspace() or ord(letter) < 32 for letter in path):
        raise table.wrong("'path' must start with '/' and contain no spaces.", "path")
    headers = {name: str(value) for name, value in table.pairs("headers").items()}
    for name, value in headers.items():
        if name.lower() in _SECRET_HEADERS:
            raise table.wrong(
                f"the header {name!r} is a secret and must not be in this file.",
                "headers",
                next_step="Put it into a file under 'header_files' or 'access' of the target.",
            )
        if "\n" in value or "\r" in value or not name.isascii():
            raise table.wrong(f"the header {name[:40]!r} is not valid.", "headers")
    expect = table.table("expect", "status", "json", "body", "latency")
    statuses: tuple[str, ...] = STATUSES
    latency_s: float | None = None
    json: dict[str, tuple[Path, Value]] = {}
    if expect is not None:
        single = expect.node("status")
        if single is not None:
            number = isinstance(single.value, int)
            statuses = (str(single.value),) if number else expect.texts("status")
        for status in statuses:
            known = len(status) == 3 and status[0] in "12345"
            if not known or not (status[1:] == "xx" or status.isdecimal()):
                raise expect.wrong(
                    f"{status[:20]!r} is not a valid status. Use 200 or 2xx.", "status"
                )
        for text, wanted in expect.pairs("json").items():
            try:
                json[text] = path_of(text), plain(wanted)
            except ValueError as error:
                raise expect.wrong(f"{error}.", "json") from error
        latency_s = expect.seconds("latency", None)
    files = {name: str(value) for name, value in table.pairs("header_files").items()}
    return HttpProbe(
        method=method,
        path=path,
        port=table.port(),
        headers=headers,
        header_files={
            name: str(FilePath(folder, FilePath(file).expanduser())) for name, file in files.items()
        },
        body=table.text("body"),
        statuses=statuses,
        json=json,
        latency_ms_max=None if latency_s is None else latency_s * 1000,
        extraction=read_extraction(table, expect),
    )
