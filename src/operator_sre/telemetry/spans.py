"""Runs, turns and commands as spans, in the words of OpenTelemetry's conventions for minds.

All of it follows from the ledger. What a mind was told or said, a command and its output never
are part of a span: whoever may read traces may not read those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.tracing import span_id, trace_id, traced_run

__all__ = ["SERVICE", "Span", "provider_named", "spans_of"]

Attributes = dict[str, str | int | float | bool]
SERVICE = "operator"
WORD_CHARS_MAX = 100
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
    """Who has a model that nobody has described: the built-in one is our own."""
    return SERVICE if model in ("reasoner", "rule") else "unknown"


def spans_of(
    entries: Sequence[Entry], *, provider_of: Callable[[str], str] = provider_named
) -> list[Span]:
    """All spans that are over, of the entries of one run in their order. Pure."""
    if not entries:
        return []
    return list(_Story(entries, provider_of).spans())


@dataclass(slots=True)
class _Story:
    entries: Sequence[Entry]
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

    def spans(self) -> Sequence[Span]:
        found: list[Span] = []
        before: Entry | None = None
        for entry in self.entries:
            if made := self._span(entry, before or entry):
                found.append(made)
            if entry.kind not in _BESIDE:
                before = entry
        return found

    def _span(self, entry: Entry, before: Entry) -> Span | None:
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
                return self._waited(entry)
            case Kind.REASONING:
                return self._turn(entry, before)
            case Kind.TOOL_RESULT:
                return self._command(entry)
            case Kind.REFUSED:
                return self._refused(entry)
            case Kind.PROOF:
                held = {"operator.proof.held": bool(payload.get("held"))}
                return self._made("prove", before, entry, held, at=entry)
            case Kind.RUN_FINISHED:
                return self._run(entry)
        return None

    def _run(self, entry: Entry) -> Span | None:
        """The whole run; a second end of it says nothing new."""
        if self.root is None or self.over:
            return None
        self.over = True
        about: Attributes = {
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
        return self._made(f"invoke_agent {SERVICE}", self.root, entry, about, error=error)

    def _turn(self, entry: Entry, before: Entry) -> Span:
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
        return self._made(f"chat {model}".strip(), before, entry, about, at=entry, calls=True)

    def _command(self, entry: Entry) -> Span | None:
        permit = str(entry.payload.get("permit"))
        call = self.open.pop(permit, None)
        if call is None:
            return None
        result: Mapping[str, Any] = entry.payload["result"]
        outcome, code = _word(result.get("outcome")), result.get("exit_code")
        about = _tool(call.payload["action"]) | {
            "gen_ai.tool.call.id": str(call.seq),
            "operator.command.outcome": outcome,
            "operator.command.level": self.levels.get(permit, "") or "unknown",
        }
        if isinstance(code, int):
            about["operator.command.exit_code"] = code
        worked = outcome == "ran" and not code
        error = "" if worked else _word(result.get("category")) or outcome
        name = f"execute_tool {about['gen_ai.tool.name']}"
        return self._made(name, call, entry, about, calls=True, error=error)

    def _refused(self, entry: Entry) -> Span:
        about = _tool(entry.payload.get("action") or {}) | {
            "gen_ai.tool.call.id": str(entry.seq),
            "operator.command.outcome": "refused",
            "operator.command.level": _word(entry.payload.get("level")) or "unknown",
        }
        name = f"execute_tool {about['gen_ai.tool.name']}"
        return self._made(name, entry, entry, about, error="refused")

    def _waited(self, entry: Entry) -> Span | None:
        asked = self.open.pop(str(entry.payload.get("id")), None)
        if asked is None:
            return None
        about = {"operator.approval.state": _word(entry.payload.get("state"))}
        return self._made("await_approval", asked, entry, about)

    def _made(
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


def _tool(action: Mapping[str, Any]) -> Attributes:
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
    """A short word on one line; nothing for what is none."""
    text = str(value)[:WORD_CHARS_MAX] if isinstance(value, str) else ""
    return "".join(one for one in text if one.isprintable())
