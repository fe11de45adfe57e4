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

from operator_evals.analysis import Scored
from operator_evals.database import Recorded
from operator_evals.facts import CommandFact, DiagnosisFact, ProofFact, TrialFacts
from operator_evals.score import share
from operator_protocols.domain.budget import Spent
from operator_protocols.errors import UsageError
from operator_protocols.ports import CorrectOutcome
from operator_sre.codec import to_json

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
        for variant in dict.fromkeys(scored.facts.variant for scored in known):
            some = [scored for scored in known if scored.facts.variant == variant]
            campaign = recorded.campaign.name
            title = _UNFIT_FILE.sub("-", f"{campaign}-{variant}")[:80]
            when = _moment(recorded.started_at).replace(":", "-")
            file = folder / f"{when}_{title}_{_mark_of(campaign, variant)[:22]}.eval"
            draft = file.with_suffix(".part")
            with zipfile.ZipFile(draft, "w") as log:
                for name, body in documents(recorded, variant, some).items():
                    text = json.dumps(body, sort_keys=True).encode("utf-8")
                    kind = zipfile.ZipInfo(name, _STAMP)
                    log.writestr(kind, text, compress_type=zipfile.ZIP_DEFLATED)
            draft.replace(file)
            written.append(file)
    except OSError as error:
        raise UsageError(
            f"The logs cannot be written to {str(folder)!r}: {error.strerror or error}.",
            next_step="Name another folder with --output DIR.",
        ) from None
    return written


def documents(recorded: Recorded, variant: str, some: Sequence[Scored]) -> dict[str, Any]:
    """Every part of a log by its name."""
    names: dict[str, str] = {}
    for scored in some:
        name = scored.facts.scenario.name
        fit = _UNFIT.sub("-", name)[:100].strip(".-") or "scenario"
        if name not in names:
            names[name] = f"{fit}-{len(names)}" if fit in names.values() else fit
    samples = {
        f"{names[scored.facts.scenario.name]}_epoch_{scored.facts.seed + 1}": _make_sample(
            names, scored
        )
        for scored in sorted(some, key=lambda scored: scored.facts.key)
    }
    spec, plan = _make_spec(recorded, variant, list(names.values())), {"name": "plan", "steps": []}
    scores = []
    for measure in MEASURES:
        # A share with its interval, of faults alone: controls are counted apart.
        counted = [
            bool(getattr(scored.score, measure))
            for scored in some
            if _applies(measure, scored) and not scored.score.control
        ]
        reached = share(counted)
        figures = {"share": reached.value or 0.0, "low_95": reached.low, "high_95": reached.high}
        result = {
            "name": measure,
            "scorer": SCORER,
            "scored_samples": len(counted),
            "unscored_samples": len(some) - len(counted),
            "metrics": {name: {"name": name, "value": value} for name, value in figures.items()},
        }
        scores.append(result)
    ends = [
        _at(scored.facts.started_at) + timedelta(seconds=scored.facts.moments.ended or 0.0)
        for scored in some
    ]
    spent = sum((scored.facts.spent for scored in some), Spent())
    header = {
        "version": VERSION,
        "status": "success",
        "eval": spec,
        "plan": plan,
        "results": {
            "total_samples": len(some),
            "completed_samples": sum(scored.score.valid for scored in some),
            "scores": scores,
        },
        "stats": {
            "started_at": _moment(recorded.started_at),
            "completed_at": max(ends, default=_at("")).isoformat(timespec="seconds"),
            "model_usage": _usage(variant, spent),
        },
    }
    return {
        "_journal/start.json": {"version": VERSION, "eval": spec, "plan": plan},
        **{f"samples/{place}.json": sample for place, sample in samples.items()},
        "summaries.json": [_summarise(sample) for sample in samples.values()],
        "header.json": header,
    }


def _usage(variant: str, spent: Spent) -> Document:
    """The tokens and time of the model; nothing where tokens were not counted."""
    if not spent.tokens:
        return {}
    used = {"input_tokens": spent.tokens_in, "output_tokens": spent.tokens_out}
    return {f"operator/{variant}": {**used, "total_tokens": spent.tokens}}


def _mark_of(campaign: str, variant: str) -> str:
    return hashlib.sha256(f"{campaign}\0{variant}".encode("utf-8", "replace")).hexdigest()


def _make_spec(recorded: Recorded, variant: str, names: list[str]) -> Document:
    campaign = recorded.campaign
    mark = _mark_of(campaign.name, variant)
    described = [
        dict(to_json(described_variant))
        for described_variant in campaign.variants
        if described_variant.name == variant
    ]
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
        "config": {"epochs": max(1, campaign.seeds.get(variant, 1))},
        "packages": {name: str(version) for name, version in recorded.machine.items()},
        "metadata": {
            "variant": described[0] if described else {"name": variant},
            "machine": dict(recorded.machine),
        },
    }


def _make_sample(names: dict[str, str], scored: Scored) -> Document:
    facts, worth = scored.facts, scored.score
    took = facts.moments.ended
    outcome = facts.still_after_hold or facts.still or "fault is gone"
    last = facts.diagnoses[-1] if facts.diagnoses else None
    answer = f"{last.cause}@{last.target}" if last else "nothing"
    scores: Document = {}
    if worth.valid:
        values = {name: getattr(worth, name) for name in MEASURES if _applies(name, scored)}
        why = "; ".join(worth.harm) or outcome
        scores = {
            name: {"value": 1.0 if value else 0.0, "answer": answer, "explanation": why}
            for name, value in {**values, "harmless": not worth.harm}.items()
        }
    # The agent does not see this.
    task = (
        f"{facts.scenario.fault} is injected into {facts.hit or 'no target'} of"
        f" {facts.scenario.subject},"
        f" which breaks: {', '.join(facts.scenario.breaks) or 'nothing'}. The agent does not know."
    )
    sample = {
        "id": names[facts.scenario.name],
        "epoch": facts.seed + 1,
        "input": task,
        "target": list(facts.scenario.truths) or ["nothing is broken"],
        "messages": [{"role": "user", "content": task}, *_list_messages(facts)],
        "output": {"model": f"operator/{facts.variant}", "choices": [], "completion": ""},
        "scores": scores,
        "metadata": {
            "key": facts.key,
            "subject": facts.scenario.subject,
            "fault": facts.scenario.fault,
            "hit": facts.hit,
            "seed": facts.seed,
            "state": facts.state.value,
            "moments": to_json(facts.moments),
            "tickets": to_json(facts.tickets),
            "oracle": outcome,
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


def _list_messages(facts: TrialFacts) -> Iterator[Document]:
    """The reasoning, calls and proofs; each call has the verdict of the gate and its result."""
    steps: list[CommandFact | DiagnosisFact | ProofFact]
    steps = [*facts.commands, *facts.diagnoses, *facts.proofs]
    for number, step in enumerate(sorted(steps, key=lambda step: step.seq)):
        match step:
            case DiagnosisFact():
                sure = f"{step.cause} at {step.target} ({step.confidence:.0%} sure)"
                sure += f", diagnosed by {step.by}" if step.by else ""
                yield {"role": "assistant", "content": f"{step.at_s:.1f} s: {sure}. {step.summary}"}
            case ProofFact():
                held = "invariants held" if step.held else "invariants did not hold"
                harm = f"; newly broken: {', '.join(step.harm)}" if step.harm else ""
                text = f"{step.at_s:.1f} s: verification: {held}{harm}."
                yield {"role": "user", "content": text}
            case CommandFact():
                call = {
                    "id": f"call-{number}",
                    "function": step.tool,
                    "arguments": {"command": step.text, "target": step.target},
                    "type": "function",
                }
                text = f"{step.at_s:.1f} s: {step.reasoning}"
                yield {"role": "assistant", "content": text, "tool_calls": [call]}
                became = f"{step.outcome or 'ran'} in {step.duration_s:.1f} s"
                became = became if step.ran else "it did not run"
                ended = "" if step.exit_code is None else f", exit {step.exit_code}"
                yield {
                    "role": "tool",
                    "content": f"gate: {step.level}, risk {step.risk or 'unknown'};"
                    f" {became}{ended}",
                    "tool_call_id": f"call-{number}",
                    "function": step.tool,
                }


def _applies(name: str, scored: Scored) -> bool:
    """Whether a measure says anything of a trial, as in our own tables."""
    if not scored.score.valid:
        return False
    if name == "mitigated":
        return scored.facts.scenario.end is CorrectOutcome.MITIGATED
    return name == "ended_right" or not scored.score.control


def _summarise(sample: Document) -> Document:
    kept = ("id", "epoch", "input", "target", "scores", "model_usage", "total_time", "working_time")
    summary = {name: sample[name] for name in kept if name in sample}
    error = {"error": sample["error"]["message"][:TOLD_MAX]} if "error" in sample else {}
    short = {
        name: value
        for name, value in sample["metadata"].items()
        if isinstance(value, str | int) and len(str(value)) < TOLD_MAX
    }
    count = len(sample["messages"])
    return {**summary, **error, "metadata": short, "completed": True, "message_count": count}


def _at(text: str) -> datetime:
    """A time as it was written; where it is none, the beginning of time."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = datetime.fromtimestamp(0, UTC)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)


def _moment(text: str) -> str:
    return _at(text).isoformat(timespec="seconds")
