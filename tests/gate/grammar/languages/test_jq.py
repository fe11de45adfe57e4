"""jq: programs that only compute from their input are proven, and the real jq agrees."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_sre.gate.grammar.languages.jq import JQ, JQ_REFUSED, YQ, YQ_REFUSED, jq
from tests.every import every
from tests.gate.grammar.languages.real import leaves_everything_as_it_was, tool

COMPUTES = [
    ".",
    ".a",
    ".a.b.c",
    ".[]",
    ".b[0]",
    ".b[1:2]",
    '.["a"]',
    '."a"',
    ".a?",
    "..",
    "..|numbers",
    ".b[] | .name",
    '.b[] | select(.name == "x") | .n',
    ".b | map(.n) | add",
    ".b | length",
    "keys",
    "keys_unsorted[]",
    "to_entries[] | [.key, (.value | tostring)] | @tsv",
    "to_entries | map({(.key): .value}) | add",
    "{a, b}",
    "{env: .a}",
    '{"x": .a, y: .b}',
    "[.b[] | {name, n: (.n * 2)}]",
    ".b | group_by(.n) | map({n: .[0].n, count: length})",
    '"\\(.a) of \\(.b | length)"',
    '"a \\("b \\(.a)")"',
    '@json "x\\(.b)"',
    "[.b[].n] | max, min, add / length",
    'if .a > 0 then "yes" elif .a == 0 then "zero" else "no" end',
    'try error("x") catch .',
    '.missing // "default"',
    "reduce .b[] as $x (0; . + $x.n)",
    "foreach .b[] as $x (0; . + $x.n; [., $x.name])",
    "def double: . * 2; .a | double",
    "def f(g; $x): g + $x; f(.a; 1)",
    ".a as $a | .b | map(.n + $a)",
    ". as {a: $x, b: [$y]} | $x, $y",
    "label $out | .b[] | ., break $out",
    '.text | test("root"; "i")',
    '.text | split(" ") | .[0]',
    '.text | gsub("o"; "0") | ascii_upcase',
    "[paths] | length",
    "del(.a)",
    ".a = 5 | .a |= . + 1 | .a += 1",
    "with_entries(.value |= tostring)",
    "[limit(2; range(10))]",
    "input_filename",
    "now | todate",
    "tojson | fromjson",
    "$__loc__",
    ".a # a remark",
    ".a and (.b | not) or true",
    ".env",
    "first(inputs) // .",
    '.b | map(select(.name | startswith("x"))) | sort_by(.n) | reverse',
    "debug",
]
REFUSED = [
    ("env", "?The function 'env'"),
    ("env.HOME", "?"),
    (". | env | .HOME", "?"),
    ("$ENV", "?The variable $ENV"),
    ("$ENV.HOME", "?"),
    ("{$ENV}", "?"),
    ("{a: env}", "?"),
    ("{env}", "?"),
    (".[env:1]", "?"),
    ("[.[] , env]", "?"),
    ('"\\(env)"', "?"),
    ('"\\("\\($ENV.A)")"', "?"),
    ('@sh "\\(env.A)"', "?"),
    ("..env", "?"),
    ("def env: 1; env", "?"),
    ('import "a" as a; .', "!The word 'import'"),
    ('include "a"; .', "!The word 'include'"),
    ("modulemeta", "The function 'modulemeta'"),
    ("get_search_list", "The function 'get_search_list'"),
    ("a::b", "What begins at"),
    ("$a::b", "What begins at"),
    ("nothing", "The function 'nothing' is not known."),
    ('system("id")', "The function 'system'"),
    ("$ ENV", "What begins at"),
    ("@nothing", "The function '@nothing'"),
    ("'a'", "What begins at"),
    ('"open', "A string does not end."),
    ('"\\(', "A bracket or a string does not end."),
    ("[1", "A bracket or a string does not end."),
    ("(1]", "A bracket is closed"),
    (")", "A bracket is closed"),
    ("# remark\\\n.", "What begins at"),
    ("{a b}", "What follows the key"),
    ("é", "What begins at"),
    ("`id`", "What begins at"),
    ("$(id)", "What begins at"),
    ("&", "What begins at"),
]
_BAD = st.sampled_from(["env", "$ENV", "env.A", '"\\(env)"', "[env]", "{a: $ENV}", "nothing_known"])


@every("text", COMPUTES)
def test_a_program_that_only_computes_is_proven(text: str) -> None:
    assert jq(text) is None


@every(("text", "start"), REFUSED)
def test_anything_else_has_a_reason(text: str, start: str) -> None:
    reason = jq(text)
    assert reason is not None
    assert reason.startswith(start)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(COMPUTES)), _BAD, st.lists(st.sampled_from(COMPUTES)))
def test_the_environment_is_found_between_others(
    before: list[str], bad: str, after: list[str]
) -> None:
    assert jq("\n| ".join([*before, bad, *after])) is not None


def test_nothing_is_both_known_and_refused() -> None:
    assert not JQ & JQ_REFUSED.keys()
    assert not YQ & YQ_REFUSED.keys()


@pytest.mark.parametrize("text", COMPUTES)
def test_the_real_jq_accepts_it_and_changes_nothing(text: str, tmp_path: Path) -> None:
    done = leaves_everything_as_it_was(tmp_path, [tool("jq"), text, "input"])
    assert b"compile error" not in done.stderr


_PIECES = st.sampled_from([*'.[](){}|,:;"$#\n ', "a", "env", "$ENV", '\\("', '"a"', "as"])


@settings(max_examples=150, deadline=None)
@given(st.lists(_PIECES, max_size=10).map("".join))
def test_whatever_is_proven_never_shows_the_environment(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    if jq(text) is None:
        done = leaves_everything_as_it_was(
            tmp_path_factory.mktemp("jq"), [tool("jq"), text, "input"]
        )
        assert b"/usr/bin:/bin" not in done.stdout
