"""Runs, turns and commands as spans, in the words of OpenTelemetry, and where they are sent.

All of it follows from the ledger. Prompts, answers of models, commands and their output are never
part of a span: a reader of traces may not read those.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.trace import span_id, trace_id, traced_run
from operator_protocols.errors import MissingExtraError

__all__ = ["SERVICE", "Collector", "Span", "provider_named", "spans_of", "traces_url"]

Attributes = dict[str, str | int | float | bool]
SERVICE = "operator"
WORD_CHARS_MAX = 100
TRACES_PATH = "/v1/traces"
SEND_S_MAX = 5.0
BATCH_MAX = 512
# Written beside a run, whenever they are ready; nothing begins or ends with them.
_BESIDE = (Kind.SUMMARY, Kind.SUSPICION, Kind.TICKET_COMMENTED, Kind.TICKET_GREW)


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of time. `seq` is the entry that its id is made of, `ended` the last of it.

    `calls` is true for what goes to another system; `error` is a word, or "".
    """

    name: str
    trace: str
    id: str
    parent: str
    started_at: datetime
    ended_at: datetime
    seq: int
    ended: int
    attributes: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    calls: bool = False
    error: str = ""


def provider_named(model: str) -> str:
    """The provider of a model without a description; the built-in models are our own."""
    return SERVICE if model in ("reasoner", "rule") else "unknown"


def spans_of(
    entries: Sequence[Entry], *, provider_of: Callable[[str], str] = provider_named
) -> list[Span]:
    """All finished spans, of the entries of one run in their order. Pure."""
    story, spans = _Story(provider_of), []
    before: Entry | None = None
    for entry in entries:
        if span := story.take(entry, before or entry):
            spans.append(span)
        if entry.kind not in _BESIDE:
            before = entry
    return spans


@dataclass(slots=True)
class _Story:
    """What is known of a run while one reads on."""

    provider_of: Callable[[str], str]
    model: str = ""
    root: Entry | None = None
    over: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    turns: int = 0
    open: dict[str, Entry] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)

    def take(self, entry: Entry, before: Entry) -> Span | None:
        """The span that ends with this entry, if any."""
        payload = entry.payload
        match entry.kind:
            case Kind.RUN_STARTED:
                self.root = self.root or entry
                self.model = _word(payload.get("model"))
            case Kind.PERMIT_MINTED:
                self.levels[str(payload.get("permit"))] = _word(payload.get("level"))
            case Kind.TOOL_CALL:
                self.open[str(payload.get("permit"))] = entry
            case Kind.APPROVAL_REQUESTED:
                self.open[str(payload["approval"]["id"])] = entry
            case Kind.APPROVAL_DECIDED:
                if request := self.open.pop(str(payload.get("id")), None):
                    state = {"operator.approval.state": _word(payload.get("state"))}
                    return self._make_span("await_approval", request, entry, state)
            case Kind.REASONING:
                return self._end_turn(entry, before)
            case Kind.TOOL_RESULT:
                if call := self.open.pop(str(payload.get("permit")), None):
                    result: Mapping[str, Any] = payload["result"]
                    outcome, code = _word(result.get("outcome")), result.get("exit_code")
                    level = self.levels.get(str(payload.get("permit")))
                    about = _describe_tool(call.payload["action"]) | {
                        "gen_ai.tool.call.id": str(call.seq),
                        "operator.command.outcome": outcome,
                        "operator.command.level": level or "unknown",
                    }
                    if isinstance(code, int):
                        about["operator.command.exit_code"] = code
                    worked = outcome == "ran" and not code
                    error = "" if worked else _word(result.get("category")) or outcome
                    name = f"execute_tool {about['gen_ai.tool.name']}"
                    return self._make_span(name, call, entry, about, calls=True, error=error)
            case Kind.REFUSED:
                about = _describe_tool(payload.get("action") or {}) | {
                    "gen_ai.tool.call.id": str(entry.seq),
                    "operator.command.outcome": "refused",
                    "operator.command.level": _word(payload.get("level")) or "unknown",
                }
                name = f"execute_tool {about['gen_ai.tool.name']}"
                return self._make_span(name, entry, entry, about, error="refused")
            case Kind.PROOF:
                held = {"operator.proof.held": bool(payload.get("held"))}
                return self._make_span("prove", before, entry, held, at=entry)
            case Kind.RUN_FINISHED:
                if self.root is not None and not self.over:  # a second end says nothing new
                    self.over = True
                    about = {
                        "gen_ai.operation.name": "invoke_agent",
                        "gen_ai.agent.name": SERVICE,
                        "gen_ai.provider.name": self.provider_of(self.model),
                        "gen_ai.request.model": self.model,
                        "gen_ai.conversation.id": _word(entry.run),
                        "gen_ai.usage.input_tokens": self.tokens_in,
                        "gen_ai.usage.output_tokens": self.tokens_out,
                        "operator.cost.usd": self.usd,
                        "operator.run.turns": self.turns,
                        "operator.run.state": _word(entry.payload.get("state")),
                    }
                    error = _word(entry.payload.get("category"))
                    return self._make_span(
                        f"invoke_agent {SERVICE}", self.root, entry, about, error=error
                    )
        return None

    def _end_turn(self, entry: Entry, before: Entry) -> Span:
        spent: Mapping[str, Any] = entry.payload.get("spent") or {}
        tokens_in, tokens_out = int(spent.get("tokens_in", 0)), int(spent.get("tokens_out", 0))
        usd, model = float(spent.get("usd", 0.0)), _word(entry.payload.get("by")) or self.model
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        self.usd += usd
        self.turns += 1
        about: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self.provider_of(model),
            "gen_ai.request.model": model,
            "gen_ai.conversation.id": _word(entry.run),
            "gen_ai.usage.input_tokens": tokens_in,
            "gen_ai.usage.output_tokens": tokens_out,
            "operator.cost.usd": usd,
        }
        return self._make_span(f"chat {model}".strip(), before, entry, about, at=entry, calls=True)

    def _make_span(
        self,
        name: str,
        start: Entry,
        end: Entry,
        attributes: Mapping[str, str | int | float | bool],
        *,
        at: Entry | None = None,
        calls: bool = False,
        error: str = "",
    ) -> Span:
        """A span from one entry to another; its id is that of `at`, or of where it starts."""
        known = at or start
        run = traced_run(known.run, known.seq)
        about = {**attributes, "operator.run.id": _word(run)}
        if end.ticket is not None:
            about["operator.ticket.id"] = end.ticket
        if error:
            about["error.type"] = error
        root = self.root
        parent = span_id(run, root.seq) if root is not None and root is not known else ""
        return Span(
            name=name,
            trace=trace_id(run),
            id=span_id(run, known.seq),
            parent=parent,
            started_at=min(start.at, end.at),
            ended_at=end.at,
            seq=known.seq,
            ended=end.seq,
            attributes=about,
            calls=calls,
            error=error,
        )


def _describe_tool(action: Mapping[str, Any]) -> Attributes:
    """Which tool, and on what; not with what."""
    about: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": _word(action.get("tool")) or "unknown",
        "gen_ai.tool.type": "function",
    }
    if target := _word(action.get("target")):
        about["operator.command.target"] = target
    return about


def _word(value: object) -> str:
    """A short word on one line; empty for anything but a text."""
    text = str(value)[:WORD_CHARS_MAX] if isinstance(value, str) else ""
    return "".join(letter for letter in text if letter.isprintable())


def traces_url(endpoint: str) -> str:
    """Where traces go below an endpoint, or at it when it says so already."""
    base = endpoint.rstrip("/")
    return base if urlsplit(base).path.endswith(TRACES_PATH) else f"{base}{TRACES_PATH}"


@dataclass(slots=True)
class Collector:
    """A collector at an endpoint. Not for several threads at once."""

    endpoint: str
    version: str
    token: str = field(default="", repr=False)
    _exporter: Any = field(default=None, init=False, repr=False)

    def send(self, spans: Sequence[Span]) -> str:
        """Why they could not be sent, in a few words, or "". MissingExtraError."""
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ImportError as error:
            raise MissingExtraError("telemetry", needed_for="Sending traces") from error
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.trace.export import SpanExportResult
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.status import Status, StatusCode

        if self._exporter is None:
            # It logs every attempt with its address; we say once what is wrong.
            logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
            headers = {"authorization": f"Bearer {self.token}"} if self.token else None
            self._exporter = OTLPSpanExporter(
                endpoint=traces_url(self.endpoint), headers=headers, timeout=SEND_S_MAX
            )
        resource = Resource({"service.name": SERVICE, "service.version": self.version})
        scope = InstrumentationScope(SERVICE, self.version)
        for at in range(0, len(spans), BATCH_MAX):
            batch = [
                ReadableSpan(
                    name=span.name,
                    context=_context(span.trace, span.id),
                    parent=_context(span.trace, span.parent) if span.parent else None,
                    resource=resource,
                    attributes=dict(span.attributes),
                    kind=SpanKind.CLIENT if span.calls else SpanKind.INTERNAL,
                    status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
                    start_time=_nanoseconds(span.started_at),
                    end_time=_nanoseconds(span.ended_at),
                    instrumentation_scope=scope,
                )
                for span in spans[at : at + BATCH_MAX]
            ]
            if self._exporter.export(batch) is not SpanExportResult.SUCCESS:
                return "it does not answer, or rejects them"
        return ""

    def close(self) -> None:
        """Let its connections go."""
        if self._exporter is not None:
            self._exporter.shutdown()
            self._exporter = None


def _context(trace: str, span: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    sampled = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=sampled)


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
