"""Metrics: queried from a Prometheus server, or scraped from the target itself."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote, urlsplit

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Access
from operator_protocols.kit.access import Address, authorize
from operator_protocols.kit.http import Request, UnaskableError, exchange
from operator_sre.subjects.declarative.document import NAME, Table
from operator_sre.subjects.declarative.probes.place import Blind, Place, observe_first, places_of
from operator_sre.subjects.declarative.values import Readings, document_of, plain

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

    async def observe(self, place: Place) -> Readings:
        """Ask the first server or address that answers."""
        if self.servers:
            place = replace(place, target=replace(place.target, access=self.access))

        target = place.target
        blanks = {"target": target.name, "host": target.host, "port": target.port}

        async def query(address: Address) -> Readings:
            values = {}
            for name, sample in self.samples.items():
                # The blanks are filled; the query's own braces stay as they are.
                text = sample.query
                for blank, value in blanks.items():
                    text = text.replace(f"{{{blank}}}", "" if value is None else str(value))
                path = f"{self.prefix}/api/v1/query?query={quote(text)}"
                document = document_of(await _get(place, address, path))
                # The one number that a query gives; nothing for none, or for several.
                with contextlib.suppress(IndexError, KeyError, TypeError, ValueError):
                    result = document["data"]["result"]
                    if document["data"]["resultType"] == "scalar":
                        values[name] = plain(float(result[1]))
                    elif len(result) == 1:
                        values[name] = plain(float(result[0]["value"][1]))
            return self._rate_values(place, values)

        async def scrape(address: Address) -> Readings:
            body = await _get(place, address, self.path)
            sums = _sum_samples(body.decode("utf-8", "replace"), self.samples)
            return self._rate_values(place, sums)

        if self.servers:
            return await observe_first(place, list(self.servers), query)
        return await observe_first(place, places_of(place.target, self.port), scrape)

    def _rate_values(self, place: Place, values: Mapping[str, Value]) -> Readings:
        readings: Readings = {}
        for name, value in values.items():
            if value is not None and self.samples[name].rate:
                readings[name] = place.rate(name, float(value))
            else:
                readings[name] = plain(value)
        return {name: value for name, value in readings.items() if value is not None}


async def _get(place: Place, address: Address, path: str) -> bytes:
    """The body of an answer that is a success."""
    access = place.access
    request = Request("GET", path, authorize(access, place.secret), b"", BODY_BYTES_MAX)
    trust = place.trust
    try:
        answer = await exchange(address, request, trust=trust, server_name=access.server_name)
    except UnaskableError as error:
        raise Blind(f"it cannot be queried: {error}") from error
    if answer.status != 200:
        raise OSError(f"it answered {answer.status}")
    if answer.cut:
        raise OSError(f"its metrics are longer than {BODY_BYTES_MAX} bytes")
    return answer.body


def _sum_samples(text: str, samples: Mapping[str, Sample]) -> dict[str, float]:
    """For each name the sum of all samples with its metric and labels; nothing where none is."""
    from prometheus_client.parser import text_string_to_metric_families

    names = {sample.metric for sample in samples.values()}
    # Reading all that a server shows would take seconds; most of it is not asked for.
    lines = [line for line in text.splitlines() if _NAME_END.split(line, maxsplit=1)[0] in names]
    sums: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            for shown in family.samples:
                for name, wanted in samples.items():
                    has_labels = wanted.labels.items() <= shown.labels.items()
                    if shown.name == wanted.metric and has_labels:
                        sums[name] = sums.get(name, 0.0) + shown.value
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise OSError("the answer contains no metrics") from error
    return sums


def read_prometheus(table: Table, access: Access | None) -> PrometheusProbe:
    """Parse the probe of a description."""
    servers = table.texts("server")
    section = table.table("read")
    if section is None or not len(section):
        raise table.wrong(f"{table.place} needs 'read': a name for each value.")
    samples: dict[str, Sample] = {}
    for name in section:
        if not NAME.fullmatch(name) or name in _OWN:
            raise section.wrong(f"{name[:40]!r} is not a valid name for a value.", name)
        node = section.node(name)
        assert node is not None
        if isinstance(node.value, str):
            text = node.value
            samples[name] = Sample(query=text) if servers else Sample(metric=text)
            continue
        inner = section.table(name, "query", "metric", "labels", "rate")
        if inner is None:
            raise section.wrong(f"{name!r} must be a metric or a table.", name)
        text = inner.require_text("query" if servers else "metric")
        labels = {label: str(value) for label, value in inner.pairs("labels").items()}
        rate = inner.flag("rate")
        samples[name] = (
            Sample(query=text, rate=rate)
            if servers
            else Sample(metric=text, labels=labels, rate=rate)
        )
    if len(samples) > SAMPLES_MAX:
        raise section.wrong(f"no more than {SAMPLES_MAX} values are read.")
    found = [_server(table, server) for server in servers]
    if len({(tls, prefix) for _, tls, prefix in found}) > 1:
        raise table.wrong("all servers must have the same scheme and access.", "server")
    tls = bool(found) and found[0][1]
    return PrometheusProbe(
        samples,
        servers=tuple(address for address, _, _ in found),
        access=replace(access or Access(), tls=tls) if found else None,
        prefix=found[0][2] if found else "",
        path=table.text("path", "/metrics"),
        port=table.port(),
    )


def _server(table: Table, text: str) -> tuple[Address, bool, str]:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        url, port = urlsplit(""), None
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        raise table.wrong(
            f"{text[:60]!r} is not a valid server. Use a URL such as http://127.0.0.1:9090.",
            "server",
        )
    if url.username or url.password:
        raise table.wrong(
            "a password must not be in this file.",
            "server",
            next_step="Name a file under 'access'.",
        )
    tls = url.scheme == "https"
    return (url.hostname, port or (443 if tls else 80)), tls, url.path.rstrip("/")
