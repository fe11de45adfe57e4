"""Counting lines of logs in Loki: each value is one query."""

from __future__ import annotations

from dataclasses import replace

from operator_protocols.domain.target import Access
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.probes.prometheus import PrometheusProbe, read_prometheus

__all__ = ["KEYS", "read_loki"]

KEYS = ("server", "read", "access")


def read_loki(table: Table, access: Access | None) -> PrometheusProbe:
    """Parse the probe of a description: it answers queries of numbers as Prometheus does."""
    if not table.texts("server"):
        raise table.wrong(f"{table.place} needs 'server': the URL of Loki.", "server")
    found = read_prometheus(table, access)
    return replace(found, prefix=f"{found.prefix}/loki")
