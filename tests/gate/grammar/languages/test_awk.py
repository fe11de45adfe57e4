"""awk: programs that only print are proven, and the real awk agrees."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_protocols.domain.action import Outcome
from operator_protocols.domain.category import FailureCategory
from operator_sre.executor.categories import category_of
from operator_sre.gate.grammar.languages.awk import awk
from tests.every import every
from tests.gate.grammar.languages.real import every_flavour, leaves_everything_as_it_was

PRINTS = [
    "1",
    "{print}",
    "{print $1}",
    "{ print $1, $NF }",
    "$3+0 > 80",
    "$3 >= 80 && $4 < 5",
    "NR > 1",
    "NR>1{print $2}",
    "NR==FNR",
    "/error/",
    "/error|warn/ {print $0}",
    "!/^#/",
    "$1 ~ /^a.*z$/",
    "$1 !~ /[0-9]+\\/tcp/",
    "$0 ~ /[^]]x/",
    "/a/,/b/",
    "{a[$1]++} END {for (k in a) print a[k], k}",
    "!seen[$0]++",
    "{s += $1} END {print s / NR}",
    '{s+=$1; n++} END{if (n > 0) printf "%.2f\\n", s/n}',
    '{print $1/1024 " MB"}',
    "{print (NR > 1)}",
    '{print(NR > 1 ? "a" : "b")}',
    '{if ($1 > 5) print $1; else print "-"}',
    "{ max = $1 > max ? $1 : max } END { print max }",
    'BEGIN {FS=":"; OFS="\\t"} {print $1, $3}',
    "BEGIN { while (i++ < 3) print i }",
    "BEGIN { do { i++ } while (i < 3); print i }",
    "{for (i = 1; i <= NF; i++) if ($i > 3) print $i}",
    '{gsub(/x/, "y"); print}',
    '{sub("a|b", "c > d"); print}',
    '{n = split($0, parts, ":"); print parts[n]}',
    "{print length($0)}",
    "length > 3",
    "{print toupper(substr($1, 1, 1)) tolower(substr($1, 2))}",
    '{printf "%s %d\\n", $1, $2}',
    '{printf("%s\\n", $1)}',
    "function f(x) { return x * 2 } { print f($1) }",
    '{print "a | b > c"}',
    '{print "system(1)"}',
    "/system/ {print}",
    "# a remark\n{print}",
    "{print $1 # a remark\n}",
    '{print > "/dev/stderr"}',
    '{printf "x\\n" > "/dev/stdout"; next}',
    "{delete a[1]; exit 1}",
    "$(NF-1) > 5 {print $(NF-1)}",
    "{x = a[1] / b / c; print x}",
    "{print -$1 ^ 2 % 3}",
    '{print index($0, "a"), match($0, /x/), RSTART}',
    'END{print NR; close("x")}',
    '{fflush(); print "é"}',
    "",
]
REFUSED = [
    ('BEGIN{system("id")}', "!The function 'system'"),
    ('BEGIN{system ("id")}', "!The function 'system'"),
    ('{print | "sh"}', "!A pipe"),
    ('{"id" | getline; print}', "!A pipe"),
    ('{"id" |& getline}', "!A pipe"),
    ('{getline x < "/etc/hosts"; print x}', "!The word 'getline'"),
    ("{while ((getline line) > 0) print line}", "!The word 'getline'"),
    ('{print > "out"}', "!It prints into a file."),
    ("{print $1 > $2}", "!It prints"),
    ('{print $1, $2 >> "out"}', "!It prints"),
    ('{printf "%s", $1 > "out"}', "!It prints"),
    ('{printf("%s", $1) > "out"}', "!It prints"),
    ('{print (1)(2) > "out"}', "!It prints"),
    ('{print(1, 2)>"out"}', "!It prints"),
    ('{print a,\n b > "out"}', "!It prints"),
    ("{print 1 > 2 ? 3 : 4}", "!It prints"),
    ('{if (x) print > "out"}', "!It prints"),
    ('{print > "/dev/stderr" "x"}', "!It prints"),
    ('{print >> "/dev/stderr"}', "!It prints"),
    ('{print > "/dev/tcp"}', "!It prints"),
    ('{print ENVIRON["HOME"]}', "?ENVIRON"),
    ('{print SYMTAB["ENVIRON"]}', "?SYMTAB"),
    ('BEGIN{ARGV[1] = "/etc/hosts"; ARGC = 2}', "ARGV"),
    ('@include "x"', "!An '@'"),
    ('@load "filefuncs"', "!An '@'"),
    ('{f = "system"; @f("id")}', "!An '@'"),
    ('BEGIN{x = "/inet/tcp/0/host/80"}', "!A file below"),
    ('BEGIN{stat("x", a)}', "The function 'stat'"),
    ('{if (x) /"/; system("id"); /"/}', "Not every awk"),
    ('{case / system("id") / 2}', "Not every awk"),
    ('{x++ / "/; system(1); "/ 1}', "Not every awk"),
    ('{length / "/; system(1); "/ 1}', "Not every awk"),
    ("$0 ~ /[/]/ ", "A slash in brackets"),
    ('$0 ~ /[/; system("id"); x ~ /]/', "A slash in brackets"),
    ("/open", "A regular expression does not end."),
    ('{print "open}', "What begins at"),
    ("{print \\\n1}", "A line that continues"),
    ("# remark\\\n{print}", "A comment that ends"),
    ("{print 'a'}", "What begins at"),
    ("{a = 1 & 2}", "What begins at"),
    ("{print $1)}", "A bracket is closed"),
    ('{awk::system("id")}', "!The function 'system'"),
    ('{1system("id")}', "!The function 'system'"),
    ('{0xsystem("id")}', "The function 'xsystem'"),
    ("é", "What begins at"),
]
_BAD = st.sampled_from(
    ["{system(1)}", "{getline}", "{print > x}", "{print | x}", "{print >> x}", "{x = ENVIRON[1]}"]
)


@every("text", PRINTS)
def test_a_program_that_only_prints_is_proven(text: str) -> None:
    assert awk(text) is None


@every(("text", "start"), REFUSED)
def test_anything_else_has_a_reason(text: str, start: str) -> None:
    reason = awk(text)
    assert reason is not None
    assert reason.startswith(start)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PRINTS), max_size=3), _BAD, st.lists(st.sampled_from(PRINTS)))
def test_what_runs_or_writes_is_found_between_others(
    before: list[str], bad: str, after: list[str]
) -> None:
    assert awk("\n".join([*before, bad, *after])) is not None


@pytest.mark.parametrize("text", PRINTS)
def test_every_awk_that_is_here_accepts_it_and_changes_nothing(
    text: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    programs = every_flavour("awk", tmp_path_factory)
    assert programs
    for program in programs:
        done = leaves_everything_as_it_was(tmp_path, [program, text, "input"])
        why = category_of(
            exit_code=done.returncode, outcome=Outcome.RAN, stderr=done.stderr.decode()
        )
        assert why is not FailureCategory.SYNTAX, (program, done.stderr)


_PIECES = st.sampled_from(
    [*'/"()[]{};>|,\n$1x=~!', "print", " ", "x", "if", "/a/", '"/"', "a[1]", "++", "in", "(1)"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_PIECES, max_size=10).map("".join))
def test_whatever_is_proven_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    if awk(text) is None:
        folder = tmp_path_factory.mktemp("awk")
        for program in every_flavour("awk", tmp_path_factory):
            leaves_everything_as_it_was(folder, [program, text, "input"])
