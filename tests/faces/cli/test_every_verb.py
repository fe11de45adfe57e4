"""The whole command line with bad values: one sentence or one document, and nothing is changed."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_sre.faces.cli.output import hush
from tests.contract_messages.holding import held_to_schema
from tests.e2e.warm import Done
from tests.every import expect_each
from tests.faces.cli.tree import Parameter, Verb, run_here, verbs

VERBS = verbs()
# These go on until they are stopped, so that only what cannot be parsed ends them.
RUNNING = (
    *("agent start", "alerts serve", "eval viewer", "hub listen", "mcp", "monitor run"),
    *("porter serve", "serve", "up", "web", "workers run"),
)
# What is searched for may well begin with dashes.
ANY_WORDS = ("history search",)
# What would start a rig gets a subject that there is not.
FILLED = {"demo": ["nosuch"]}
NUMBERS = ("int", "float")
UNREADABLE = "\x1b[31mno such\x07"


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("OPERATOR_HOME", str(tmp_path / "home"))
    ours = logging.getLogger("operator_sre")
    before = list(ours.handlers), ours.level, ours.propagate
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        yield
    ours.handlers, ours.level, ours.propagate = before[0], before[1], before[2]
    hush(quiet=False)


def _filled(verb: Verb, but: Parameter | None = None) -> list[str]:
    """Words for all that must be there, but one."""
    given = [one for one in verb.parameters if one.required and one is not but]
    words = [word for one in given if one.option for word in one.words(_plain(one))]
    return [*verb.path, *words, *(_plain(one) for one in given if not one.option)]


def _plain(one: Parameter) -> str:
    return "7" if one.kind in NUMBERS else "nosuch"


def _unparsable() -> Iterator[tuple[str, ...]]:
    """Lines that are wrong whatever the home is like."""
    for verb in VERBS:
        line = _filled(verb)
        if verb.line not in ANY_WORDS:
            yield (*line, "--nosuch")
        for one in verb.parameters:
            rest = _filled(verb, one)
            if one.required:
                yield tuple(rest)
            if one.flag:
                continue
            if one.option or one.kind == "path":
                yield (*rest, *one.words(""))
            if one.kind in NUMBERS:
                yield (*rest, *one.words("nonsense"))
            if one.kind == "moment":
                yield (*rest, *one.words("yesterday"))


def _doubtful(folder: Path, *, every: bool) -> Iterator[tuple[str, ...]]:
    """Lines that parse, with values that hardly make sense; some are just answered."""
    binary = folder / "binary"
    binary.write_bytes(bytes(range(256)) * 8)
    for verb in VERBS:
        if verb.line in RUNNING:
            continue
        first = [*_filled(verb), *FILLED.get(verb.line, [])]
        if every:
            yield tuple(first)
        for one in verb.parameters:
            rest = [*_filled(verb, one), *FILLED.get(verb.line, [])]
            if one.flag or (verb.line in FILLED and not one.option):
                continue
            if one.kind in NUMBERS:
                values = ["-1", "99999999999999999999999"]
            elif one.kind == "path" or one.name in {"file", "path", "script"}:
                values = [str(folder / "missing"), str(folder), str(binary)]
            else:
                values = [UNREADABLE] if one.option else ["", UNREADABLE]
            for value in values if every or one.kind in NUMBERS else values[1:]:
                yield (*rest, *one.words(value))


def _as_json(words: tuple[str, ...]) -> list[str]:
    """The same line for programs; before two dashes, behind which nothing is an option."""
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], "--json", *words[at:]]


def _error(done: Done) -> None:
    error = done.json["error"]
    assert set(error) == {"category", "message", "next_action"}
    assert error["category"] in set(ErrorCategory)
    assert error["next_action"] in set(NextAction)
    assert "unexpected" not in error["message"], error["message"]
    assert "[Errno" not in error["message"], error["message"]
    assert done.err == ""


def test_what_cannot_be_understood_is_a_sentence_for_people_and_a_document_for_programs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refused(*words: str) -> None:
        said = run_here(capsys, words)
        assert (said.code, said.out) == (2, ""), said
        assert said.err.startswith("operator: "), said.err
        assert said.err.count("\n") == 1, said.err
        assert "--help" in said.err, said.err
        told = run_here(capsys, _as_json(words))
        assert told.code == 2, told
        _error(told)

    expect_each(_unparsable(), refused)
    assert list(tmp_path.iterdir()) == [tmp_path / "work"], "no home was made"
    assert list((tmp_path / "work").iterdir()) == []


def _answered(capsys: pytest.CaptureFixture[str], *words: str) -> None:
    done = run_here(capsys, _as_json(words))
    assert done.code in {0, 1, 2, 3, 4}, done
    assert "Traceback" not in done.out + done.err
    for document in _documents(done.out):
        held_to_schema(_as_json(words), json.dumps(document))
    if done.code and "error" in (document := json.loads(done.out)):
        _error(done)
        assert "\x1b" not in str(document)


def test_numbers_and_files_that_make_no_sense_end_in_an_answer_or_in_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    expect_each(_doubtful(tmp_path, every=False), partial(_answered, capsys))


@pytest.mark.slow
def test_all_that_makes_no_sense_ends_in_an_answer_or_in_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    expect_each(_doubtful(tmp_path, every=True), partial(_answered, capsys))


def _documents(out: str) -> Iterator[dict[str, object]]:
    decoder, at = json.JSONDecoder(), 0
    while at < len(out.rstrip()):
        document, at = decoder.raw_decode(out, at)
        yield document
        at += len(out[at:]) - len(out[at:].lstrip())
