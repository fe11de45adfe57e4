"""Asking a gRPC server for its health, by the protocol that all of them share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from operator_protocols.errors import MissingExtraError
from operator_protocols.kit.access import Address
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.probes.place import (
    Blind,
    Place,
    down,
    first_answer,
    places_of,
    up,
)
from operator_sre.subjects.declarative.values import Readings

__all__ = ["KEYS", "GrpcProbe", "read_grpc"]

KEYS = ("service", "port")
METHOD = "/grpc.health.v1.Health/Check"
# The answer is a message with one number.
_STATES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


@dataclass(frozen=True, slots=True)
class GrpcProbe:
    """`grpc.health.v1.Health/Check` of one service, or of the whole server."""

    service: str = ""
    port: int | None = None

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        return frozenset({"up", "ok", "error", "latency_ms", "endpoint", "state"})

    async def observe(self, place: Place) -> Readings:
        """Ask the first address that answers."""
        try:
            import grpc
        except ImportError as error:
            raise Blind(str(MissingExtraError("grpc", needed_for="A grpc probe"))) from error

        async def ask(address: Address) -> str:
            host = f"[{address[0]}]" if ":" in address[0] else address[0]
            options: list[tuple[str, int | str]] = [("grpc.enable_http_proxy", 0)]
            if place.access.tls:
                if place.access.server_name:
                    options.append(("grpc.ssl_target_name_override", place.access.server_name))
                roots = _read_roots(place.access.ca_file)
                trust = grpc.ssl_channel_credentials(root_certificates=roots)
                channel = grpc.aio.secure_channel(f"{host}:{address[1]}", trust, options)
            else:
                channel = grpc.aio.insecure_channel(f"{host}:{address[1]}", options)
            name = self.service.encode()
            request = bytes([0x0A, len(name)]) + name if name else b""
            try:
                call = channel.unary_unary(METHOD)
                answer = await call(request, timeout=place.timeout_s)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.NOT_FOUND:
                    return "SERVICE_UNKNOWN"
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    raise Blind("the server has no health service") from error
                if error.code() in (
                    grpc.StatusCode.UNAUTHENTICATED,
                    grpc.StatusCode.PERMISSION_DENIED,
                ):
                    raise Blind("login rejected by the server") from error
                raise OSError(_why(error.code().name, error.details() or "")) from error
            finally:
                await channel.close()
            return _STATES.get(answer[1] if len(answer) > 1 else 0, "UNKNOWN")

        addresses = places_of(place.target, self.port)
        state, problem, address = await first_answer(addresses, place.timeout_s, ask)
        if state is None:
            return down(problem)
        endpoint = f"{address[0]}:{address[1]}"
        why = "" if state == "SERVING" else f"its health is {state}"
        return up({"state": state, "endpoint": endpoint}, why)


def _read_roots(file: str) -> bytes | None:
    try:
        return Path(file).read_bytes() if file else None
    except OSError as error:
        raise Blind(f"the certificates cannot be read: {error}", ours=True) from error


def _why(code: str, details: str) -> str:
    text = details.lower()
    if "refused" in text:
        return "connection refused"
    return "it did not answer in time" if code == "DEADLINE_EXCEEDED" else f"{code}: {details[:80]}"


def read_grpc(table: Table) -> GrpcProbe:
    """Parse the probe of a description."""
    service = table.text("service")
    if len(service.encode()) > 127:
        raise table.wrong("'service' is longer than 127 bytes.", "service")
    return GrpcProbe(service, table.port())
