"""Metrics: asked of a Prometheus server, or read directly where a target shows its own."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlsplit

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Access, Target
from operator_sre.subjects.declarative.probes.exchange import Request, UnaskableError, exchange
from operator_sre.subjects.declarative.probes.http import authorization
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
from operator_sre.subjects.declarative.table import NAME, Table
from operator_sre.subjects.declarative.values import document_of, plain

__all__ = ["KEYS", "PrometheusProbe", "Sample", "read_prometheus"]

BODY_BYTES_MAX = 4 << 20
SAMPLES_MAX = 50
KEYS = ("server", "path", "port", "read", "access")
_NAME_END = re.compile(r"[{\s]")
_OWN = ("up", "ok", "error", "latency_ms", "endpoint")


@dataclass(frozen=True, slots=True)
class Sample:
    """What is read under one name: a query for a server, or a metric with labels of a target."""

    query: str = ""
    metric: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    rate: bool = False


@dataclass(frozen=True, slots=True)
class PrometheusProbe:
    """Several values of one scrape, or of one server that is asked for each of them."""

    samples: Mapping[str, Sample]
    servers: tuple[Address, ...] = ()
    access: Access | None = None
    prefix: str = ""
    path: str = "/metrics"
    port: int | None = None

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        return frozenset({*_OWN, *self.samples})

    async def look(self, place: Place) -> Readings:
        """Ask the first server or address that answers."""
        if self.servers:
            server = replace(place.target, access=self.access)
            addresses = list(self.servers)
            place = replace(place, target=server)
        else:
            addresses = addresses_of(place.target, self.port)
        begun = time.perf_counter()

        async def ask(address: Address) -> Readings:
            if self.servers:
                return await self._queried(place, address)
            return self._scraped(place, await _got(place, address, self.path))

        found, problem, address = await first_answer(addresses, place.timeout_s, ask)
        if found is None:
            return down(problem)
        took_ms = round((time.perf_counter() - begun) * 1000, 3)
        told: Readings = {"latency_ms": took_ms, "endpoint": f"{address[0]}:{address[1]}"}
        return checked({**told, **found}, "")

    async def _queried(self, place: Place, address: Address) -> Readings:
        readings: Readings = {}
        for name, sample in self.samples.items():
            query = _filled(sample.query, place.target)
            body = await _got(place, address, f"{self.prefix}/api/v1/query?query={quote(query)}")
            value = _of_query(document_of(body))
            if value is not None and sample.rate:
                value = place.rate(name, float(value))
            if value is not None:
                readings[name] = value
        return readings

    def _scraped(self, place: Place, body: bytes) -> Readings:
        sums = _sums(body.decode("utf-8", "replace"), self.samples)
        readings: Readings = {}
        for name, value in sums.items():
            found = place.rate(name, value) if self.samples[name].rate else plain(value)
            if found is not None:
                readings[name] = found
        return readings


async def _got(place: Place, address: Address, path: str) -> bytes:
    """The body of an answer that is a success."""
    access = place.access
    request = Request("GET", path, authorization(place), b"", BODY_BYTES_MAX)
    trust = place.links.trust(access) if access.tls else None
    try:
        answer = await exchange(address, request, trust=trust, server_name=access.server_name)
    except UnaskableError as error:
        raise Blind(f"it cannot be asked: {error}") from error
    if answer.status != 200:
        raise OSError(f"it answered {answer.status}")
    if answer.cut:
        raise OSError(f"its metrics are longer than {BODY_BYTES_MAX} bytes")
    return answer.body


def _sums(text: str, samples: Mapping[str, Sample]) -> dict[str, float]:
    """For each name the sum of all samples with its metric and labels; nothing where none is."""
    from prometheus_client.parser import text_string_to_metric_families

    names = {sample.metric for sample in samples.values()}
    # Reading all that a server shows would take seconds; most of it is not asked for.
    lines = [line for line in text.splitlines() if _NAME_END.split(line, maxsplit=1)[0] in names]
    sums: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            for found in family.samples:
                for name, wanted in samples.items():
                    if (
                        found.name == wanted.metric
                        and wanted.labels.items() <= found.labels.items()
                    ):
                        sums[name] = sums.get(name, 0.0) + found.value
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise OSError("what it shows are no metrics") from error
    return sums


def _of_query(document: Any) -> Value:
    """The one number that a query gives; None for none, or for several."""
    try:
        result = document["data"]["result"]
        if document["data"]["resultType"] == "scalar":
            return plain(float(result[1]))
        return plain(float(result[0]["value"][1])) if len(result) == 1 else None
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def _filled(query: str, target: Target) -> str:
    """A query with its blanks; its own braces stay as they are."""
    for blank, value in (("target", target.name), ("host", target.host), ("port", target.port)):
        query = query.replace(f"{{{blank}}}", "" if value is None else str(value))
    return query


def read_prometheus(table: Table, access: Access | None) -> PrometheusProbe:
    """The probe of a description."""
    servers = table.texts("server")
    section = table.table("read")
    if section is None or not len(section):
        raise table.wrong(f"{table.place} needs 'read': a name for each value.")
    samples: dict[str, Sample] = {}
    for name in section:
        if not NAME.fullmatch(name) or name in _OWN:
            raise section.wrong(f"{name[:40]!r} is no name for a value.", name)
        samples[name] = _sample(section, name, queried=bool(servers))
    if len(samples) > SAMPLES_MAX:
        raise section.wrong(f"no more than {SAMPLES_MAX} values are read.")
    found = [_server(table, one) for one in servers]
    if len({(tls, prefix) for _, tls, prefix in found}) > 1:
        raise table.wrong("all servers are asked in the same way.", "server")
    tls = bool(found) and found[0][1]
    return PrometheusProbe(
        samples,
        servers=tuple(address for address, _, _ in found),
        access=replace(access or Access(), tls=tls) if found else None,
        prefix=found[0][2] if found else "",
        path=table.text("path", "/metrics"),
        port=table.port(),
    )


def _sample(section: Table, name: str, *, queried: bool) -> Sample:
    node = section.node(name)
    assert node is not None
    if isinstance(node.value, str):
        return Sample(query=node.value) if queried else Sample(metric=node.value)
    inner = section.table(name, "query", "metric", "labels", "rate")
    if inner is None:
        raise section.wrong(f"{name!r} has to be a metric or a table.", name)
    needed = inner.needed("query" if queried else "metric")
    labels = {label: str(value) for label, value in inner.pairs("labels").items()}
    rate = inner.flag("rate")
    if queried:
        return Sample(query=needed, rate=rate)
    return Sample(metric=needed, labels=labels, rate=rate)


def _server(table: Table, text: str) -> tuple[Address, bool, str]:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        url, port = urlsplit(""), None
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        raise table.wrong(f"{text[:60]!r} is no server, such as http://127.0.0.1:9090.", "server")
    if url.username or url.password:
        raise table.wrong(
            "a password does not belong here.", "server", next_step="Name a file under 'access'."
        )
    tls = url.scheme == "https"
    return (url.hostname, port or (443 if tls else 80)), tls, url.path.rstrip("/")
