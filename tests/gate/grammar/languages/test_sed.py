"""sed: scripts that only change what is printed are proven, and the real sed agrees."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_sre.gate.grammar.languages.sed import check_sed
from tests.every import every
from tests.gate.grammar.languages.real import every_flavour, leaves_everything_as_it_was

PRINTS = [
    "p",
    "5p",
    "$p",
    "$=",
    "1,10p",
    "1~2p",
    "10,+3p",
    "2,~4d",
    "5q",
    "q 3",
    "3Q",
    "/error/p",
    "/error/Ip",
    "/start/,/end/p",
    "0,/x/d",
    "/a/!d",
    "1!G;h;$!d",
    "$!N;P;D",
    "n;d",
    "s/a/b/",
    "s/a/b/g",
    "s/a/b/2gp",
    "s/A/b/I",
    "s/a/b/;s/c/d/",
    "s|/usr/|/opt/|",
    "s,a,b,",
    "s#a#b#g",
    "s/\\//_/g",
    "s/\\(a\\)\\(b\\)/\\2\\1/",
    "s/a/x\\\ny/",
    "s/[[:space:]]*$//",
    "s/[^ ]* //",
    "s/[]x]/y/",
    "s/[^]x]/y/",
    "s/[\\/]/_/",
    "s/[^/]*$//",
    "s/.*[/]//",
    "s/^[^=]*=//",
    "y/abc/xyz/",
    "/^#/d;/^$/d",
    "/a/{s/b/c/;p}",
    "/a/ { n ; p }",
    ":a;N;$!ba;s/\\n/ /g",
    ":a\ns/x/y/\nta",
    "s/x/y/;t end;p;:end",
    "T;p",
    "l",
    "l 20",
    "$a the end",
    "1i\\\nfirst line",
    "2c\\changed",
    "a text with w and e; r",
    "# a remark\np",
    "\\,x,p",
    "\\|a/b|d",
    "x;p;x",
    "F;z",
    "p;",
    "",
    "s/é/e/",
]
REFUSED = [
    ("w out", "!The command 'w'"),
    ("$w/tmp/out", "!The command 'w'"),
    ("/a/w out", "!The command 'w'"),
    ("/a/{w out\n}", "!The command 'w'"),
    ("W out", "!The command 'W'"),
    ("p;w out", "!The command 'w'"),
    ("e", "!The command 'e'"),
    ("1e id", "!The command 'e'"),
    ("1!e id", "!The command 'e'"),
    ("r /etc/hosts", "The command 'r'"),
    ("R /etc/hosts", "The command 'R'"),
    ("s/a/b/e", "!The flag 'e'"),
    ("s/a/b/ge", "!The flag 'e'"),
    ("s/a/b/w out", "!The flag 'w'"),
    ("s/a/b/gw out", "!The flag 'w'"),
    ("1s|a|b|w out", "!The flag 'w'"),
    ("s/a/b/;s/c/d/e", "!The flag 'e'"),
    ("s/[/]/w/", "!The flag 'w'"),
    ("s/[/]/e/", "!The flag 'e'"),
    ("/[/]/w out/p", "The command"),
    ("s/a/b", "The command 's'"),
    ("s/a/b/z", "The command 's'"),
    ("s\na\nb\n", "The command 's'"),
    ("sxaxbx", "The command 's'"),
    ("y/a/b", "The command"),
    ("a", "The command"),
    ("a\nw out", "The command"),
    ("a text\nw out", "!The command 'w'"),
    ("i\\\ntext\ne id", "!The command 'e'"),
    ("# remark\nw out", "!The command 'w'"),
    ("# remark\\\nw out", "!The command 'w'"),
    (":a b;w out", "The command"),
    ("b a w out", "The command"),
    ("k", "The command 'k'"),
    ("p p", "The command"),
    ("a\\", "The script ends"),
    ("s/a/b\\", "The script ends"),
    ("p\rw out", "A control character"),
    ("p\x00", "A control character"),
    ("v 9;w out", "The command"),
    ("{p};w out", "!The command 'w'"),
    ("}w out", "The command"),
]
_BAD = st.sampled_from(["w out", "e id", "r x", "s/a/b/e", "s/a/b/w x", "R x", "W x", "1e", "$w x"])
# Scripts whose last command takes the rest of its line as text do not end at a semicolon.
_ENDED = [one for one in PRINTS if one[:2] not in ("$a", "1i", "2c", "a ", "# ")]


@every("text", PRINTS)
def test_a_script_that_only_prints_is_proven(text: str) -> None:
    assert check_sed(text) is None


@every(("text", "start"), REFUSED)
def test_anything_else_has_a_reason(text: str, start: str) -> None:
    reason = check_sed(text)
    assert reason is not None
    assert reason.startswith(start)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_ENDED), max_size=3), _BAD, st.lists(st.sampled_from(PRINTS)))
def test_a_command_that_writes_is_found_between_others(
    before: list[str], bad: str, after: list[str]
) -> None:
    assert check_sed("\n".join([*before, bad, *after])) is not None
    assert check_sed(";".join([*before, bad])) is not None


@pytest.mark.parametrize("text", PRINTS)
def test_every_sed_that_is_here_changes_nothing_and_that_of_gnu_accepts_it(
    text: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    programs = every_flavour("sed", tmp_path_factory)
    assert programs
    for program in programs:
        done = leaves_everything_as_it_was(tmp_path, [program, "-n", "-e", text, "input"])
        assert b"-e expression" not in done.stderr  # what GNU's says of an error; others know less


_LETTERS = st.sampled_from("s/[]^|w e;\n{}\\agp1,$!:btyix#")


@settings(max_examples=150, deadline=None)
@given(st.text(_LETTERS, max_size=14))
def test_whatever_is_proven_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    if check_sed(text) is None and not set("bt") & set(text):  # a branch may go on forever
        folder = tmp_path_factory.mktemp("sed")
        for program in every_flavour("sed", tmp_path_factory):
            leaves_everything_as_it_was(folder, [program, "-e", text, "input"])
