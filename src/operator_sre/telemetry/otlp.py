"""Spans to whoever collects them, by OTLP over HTTP. What cannot be sent is said, never raised."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from operator_protocols.errors import MissingExtraError
from operator_sre.telemetry.spans import SERVICE, Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

__all__ = ["Collector", "traces_url"]

PATH = "/v1/traces"
SEND_S_MAX = 5.0
BATCH_MAX = 512


def traces_url(endpoint: str) -> str:
    """Where traces go below an endpoint, or at it when it says so already."""
    base = endpoint.rstrip("/")
    return base if urlsplit(base).path.endswith(PATH) else f"{base}{PATH}"


@dataclass(slots=True)
class Collector:
    """Whoever collects, at an endpoint. Not for several threads at once."""

    endpoint: str
    version: str
    token: str = field(default="", repr=False)
    _exporter: Any = field(default=None, init=False, repr=False)

    def send(self, spans: Sequence[Span]) -> str:
        """Why they could not be sent, in a few words, or "". MissingExtraError."""
        exporter = self._opened()
        from opentelemetry.sdk.trace.export import SpanExportResult

        for at in range(0, len(spans), BATCH_MAX):
            made = [self._span(one) for one in spans[at : at + BATCH_MAX]]
            if exporter.export(made) is not SpanExportResult.SUCCESS:
                return "it does not answer, or does not take them"
        return ""

    def close(self) -> None:
        """Let its connections go."""
        if self._exporter is not None:
            self._exporter.shutdown()
            self._exporter = None

    def _opened(self) -> Any:
        if self._exporter is not None:
            return self._exporter
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ImportError as error:
            raise MissingExtraError("telemetry", needed_for="Sending traces") from error
        # It logs every attempt with its address; we say once what is wrong.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        headers = {"authorization": f"Bearer {self.token}"} if self.token else None
        self._exporter = OTLPSpanExporter(
            endpoint=traces_url(self.endpoint), headers=headers, timeout=SEND_S_MAX
        )
        return self._exporter

    def _span(self, span: Span) -> ReadableSpan:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.status import Status, StatusCode

        resource = Resource({"service.name": SERVICE, "service.version": self.version})
        attributes: Mapping[str, str | int | float | bool] = dict(span.attributes)
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace, span.id),
            parent=_context(span.trace, span.parent) if span.parent else None,
            resource=resource,
            attributes=attributes,
            kind=SpanKind.CLIENT if span.calls else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=_nanoseconds(span.started_at),
            end_time=_nanoseconds(span.ended_at),
            instrumentation_scope=InstrumentationScope(SERVICE, self.version),
        )


def _context(trace: str, span: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    sampled = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=sampled)


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
