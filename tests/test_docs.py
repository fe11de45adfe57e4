"""What the documents say is there, is there."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

from operator_protocols.domain.workflow import Workflow
from operator_sre.config.settings import SETTINGS, load_config
from operator_sre.executor.workflows import read_workflow
from operator_sre.gate.policy.load import book_of
from operator_sre.gate.policy.policy import built_in
from tests.every import every
from tests.executor.workflows.test_definition import RESTART
from tests.faces.cli.tree import parse_line, verbs

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#]+)\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    links = [target for _, target in _LINK.findall(document.read_text()) if "://" not in target]
    missing = [target for target in links if not (document.parent / target).exists()]
    assert missing == []


def test_every_promise_names_a_test_that_exists() -> None:
    promises = [
        (words, (document.parent / target).resolve())
        for document in (ROOT / "README.md", ROOT / "docs" / "promises.md")
        for words, target in _LINK.findall(document.read_text())
        if "tests/" in target
    ]
    assert len(promises) >= 30
    for words, file in promises:
        name = f"def test_{words.replace(' ', '_')}("
        assert name in file.read_text(), f"{file} has no {name}"


def test_every_benchmark_says_how_to_repeat_it_and_is_in_the_docs() -> None:
    figures = (ROOT / "docs" / "performance.md").read_text()
    benchmarks = list((ROOT / "benchmarks").glob("*.py"))
    assert len(benchmarks) > 20
    for benchmark in benchmarks:
        command = f".venv/bin/python benchmarks/{benchmark.name}"
        assert command in benchmark.read_text(), benchmark
        assert command in figures, benchmark


_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)
_HEADING = re.compile(r"^#+ (.*)$", re.M)
_ANCHOR = re.compile(r"\[[^\]]*\]\(([^)#]*)#([^)]+)\)")


def _blocks(*languages: str) -> list[tuple[str, str]]:
    """The examples in these languages, each with the place it stands at."""
    return [
        (f"{document.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 2}", match[2])
        for document in DOCUMENTS
        for text in [document.read_text()]
        for match in _FENCE.finditer(text)
        if match[1] in languages
    ]


@every(("place", "example"), _blocks("toml"))
def test_every_toml_example_parses_and_operator_toml_loads(
    place: str, example: str, tmp_path: Path
) -> None:
    table = tomllib.loads(example)
    names = {
        "models",
        "notify",
        "service",
        "subjects",
        "triggers",
        *(each.name for each in SETTINGS),
    }
    if set(table) <= names:
        folder = tmp_path / place.replace("/", "-")
        folder.mkdir()
        (folder / "operator.toml").write_text(example)
        environ = {"OPERATOR_HOME": str(folder / "home")}
        config = load_config(flags={}, environ=environ, cwd=folder)
        assert {subject.name for subject in config.subjects} == set(table.get("subjects", {}))


def test_the_readme_shows_settings_that_load() -> None:
    assert any(place.startswith("README.md") for place, _ in _blocks("toml"))


@every(("place", "example"), _blocks("yaml"))
def test_every_yaml_example_parses_and_policies_and_workflows_load(
    place: str, example: str
) -> None:
    table = yaml.safe_load(example)
    if {"approval", "egress", "review", "version"} & set(table):
        complete = example if "version" in table else f"version: 1\n{example}"
        assert book_of(complete, place).digest != built_in().digest
    elif "steps" in table:
        workflow = read_workflow(example, [RESTART])
        assert isinstance(workflow, Workflow), workflow
        assert len(workflow.steps) == len(table["steps"])


@every(("place", "example"), _blocks("json"))
def test_every_json_example_parses(place: str, example: str) -> None:
    assert json.loads(example), place


def _commands() -> list[tuple[str, list[str]]]:
    """Each `operator ...` of the examples, as words, without prompt, explanation and brackets."""
    found = []
    for place, example in _blocks("", "sh", "console"):
        for line in example.replace("\\\n", " ").splitlines():
            typed = line.strip().removeprefix("$ ")
            if typed.startswith("operator "):
                command = re.split(r"  +| # ", typed)[0]
                optional = re.sub(r" \[([^\]|]*)[^\]]*\]", r" \1", command)
                words = ["1" if word == "N" else word for word in shlex.split(optional)]
                ends = [at for at, word in enumerate(words) if word in ("|", ">", ">>", "&")]
                found.append((f"{place} {command}", words[1 : min(ends, default=len(words))]))
    return found


@every(("place", "words"), _commands())
def test_every_command_in_an_example_exists_and_takes_these_options(
    place: str, words: list[str]
) -> None:
    assert parse_line(words) in {verb.path for verb in verbs()}


_ANCHORS = [
    (document if not target else document.parent / target, anchor)
    for document in DOCUMENTS
    for target, anchor in _ANCHOR.findall(document.read_text())
    if "://" not in target
]


@every(("document", "anchor"), _ANCHORS)
def test_every_anchor_names_a_heading(document: Path, anchor: str) -> None:
    headings = _HEADING.findall(document.read_text())
    anchors = [re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings]
    assert anchor in anchors


def test_the_readme_fits_three_screens() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
