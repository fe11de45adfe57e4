"""The figures in README and docs, computed from the campaigns that are published beside them.

python -m tests.evals.results
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from operator_evals.app.generated import Tally, load_generated
from operator_evals.app.views import Analysis, Cell, Summary, analysis_of
from operator_evals.database import PUBLISHED
from operator_evals.generated.calibration import calibrate, cross_validate
from operator_evals.score import Share

__all__ = [
    "AGENT",
    "DOCUMENTS",
    "GENERATED",
    "RESULTS",
    "campaigns",
    "filled",
    "tables_in",
    "tally_table",
]

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "evals" / "results"
GENERATED = RESULTS / "generated"
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "evals.md")
# A table stands between two such lines, the first of which says what it is made of.
BLOCK = re.compile(r"(<!-- (\w+) of (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
OUTCOMES = re.compile(r"(<!-- generated faults -->\n)(.*?)(<!-- end -->)", re.DOTALL)
CALIBRATION = re.compile(r"(<!-- calibration -->\n)(.*?)(<!-- end -->)", re.DOTALL)
AGENT = "reasoner"


def campaigns() -> dict[str, Path]:
    """Every published campaign by its name."""
    return {one.stem: one for one in sorted(RESULTS.glob(f"*{PUBLISHED}"))}


def tables_in(text: str) -> list[tuple[str, str, str]]:
    """What tables a document has: what they show, of which campaign, and what stands there."""
    return [(one[2], one[3], one[4]) for one in BLOCK.finditer(text)]


def filled(text: str) -> str:
    """A document with its tables computed from the published campaigns."""
    known: dict[str, Analysis] = {}

    def made(block: re.Match[str]) -> str:
        kind, name = block[2], block[3]
        if name not in known:
            known[name] = analysis_of(RESULTS / f"{name}{PUBLISHED}", None)
        return f"{block[1]}\n{_TABLES[kind](known[name])}\n{block[5]}"

    text = OUTCOMES.sub(lambda block: f"{block[1]}\n{_generated()}\n{block[3]}", text)
    text = CALIBRATION.sub(lambda block: f"{block[1]}\n{_calibration()}\n{block[3]}", text)
    return BLOCK.sub(made, text)


def _calibration() -> str:
    """The reliability of the diagnoses of all published generated faults."""
    paths = sorted(GENERATED.glob(f"*{PUBLISHED}"))
    sittings = [load_generated(path, path.stem, AGENT) for path in paths]
    found = calibrate(judged.facts for sitting in sittings for judged in sitting.judged)
    rows = [
        (
            f"{band.low * 100:.0f} to {band.high * 100:.0f} %",
            *(str(band.right.of), f"{band.mean * 100:.0f} %"),
            *(_percent(band.right), _interval(band.right)),
        )
        for band in found.bands
    ]
    head = ("probability", "diagnoses", "mean", "right component", "95 % interval")
    scores = f"Brier score {found.brier:.3f}; {found.base:.3f} for a constant guess."
    facts = [judged.facts for sitting in sittings for judged in sitting.judged]
    folds = (
        ("tenths of the seeds", cross_validate(facts, lambda each: each.seed % 10)),
        ("one subject after the other", cross_validate(facts, lambda each: each.scenario.subject)),
    )
    held_out = [
        (name, f"{found.brier:.3f}", f"{fitted:.3f}", f"{constant:.3f}")
        for name, (fitted, constant) in folds
    ]
    unseen = _table(("held out", "as stated", "fitted", "constant guess"), held_out)
    return f"{_table(head, rows)}\n{scores} {found.diagnoses} diagnoses.\n\n{unseen}"


def _generated() -> str:
    """The table of the published generated faults."""
    paths = sorted(GENERATED.glob(f"*{PUBLISHED}"))
    return tally_table([load_generated(path, path.stem, AGENT).tally for path in paths])


def tally_table(tallies: Sequence[Tally]) -> str:
    """One column for each subject, one line for each outcome of its generated faults."""
    rows = [
        ("cases", *(str(one.trials) for one in tallies)),
        ("seeds", *(f"{one.first_seed} to {one.last_seed}" for one in tallies)),
        ("void", *(str(one.void) for one in tallies)),
        ("**handled**", *(_counted(one.handled) for one in tallies)),
    ]
    for name in tallies[0].outcomes if tallies else ():
        rows.append((name, *(_counted(one.outcomes[name]) for one in tallies)))
    rows.append(("component named", *(_counted(one.component_right) for one in tallies)))
    named = (f"{one.named} of {one.named + one.abstained}" for one in tallies)
    rows.append(("a cause was named", *named))
    changes = (_seconds(one.first_change_s_median) for one in tallies)
    rows.append(("ticket to first change, p50", *changes))
    return _table(("", *(one.subject for one in tallies)), rows)


def _counted(share: Share) -> str:
    if not share.of:
        return "-"
    return f"{share.count} of {share.of}: {_percent(share)} ({_interval(share)})"


def _summary(found: Analysis) -> str:
    """One line for each variant, over all scenarios."""
    head = (
        "agent",
        "end to end",
        "95 % interval",
        "right cause",
        "correct outcome",
        "mitigated",
        "time to mitigate, p50",
    )
    rows = [
        (
            *(one.variant, _percent(one.end_to_end), _interval(one.end_to_end)),
            *(_percent(one.cause_right), _percent(one.ended_right), _percent(one.mitigated)),
            _seconds(one.mitigate_s_median),
            *(str(one.harmed), f"{one.false_repairs} of {one.controls_right.of}"),
        )
        for one in _whole(found.summaries)
    ]
    return _table((*head, "trials with harm", "false repairs in controls"), rows)


def _slices(found: Analysis) -> str:
    """One line for each variant and slice."""
    head = (
        "agent",
        "slice",
        "trials",
        "invalid",
        "right cause",
        "correct outcome",
        "end to end",
        "95 % interval",
    )
    rows = [
        (
            *(one.variant, one.slice, str(one.trials), str(one.invalid)),
            *(_percent(one.cause_right), _percent(one.ended_right)),
            *(_percent(one.end_to_end), _interval(one.end_to_end)),
            *(_seconds(one.detect_s_median), _seconds(one.mitigate_s_p95)),
            _percent(one.mitigated_by_luck),
        )
        for one in found.summaries
    ]
    more = ("time to detect, p50", "time to mitigate, p95", "mitigated with wrong cause")
    return _table((*head, *more), rows)


def _scenarios(found: Analysis) -> str:
    """One line for each scenario: trials of each variant with the correct outcome."""
    variants = list(dict.fromkeys(one.variant for one in found.cells))
    by_place: Mapping[tuple[str, str], Cell] = {
        (one.scenario, one.variant): one for one in found.cells
    }
    rows = []
    for name in dict.fromkeys(one.scenario for one in found.cells):
        cells = [by_place[(name, variant)] for variant in variants]
        apart = " (held out)" if cells[0].apart else ""
        counts = [f"{one.ended_right.count}/{one.ended_right.of}" for one in cells]
        rows.append((f"{name}{apart}", *counts))
    return _table(("scenario", *variants), rows)


_TABLES: Mapping[str, Callable[[Analysis], str]] = {
    "summary": _summary,
    "slices": _slices,
    "scenarios": _scenarios,
}


def _whole(found: Iterable[Summary]) -> list[Summary]:
    return [one for one in found if one.slice == "all"]


def _percent(share: Share) -> str:
    return "-" if not share.of else f"{100 * share.count / share.of:.0f} %"


def _interval(share: Share) -> str:
    return "-" if not share.of else f"{100 * share.low:.0f} to {100 * share.high:.0f} %"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    for document in DOCUMENTS:
        document.write_text(filled(document.read_text(encoding="utf-8")), encoding="utf-8")
