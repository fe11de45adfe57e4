"""From the entries of a ticket to what was wanted, judged, allowed and done. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from operator_protocols.domain.entry import Entry, Kind
from operator_sre.app.reports.report import Deed, Permission
from operator_sre.app.story import command_of

__all__ = ["deeds_of"]

OUTPUT_LINES_MAX = 12
OUTPUT_CHARACTERS_MAX = 1200
# What decides that a call takes another one back; why it was wanted does not.
_SAME = ("tool", "arguments", "target")


@dataclass(slots=True)
class _Books:
    """What is known while one reads on: by permit, by request, by action."""

    verdicts: list[Entry] = field(default_factory=list)
    minted: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    asked: dict[str, Entry] = field(default_factory=dict)
    answers: dict[str, list[Entry]] = field(default_factory=dict)
    calls: dict[str, Entry] = field(default_factory=dict)
    judged: dict[str, Entry | None] = field(default_factory=dict)


def deeds_of(entries: Sequence[Entry]) -> tuple[Deed, ...]:
    """Every action that was proposed, oldest first, with what became of it."""
    books, found = _Books(), []
    for entry in entries:
        payload = entry.payload
        match entry.kind:
            case Kind.VERDICT:
                books.verdicts.append(entry)
            case Kind.APPROVAL_REQUESTED:
                books.asked[payload["approval"]["id"]] = entry
            case Kind.APPROVAL_DECIDED:
                books.answers.setdefault(payload["id"], []).append(entry)
            case Kind.PERMIT_MINTED:
                books.minted[payload["permit"]] = payload
            case Kind.TOOL_CALL:
                books.calls[payload["permit"]] = entry
                books.judged[payload["permit"]] = _verdict_of(books, entry)
            case Kind.TOOL_RESULT:
                if call := books.calls.pop(payload["permit"], None):
                    judged = books.judged.get(payload["permit"])
                    found.append(_deed(books, call, judged, entry))
            case Kind.REFUSED:
                found.append(_deed(books, entry, _verdict_of(books, entry), entry))
    found += [_deed(books, call, books.judged.get(key), None) for key, call in books.calls.items()]
    found += [_deed(books, one, one, None) for one in books.verdicts if _waits(books, one)]
    found.sort(key=lambda one: one.seq)
    return tuple(_with_undo(found, entries))


def _verdict_of(books: _Books, entry: Entry) -> Entry | None:
    """The verdict that this call or refusal follows: the newest of the same action."""
    wanted = _key(entry.payload.get("action") or {})
    for at in range(len(books.verdicts) - 1, -1, -1):
        if _key(books.verdicts[at].payload["action"]) == wanted:
            return books.verdicts.pop(at)
    return None


def _waits(books: _Books, verdict: Entry) -> bool:
    """Whether people were asked about it, and nothing has come of it yet."""
    wanted = _key(verdict.payload["action"])
    return any(_key(one.payload["approval"]["action"]) == wanted for one in books.asked.values())


def _deed(books: _Books, begun: Entry, judged: Entry | None, ended: Entry | None) -> Deed:
    action = begun.payload.get("action") or {}
    verdict = judged.payload if judged else begun.payload
    result = (ended.payload.get("result") if ended else None) or {}
    output, cut = _excerpt(result)
    level = str(verdict.get("level", ""))
    return Deed(
        seq=begun.seq,
        at=begun.at,
        run=begun.run,
        command=command_of(action) if action else "(unknown)",
        target=str(action.get("target", "")),
        cwd=str(action.get("cwd", "")),
        reasoning=str(action.get("reasoning", "")),
        expected=str(action.get("expected", "")),
        changes=level != "safe",
        level=level,
        risk=str(verdict.get("risk", "")),
        explanation=str(verdict.get("explanation", "")),
        rules=tuple(str(one["id"]) for one in verdict.get("rules", ())),
        reversible=verdict.get("reversible"),
        permission=_permission(books, begun, action),
        outcome=str(result.get("outcome", "")),
        exit_code=result.get("exit_code"),
        duration_s=float(result.get("duration_s") or 0.0),
        output=output,
        truncated=cut or bool(result.get("truncated")),
        result_seq=ended.seq if ended else None,
        undo=command_of(result["undo"]) if result.get("undo") else "",
        left=tuple(
            f"{one['name']} (pid {one['process']['pid']})"
            for one in result.get("left") or ()
            if not one.get("ended")
        ),
    )


def _permission(books: _Books, begun: Entry, action: Mapping[str, Any]) -> Permission:
    minted = books.minted.get(str(begun.payload.get("permit", "")))
    number = str(minted.get("approval", "")) if minted else _asked_about(books, begun, action)
    if number:
        return _by_people(books, number)
    if minted is None:
        return Permission("nobody")
    if rule := minted.get("rule"):
        return Permission("rule", rule=str(rule))
    return Permission("policy")


def _asked_about(books: _Books, begun: Entry, action: Mapping[str, Any]) -> str:
    """The newest request about this very action, where no permit names one."""
    for number, entry in reversed(books.asked.items()):
        same = _key(entry.payload["approval"]["action"]) == _key(action)
        if same and entry.run == begun.run:
            return number
    return ""


def _by_people(books: _Books, number: str) -> Permission:
    asked = books.asked.get(number)
    answers = books.answers.get(number, [])
    last = answers[-1].payload if answers else {}
    said = [_answerer(one) for one in answers if _answer(one) in ("approved", "rejected")]
    return Permission(
        "people",
        state=str(last.get("state", "pending")),
        approval=number,
        asked_at=asked.at if asked else None,
        decided_at=_decided_at(answers),
        by=tuple(dict.fromkeys(filter(None, said))),
        reason=str(last.get("reason", "")),
    )


def _decided_at(answers: Sequence[Entry]) -> datetime | None:
    return answers[-1].at if answers else None


def _answer(entry: Entry) -> str:
    return str(entry.payload.get("answer") or entry.payload.get("state", ""))


def _answerer(entry: Entry) -> str:
    return str(entry.payload.get("decided_by") or entry.actor.id)


def _with_undo(deeds: Sequence[Deed], entries: Sequence[Entry]) -> Sequence[Deed]:
    """Each deed with the entry of the later one that took it back."""
    undos = {
        entry.seq: _key(entry.payload["result"]["undo"])
        for entry in entries
        if entry.kind is Kind.TOOL_RESULT and (entry.payload.get("result") or {}).get("undo")
    }
    keys = {
        entry.seq: _key(entry.payload["action"])
        for entry in entries
        if entry.kind is Kind.TOOL_CALL
    }
    told = []
    for at, deed in enumerate(deeds):
        wanted = undos.get(deed.result_seq or 0)
        back = [one.seq for one in deeds[at + 1 :] if one.ok and keys.get(one.seq) == wanted]
        told.append(replace(deed, undone=back[0]) if wanted is not None and back else deed)
    return told


def _excerpt(result: Mapping[str, Any]) -> tuple[str, bool]:
    """The end of what it said, and whether there was more."""
    said = [str(result.get(name) or "").strip("\n") for name in ("stdout", "stderr")]
    text = "\n".join(filter(None, said))
    lines = text.splitlines()
    kept = "\n".join(lines[-OUTPUT_LINES_MAX:])[-OUTPUT_CHARACTERS_MAX:]
    return kept, len(kept) < len("\n".join(lines))


def _key(action: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(repr(action.get(name)) for name in _SAME)
