"""Trials as logs of inspect-ai, so that its viewer opens them: one file for each variant."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from operator_protocols.domain.budget import Spent
from operator_protocols.errors import UsageError
from operator_protocols.ports import RightEnd
from operator_sre.codec import to_json
from operator_sre.evals.analysis import Scored
from operator_sre.evals.database import Recorded
from operator_sre.evals.facts import CommandFact, DiagnosisFact, ProofFact, TrialFacts
from operator_sre.evals.statistics import share

__all__ = ["documents", "write_logs"]

VERSION = 2  # of the format
SCORER = "operator"
MEASURES = ("end_to_end", "ended_right", "cause_right", "mitigated", "detected")
TOLD_MAX = 1000
_UNFIT = re.compile(r"[^A-Za-z0-9_.:-]+")
_UNFIT_FILE = re.compile(r"[^A-Za-z0-9_-]+")
# The same facts are the same file, whenever it is written.
_STAMP = (1980, 1, 1, 0, 0, 0)
Document = dict[str, Any]


def write_logs(recorded: Recorded, known: Sequence[Scored], folder: Path) -> list[Path]:
    """Write a log for each variant into a folder, in the place of an earlier one; the files."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for variant in dict.fromkeys(one.facts.variant for one in known):
            some = [one for one in known if one.facts.variant == variant]
            file = folder / _name(recorded, variant)
            draft = file.with_suffix(".part")
            _write(draft, documents(recorded, variant, some))
            draft.replace(file)
            written.append(file)
    except OSError as error:
        raise UsageError(
            f"The logs cannot be written to {str(folder)!r}: {error.strerror or error}.",
            next_step="Name another folder with --output DIR.",
        ) from None
    return written


def _name(recorded: Recorded, variant: str) -> str:
    """As that viewer expects it: when, what, and what tells it apart."""
    campaign = recorded.campaign.name
    what = _UNFIT_FILE.sub("-", f"{campaign}-{variant}")[:80]
    mark = hashlib.sha256(f"{campaign}\0{variant}".encode("utf-8", "replace")).hexdigest()[:22]
    when = _moment(recorded.started_at).replace(":", "-")
    return f"{when}_{what}_{mark}.eval"


def _write(file: Path, members: dict[str, Any]) -> None:
    with zipfile.ZipFile(file, "w") as log:
        for name, body in members.items():
            text = json.dumps(body, sort_keys=True).encode("utf-8")
            kind = zipfile.ZipInfo(name, _STAMP)
            log.writestr(kind, text, compress_type=zipfile.ZIP_DEFLATED)


def documents(recorded: Recorded, variant: str, some: Sequence[Scored]) -> dict[str, Any]:
    """Every part of a log by its name."""
    names = _names(some)
    samples = {
        _place(names, one): _sample(recorded, names, one)
        for one in sorted(some, key=lambda one: one.facts.key)
    }
    spec, plan = _spec(recorded, variant, list(names.values())), {"name": "plan", "steps": []}
    header = {
        "version": VERSION,
        "status": "success",
        "eval": spec,
        "plan": plan,
        "results": _results(some),
        "stats": _stats(recorded, variant, some),
    }
    return {
        "_journal/start.json": {"version": VERSION, "eval": spec, "plan": plan},
        **{f"samples/{place}.json": one for place, one in samples.items()},
        "summaries.json": [_summary(one) for one in samples.values()],
        "header.json": header,
    }


def _stats(recorded: Recorded, variant: str, some: Sequence[Scored]) -> Document:
    ends = [_at(one.facts.started_at) + timedelta(seconds=_took(one.facts)) for one in some]
    spent = sum((one.facts.spent for one in some), Spent())
    return {
        "started_at": _moment(recorded.started_at),
        "completed_at": max(ends, default=_at("")).isoformat(timespec="seconds"),
        "model_usage": _usage(variant, spent),
    }


def _usage(variant: str, spent: Spent) -> Document:
    """What thinking took; nothing where nobody counted tokens."""
    if not spent.tokens:
        return {}
    used = {"input_tokens": spent.tokens_in, "output_tokens": spent.tokens_out}
    return {f"operator/{variant}": {**used, "total_tokens": spent.tokens}}


def _took(facts: TrialFacts) -> float:
    return facts.moments.ended or 0.0


def _names(some: Sequence[Scored]) -> dict[str, str]:
    """An id for each scenario, which is a part of the name of a file as well."""
    found: dict[str, str] = {}
    for one in some:
        name = one.facts.scenario.name
        fit = _UNFIT.sub("-", name)[:100].strip(".-") or "scenario"
        if name not in found:
            found[name] = f"{fit}-{len(found)}" if fit in found.values() else fit
    return found


def _place(names: dict[str, str], one: Scored) -> str:
    return f"{names[one.facts.scenario.name]}_epoch_{_epoch(one.facts)}"


def _epoch(facts: TrialFacts) -> int:
    return facts.seed + 1


def _spec(recorded: Recorded, variant: str, names: list[str]) -> Document:
    campaign = recorded.campaign
    seeds = campaign.seeds.get(variant, 1)
    mark = hashlib.sha256(f"{campaign.name}\0{variant}".encode("utf-8", "replace")).hexdigest()
    return {
        "eval_id": mark[:22],
        "run_id": mark[22:44],
        "task_id": mark[44:64],
        "created": _moment(recorded.started_at),
        "task": campaign.name or "campaign",
        "task_version": 0,
        "dataset": {
            "name": campaign.name,
            "samples": len(names),
            "sample_ids": names,
            "shuffled": False,
        },
        "model": f"operator/{variant}",
        "config": {"epochs": max(1, seeds)},
        "packages": {name: str(what) for name, what in recorded.machine.items()},
        "metadata": {"variant": _variant(recorded, variant), "machine": dict(recorded.machine)},
    }


def _variant(recorded: Recorded, variant: str) -> Document:
    found = [one for one in recorded.campaign.variants if one.name == variant]
    return dict(to_json(found[0])) if found else {"name": variant}


def _sample(recorded: Recorded, names: dict[str, str], one: Scored) -> Document:
    facts, worth = one.facts, one.score
    took = facts.moments.ended
    sample = {
        "id": names[facts.scenario.name],
        "epoch": _epoch(facts),
        "input": _asked(facts),
        "target": list(facts.scenario.truths) or ["nothing is broken"],
        "messages": list(_messages(facts)),
        "output": {"model": f"operator/{facts.variant}", "choices": [], "completion": ""},
        "scores": _scores(one),
        "metadata": {
            "key": facts.key,
            "subject": facts.scenario.subject,
            "fault": facts.scenario.fault,
            "hit": facts.hit,
            "seed": facts.seed,
            "state": facts.state.value,
            "moments": to_json(facts.moments),
            "tickets": to_json(facts.tickets),
            "oracle": facts.still_after_hold or facts.still or "it is over",
            "score": to_json(worth),
        },
        "store": {},
        "events": [],
        "attachments": {},
        "model_usage": _usage(facts.variant, facts.spent),
    }
    if took is not None:
        sample |= {"total_time": took, "working_time": took}
    if not worth.valid:
        why = facts.why or facts.state.value
        sample["error"] = {"message": why, "traceback": why, "traceback_ansi": why}
    return sample


def _asked(facts: TrialFacts) -> str:
    """What was done to whom, which the mind was not told."""
    broken = ", ".join(facts.scenario.breaks) or "nothing"
    return (
        f"{facts.scenario.fault} is done to {facts.hit or 'nobody'} of {facts.scenario.subject},"
        f" which breaks: {broken}. The mind is not told."
    )


def _messages(facts: TrialFacts) -> Iterator[Document]:
    yield {"role": "user", "content": _asked(facts)}
    steps: list[CommandFact | DiagnosisFact | ProofFact] = [
        *facts.commands,
        *facts.diagnoses,
        *facts.proofs,
    ]
    for number, one in enumerate(sorted(steps, key=lambda each: each.seq)):
        match one:
            case DiagnosisFact():
                sure = f"{one.cause} at {one.target} ({one.confidence:.0%} sure)"
                yield {"role": "assistant", "content": f"{one.at_s:.1f} s: {sure}. {one.summary}"}
            case ProofFact():
                held = "it held" if one.held else "it did not hold"
                harm = f"; broken since: {', '.join(one.harm)}" if one.harm else ""
                told = f"{one.at_s:.1f} s: looked again, {held}{harm}."
                yield {"role": "user", "content": told}
            case CommandFact():
                yield from _called(one, f"call-{number}")


def _called(one: CommandFact, call: str) -> Iterator[Document]:
    """A call and what the gate and the world said to it."""
    arguments = {"command": one.text, "target": one.target}
    yield {
        "role": "assistant",
        "content": f"{one.at_s:.1f} s: {one.reasoning}",
        "tool_calls": [
            {"id": call, "function": one.tool, "arguments": arguments, "type": "function"}
        ],
    }
    became = f"{one.outcome or 'ran'} in {one.duration_s:.1f} s" if one.ran else "it did not run"
    ended = "" if one.exit_code is None else f", exit {one.exit_code}"
    told = f"gate: {one.level}, risk {one.risk or 'unknown'}; {became}{ended}"
    yield {"role": "tool", "content": told, "tool_call_id": call, "function": one.tool}


def _applies(name: str, one: Scored) -> bool:
    """Whether a measure says anything of a trial, as in our own tables."""
    if not one.score.valid:
        return False
    if name == "mitigated":
        return one.facts.scenario.end is RightEnd.MITIGATED
    return name == "ended_right" or not one.score.control


def _scores(one: Scored) -> Document:
    if not one.score.valid:
        return {}
    facts, worth = one.facts, one.score
    last = facts.diagnoses[-1] if facts.diagnoses else None
    answer = f"{last.cause}@{last.target}" if last else "nothing"
    told = "; ".join(worth.harm) or facts.still_after_hold or facts.still or "it is over"
    found = {name: getattr(worth, name) for name in MEASURES if _applies(name, one)}
    found["harmless"] = not worth.harm
    return {
        name: {"value": 1.0 if value else 0.0, "answer": answer, "explanation": told}
        for name, value in found.items()
    }


def _results(some: Sequence[Scored]) -> Document:
    return {
        "total_samples": len(some),
        "completed_samples": sum(one.score.valid for one in some),
        "scores": [_result(name, some) for name in MEASURES],
    }


def _result(name: str, some: Sequence[Scored]) -> Document:
    """A share with its interval, of faults alone: controls are counted apart."""
    fit = [
        bool(getattr(one.score, name))
        for one in some
        if _applies(name, one) and not one.score.control
    ]
    found = share(fit)
    figures = {"share": found.value or 0.0, "low_95": found.low, "high_95": found.high}
    return {
        "name": name,
        "scorer": SCORER,
        "scored_samples": len(fit),
        "unscored_samples": len(some) - len(fit),
        "metrics": {each: {"name": each, "value": value} for each, value in figures.items()},
    }


def _summary(sample: Document) -> Document:
    kept = ("id", "epoch", "input", "target", "scores", "model_usage", "total_time", "working_time")
    told = {name: sample[name] for name in kept if name in sample}
    error = {"error": sample["error"]["message"][:TOLD_MAX]} if "error" in sample else {}
    short = {
        name: what
        for name, what in sample["metadata"].items()
        if isinstance(what, str | int) and len(str(what)) < TOLD_MAX
    }
    count = len(sample["messages"])
    return {**told, **error, "metadata": short, "completed": True, "message_count": count}


def _at(text: str) -> datetime:
    """A time as it was written; where it is none, the beginning of time."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = datetime.fromtimestamp(0, UTC)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)


def _moment(text: str) -> str:
    return _at(text).isoformat(timespec="seconds")
