"""Reading the certificate that a server presents: its validity, its names, and who signed it."""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass
from typing import Any

from operator_protocols.kit.access import Address, sentence_of
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.probes.place import Place, down, first_answer, places_of, up
from operator_sre.subjects.declarative.values import Readings

__all__ = ["KEYS", "CertificateProbe", "read_certificate"]

KEYS = ("port", "name")
DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class CertificateProbe:
    """One TLS handshake, closed as the protocol requires; nothing is sent over it."""

    port: int | None = None
    name: str = ""

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        own = {"up", "ok", "error", "certificate_days", "subject", "issuer", "trusted"}
        return frozenset(own | {"endpoint", "latency_ms"})

    async def observe(self, place: Place) -> Readings:
        """Verify it; if that fails, report why."""
        context = place.trust or ssl.create_default_context(cafile=place.access.ca_file or None)
        name = self.name or place.access.server_name or place.target.host

        async def ask(address: Address) -> tuple[dict[str, Any], str]:
            try:
                return await _shake_hands(address, context, name), ""
            except ssl.SSLCertVerificationError as error:
                # A rejected certificate is an answer; what it says is not believed.
                return {}, sentence_of(error)

        started = time.perf_counter()
        addresses = places_of(place.target, self.port)
        result, problem, address = await first_answer(addresses, place.timeout_s, ask)
        if result is None:
            return down(problem)
        shown, why = result
        readings: Readings = {
            "trusted": not why,
            "endpoint": f"{address[0]}:{address[1]}",
            "latency_ms": round((time.perf_counter() - started) * 1000, 3),
        }
        if "expired" in why:
            readings["certificate_days"] = -0.01
        if until := shown.get("notAfter"):
            left_s = ssl.cert_time_to_seconds(until) - time.time()
            readings["certificate_days"] = round(left_s / DAY_S, 2)
        for field in ("subject", "issuer"):
            names = dict(pair for group in shown.get(field, ()) for pair in group)
            if text := names.get("commonName") or names.get("organizationName"):
                readings[field] = text[:200]
        return up(readings, why)


async def _shake_hands(address: Address, context: ssl.SSLContext, name: str) -> dict[str, Any]:
    _, writer = await asyncio.open_connection(*address, ssl=context, server_hostname=name)
    try:
        shown: dict[str, Any] = writer.get_extra_info("peercert") or {}
        return shown
    finally:
        writer.close()


def read_certificate(table: Table) -> CertificateProbe:
    """Parse the probe of a description."""
    return CertificateProbe(table.port(), table.text("name"))
