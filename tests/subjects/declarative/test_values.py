"""The small parts that a description is read with."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.target import Target
from operator_protocols.errors import ConfigError
from operator_protocols.ports import Job
from operator_sre.subjects.declarative.commands import locate, read_command
from operator_sre.subjects.declarative.document import Table, nearest, parse
from operator_sre.subjects.declarative.patterns import PatternError, pattern_of
from operator_sre.subjects.declarative.probes.http import HttpProbe
from operator_sre.subjects.declarative.probes.machine import process_in
from operator_sre.subjects.declarative.probes.place import Blind, places_of
from operator_sre.subjects.declarative.values import (
    VALUE_CHARACTERS_MAX,
    Extraction,
    document_of,
    number_in,
    path_of,
    pick,
    plain,
    read_extraction,
)


def table(text: str) -> Table:
    return Table(parse(text, "f"), "f", "the test")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (True, True),
        (7, 7),
        (2**53, 2**53),
        (2**60, float(2**60)),
        (10**400, sys.float_info.max),
        (-(10**400), -sys.float_info.max),
        (math.inf, sys.float_info.max),
        (math.nan, None),
        (None, None),
        ("x" * 1000, "x" * VALUE_CHARACTERS_MAX),
        ([1], None),
        ({}, None),
    ],
)
def test_a_reading_is_a_plain_value(value: object, kept: object) -> None:
    assert plain(value) == kept


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (" 17\n", 17),
        ("-2.50", -2.5),
        ("1e3", 1000.0),
        ("", None),
        ("17 apples", None),
        ("0x10", None),
        ("nan", None),
        ("9" * 400, None),
        ("1e999", sys.float_info.max),
    ],
)
def test_a_number_is_all_that_a_text_is(text: str, number: object) -> None:
    assert number_in(text) == number


def test_a_path_leads_to_a_single_value() -> None:
    document = {"a": {"b-c": [{"d": 1}, {"d": 2}]}, "x y": {"z": True}, "n": None}
    assert path_of("a.b-c[1].d") == ("a", "b-c", 1, "d")
    assert pick(document, path_of("a.b-c[1].d")) == 2
    assert pick(document, path_of('["x y"].z')) is True
    for missing in ("a.b-c[2].d", "a.q", "a.b-c", "n", "n.x", "a[0]", "x.y.z"):
        assert pick(document, path_of(missing)) is None
    for nonsense in ("", ".a", "a..b", "a.", "a b", "a[x]", "a[-1]", "a.[0]", ".".join("a" * 20)):
        with pytest.raises(ValueError, match="path"):
            path_of(nonsense)


def test_what_is_no_json_is_nothing() -> None:
    assert document_of(b'{"a": 1}') == {"a": 1}
    for body in (b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 10_000):
        assert document_of(body) is None


def test_patterns_are_linear_and_bounded() -> None:
    assert pattern_of("a.b").search("a\nb")
    for pattern in ("(", "(?=x)", r"(a)\1", "(a{500}){500}", "x" * 501):
        with pytest.raises(PatternError):
            pattern_of(pattern)


def test_a_table_is_asked_for_what_it_holds() -> None:
    found = table("a: 1\nb: [x, 2]\nc: {d: true}\ne: 1h\nf: text\n")
    assert ("a" in found, "z" in found, list(found)) == (True, False, ["a", "b", "c", "e", "f"])
    assert found.number("a", None, low=0, high=5) == 1
    assert found.texts("b") == ("x", "2")
    assert found.texts("f") == ("text",)
    assert found.pairs("c") == {"d": True}
    assert found.seconds("e", 0.0) == 3600.0
    assert found.seconds("z", 7.0) == 7.0
    for ask in (
        lambda: found.text("a"),
        lambda: found.flag("a"),
        lambda: found.number("f", 0, low=0, high=1),
        lambda: found.number("a", 0, low=2, high=3),
        lambda: found.texts("c"),
        lambda: found.table("a"),
        lambda: found.require_text("z"),
        lambda: found.choice("f", ("x", "y"), "x"),
        lambda: found.port("f"),
        lambda: found.seconds("f", 0.0),
    ):
        with pytest.raises(ConfigError, match=r"^Line [1-5] of 'f': "):
            ask()
    assert nearest("naem", ["name", "targets"]) == "Did you mean 'name'?"
    assert nearest("x", []) == ""


def test_values_are_taken_by_path_and_by_pattern() -> None:
    reads = table("read: {a: x.y}\nexpect: {body: 'n=(?P<n>[0-9]+)( w=(?P<w>[a-z]+))?'}\n")
    taken = read_extraction(reads, reads.table("expect"))
    assert taken.fields == {"a", "n", "w", "matched"}
    assert taken.extract({"x": {"y": 2}}, b"n=5") == {"a": 2, "n": 5, "matched": True}
    assert taken.extract(None, "nothing") == {"matched": False}
    assert Extraction().extract({}, b"") == {}
    for text in ("read: {ok: x}\n", "read: {a: ''}\n", "read: {A: x}\n"):
        with pytest.raises(ConfigError):
            read_extraction(table(text))
    clash = table("read: {n: x}\nexpect: {body: '(?P<n>x)'}\n")
    with pytest.raises(ConfigError, match="not a valid name for a value"):
        read_extraction(clash, clash.table("expect"))


def test_an_address_is_tried_after_the_other() -> None:
    target = Target("t", "k", host="h", port=1, endpoints=("b:2", "[::1]:3"))
    assert places_of(target) == [("h", 1), ("b", 2), ("::1", 3)]
    assert places_of(target, 9) == [("h", 9), ("b", 9), ("::1", 9)]
    with pytest.raises(Blind, match="no port"):
        places_of(Target("t", "k"))
    assert "status" in HttpProbe().fields


def test_a_process_is_named_by_its_file_only_where_that_makes_sense(tmp_path: Path) -> None:
    assert process_in(str(tmp_path / "none")) is None
    (tmp_path / "pid").write_text("-5\n")
    assert process_in(str(tmp_path / "pid")) is None


def test_a_command_is_a_list_or_a_line() -> None:
    assert read_command(table("run: [ls, -l, 5]\n"), "/srv", "run").argv == ("ls", "-l", "5")
    line = read_command(table("run: ls | wc -l\ndirectory: logs\n"), "/srv", "run")
    assert (line.line, line.cwd, str(line)) == ("ls | wc -l", "/srv/logs", "ls | wc -l")
    for text in ("run: []\n", "run:\n", "run: [true]\n", "run: {a: b}\n", "run: ['']\n", "x: y\n"):
        with pytest.raises(ConfigError):
            read_command(table(text), "/", "run")


class _Elsewhere:
    """A shell that knows where its targets are."""

    async def run(self, action: Action, job: Job) -> Result:
        raise AssertionError(action)

    async def recover(self, action: Action, job: Job) -> Result:
        raise AssertionError(action)

    async def identify(self, target: str) -> str:
        return f"the place of {target}"


@pytest.mark.asyncio
async def test_a_command_is_bound_to_where_its_target_is() -> None:
    action = Action.program(["true"], target="t")
    assert (await locate(action, _Elsewhere())).place == "the place of t"
    assert (await locate(Action.program(["true"]), _Elsewhere())).place == ""
