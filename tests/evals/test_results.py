"""Every figure of a campaign in README and docs is computed from what is published beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_evals.app.generated import load_generated
from operator_evals.app.views import analysis_of, export_campaign, load_campaign
from operator_evals.campaign import Mind
from operator_evals.database import PUBLISHED
from operator_evals.generated.generator import DEVELOPMENT_SEEDS
from operator_evals.generated.published import read_generated
from tests.evals import results
from tests.evals.samples import fill


def test_documents_say_what_the_published_campaigns_say() -> None:
    known = results.campaigns()
    shown = set()
    for document in results.DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        assert results.filled(text) == text, f"python -m tests.evals.results writes {document.name}"
        shown |= {name for _, name, _ in results.tables_in(text)}
    assert shown == set(known)


def test_generated_faults_are_published_with_their_commit() -> None:
    files = sorted(results.GENERATED.glob(f"*{PUBLISHED}"))
    assert files
    for file in files:
        found = load_generated(file, file.stem, results.AGENT)
        assert not found.tally.revision.endswith("+"), "it was run from a commit"
        # Later seeds are for what is finished.
        assert 0 < found.tally.first_seed <= found.tally.last_seed < DEVELOPMENT_SEEDS
        assert {trial.machine["revision"] for trial in read_generated(file)} == {
            found.tally.revision
        }


def test_every_miss_of_a_mind_of_ours_is_explained() -> None:
    told = (results.ROOT / "docs" / "evals.md").read_text(encoding="utf-8")
    known = results.campaigns()
    assert known
    for name, path in known.items():
        view, _ = load_campaign(path, None)
        ours = {Mind.REASONER.value, Mind.ORACLE.value}
        for miss in analysis_of(path, None).misses:
            if miss.key.split("/")[1] in ours:
                assert f"`{miss.key}`" in told, f"{name}: {miss.what}, {miss.why}"
        assert view.machine["revision"]
        assert not view.machine["revision"].endswith("+"), "it was run from a commit"
        assert view.done + view.invalid == view.trials


def test_a_table_is_computed_and_a_figure_written_by_hand_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    fill(tmp_path / "eval.db")
    text = export_campaign(tmp_path / "eval.db", None, "facts")
    (tmp_path / f"one{PUBLISHED}").write_text(text, encoding="utf-8")
    assert list(results.campaigns()) == ["one"]
    for kind in ("summary", "slices", "scenarios"):
        bare = f"# A\n\n<!-- {kind} of one -->\n<!-- end -->\n"
        made = results.filled(bare)
        assert made.count("|") > 20, made
        assert results.filled(made) == made
        assert results.tables_in(made)[0][:2] == (kind, "one")
        assert results.filled(made.replace("| reasoner |", "| another |")) == made
