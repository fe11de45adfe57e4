"""What the documents say is there, is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#]+)\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    links = [target for _, target in _LINK.findall(document.read_text()) if "://" not in target]
    missing = [target for target in links if not (document.parent / target).exists()]
    assert missing == []


def test_every_promise_names_a_test_that_exists() -> None:
    promises = [
        (words, target)
        for words, target in _LINK.findall((ROOT / "README.md").read_text())
        if target.startswith("tests/")
    ]
    assert len(promises) >= 10
    for words, target in promises:
        name = f"def test_{words.replace(' ', '_')}("
        assert name in (ROOT / target).read_text(), f"{target} has no {name}"


def test_every_benchmark_says_how_to_repeat_it_and_is_in_the_docs() -> None:
    figures = (ROOT / "docs" / "performance.md").read_text()
    benchmarks = list((ROOT / "benchmarks").glob("*.py"))
    assert len(benchmarks) > 20
    for benchmark in benchmarks:
        command = f".venv/bin/python benchmarks/{benchmark.name}"
        assert command in benchmark.read_text(), benchmark
        assert command in figures, benchmark
