"""The closed part of the shell's language is read as a real shell reads it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operator_sre.shell.line import ASSIGNMENT, COMMAND_BYTES_MAX, one_command, parse
from operator_sre.shell.words import (
    Building,
    Redirect,
    Script,
    Word,
    fill_mark,
    is_bland,
    texts_of,
)
from tests.every import every
from tests.measuring import GROWTH_MAX, TIMES, growth

BASH = shutil.which("bash")


def argvs(script: Script) -> list[tuple[str, ...]]:
    """The words of every command."""
    return [one.argv for one in script.commands]


UNDERSTOOD = [
    ("ls -la /var/log", [("ls", "-la", "/var/log")]),
    ("  ls  ", [("ls",)]),
    ("a 'b c' \"d e\" f\\ g", [("a", "b c", "d e", "f g")]),
    ("a '' \"\"", [("a", "", "")]),
    ("a b \\\n c d", [("a", "b", "c", "d")]),
    ('a "x\\"y\\$z\\w"', [("a", 'x"y$z\\w')]),
    ("a; b && c || d", [("a",), ("b",), ("c",), ("d",)]),
    ("a | b |& c", [("a",), ("b",), ("c",)]),
    ("a\nb", [("a",), ("b",)]),
    ("! a", [("a",)]),
    ("time a b", [("a", "b")]),
    ("(a; b) | c", [("a",), ("b",), ("c",)]),
    ('a "$(b c)"', [("b", "c"), ("a", "$()")]),
    ("a <(b) <(c)", [("b",), ("c",), ("a", "/dev/fd/63", "/dev/fd/63")]),
    ("for x in 1 2; do a $x; done", [("a", "1"), ("a", "2")]),
    ("for x in 1 2; do a p$x | b; done", [("a", "p1"), ("a", "p2"), ("b",)]),
    ("a 2>/dev/null >&2 <x", [("a",)]),
    ("a 2 >x", [("a", "2")]),
    ("a# b", [("a#", "b")]),
    ("a ~/x $", [("a", "~/x", "$")]),
    ("a {} {x}", [("a", "{}", "{x}")]),
    ("a 5$", [("a", "5$")]),
    ("[ -f x ]", [("[", "-f", "x", "]")]),
    ("LC_ALL=C a", [("a",)]),
    ("'A=b' c", [("A=b", "c")]),
]

NOT_UNDERSTOOD = [
    *("", "   ", "a &", "a & b", "# a", "a # b", "a `b`", 'a "`b`"', "a $'b'", 'a $"b"'),
    *("a ${b:-c}", "a ${b@P}", "a $((1))", "a {b,c}", "a {1..3}", "f() { a; }", "f(){ a;}; f"),
    *("if a; then b", "if a; b; fi", "then a", "fi", "if a; else b; fi", "while a; do b; done"),
    *("case a in b) c;; esac", "{ a;", "{ a }", "}", "[[ a", "[[ a < b ]]", "[[ $a -eq 1 ]]"),
    *("[[ b[$(id)] -gt 1 ]]", "a | { b; }", "a | if b; then c; fi", "if a; then b; fi < c"),
    *(
        "x=1 if a; then b; fi",
        ">y if a; then b; fi",
        "until a; do b; done",
        "while read A; do b; done",
    ),
    *(
        "while read a; b; do c; done",
        "while read -p x a; do b; done",
        "do a; done",
        "done",
        "else a",
    ),
    *("for x in {1..99}; do a; done", "for x in $(seq 1 99); do a; done", "$(if a; then b)"),
    *("a <<E\nb\nE", "a <<-E\nb\nE", "coproc a", "select x in a; do b; done", "((a))", "a=(b c)"),
    *("a 'b", 'a "b', "a \\", "a\x00b", "a\rb", "a\x1bb", "а b", "ｌs", "a \u200bb", "a$@", "a $1"),
    *("a $(b", "(a", "a)", "for x in *; do a; done", "for x in $y; do a; done", "a >(b)", "a;;b"),
    *(
        "for x; do a; done",
        "function f { a; }",
        "a $(b $(c $(d $(e $(f $(g))))))",
        "<(a)",
        "a<(b)c",
    ),
    *(
        "a b\\\nc",
        "a $\\\n(b)",
        'a "$\\\n(b)"',
        "a &\\\n& b",
        "a >",
        "(a) b",
        "until a; do b; done",
        "a $*",
        "a $!",
        "x" * (COMMAND_BYTES_MAX + 1),
    ),
]


@every(("line", "expected"), UNDERSTOOD)
def test_what_is_understood_is_read_exactly(line: str, expected: list[tuple[str, ...]]) -> None:
    script = parse(line)
    assert not script.trouble
    assert argvs(script) == expected


@every("line", NOT_UNDERSTOOD)
def test_what_lies_outside_is_named_as_trouble(line: str) -> None:
    assert parse(line).trouble


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ("if a; then rm x; fi", "rm"),
        ("echo `rm x`", "rm"),
        ('echo "`rm x`"', "rm"),
        ("f() { rm x; }; f", "rm"),
        ("a & rm x", "rm"),
        ("a $(b $(rm x))", "rm"),
        ("while a; do rm x; done", "rm"),
        ("cat <<E\nhello\nE\nrm x", "rm"),
        ("case a in b) rm x;; esac", "rm"),
    ],
)
def test_commands_inside_of_something_strange_are_still_found(line: str, hidden: str) -> None:
    assert hidden in {argv[0] for argv in argvs(parse(line)) if argv}


def test_words_know_what_is_unknown_of_them() -> None:
    words = parse('a "$X" $X *.log "*.log" $(id -u) ~/x').commands[-1].words
    assert [(one.opaque, one.splits, one.glob, one.bland) for one in words[1:]] == [
        (True, False, False, False),
        (True, True, False, False),
        (False, False, True, False),
        (False, False, False, False),
        (True, True, False, True),
        (False, False, False, False),
    ]


def test_a_command_that_is_being_read_knows_if_it_only_tells() -> None:
    building = Building()
    building.words = [Word("echo"), Word("x")]
    assert building.only_tells()
    assert building.build().argv == ("echo", "x")


def test_a_loop_changes_nothing_but_its_words() -> None:
    one, *_ = parse("for i in 1; do a | sh p$i; done").commands[1:]
    assert (one.argv, one.piped) == (("sh", "p1"), True)
    kept = fill_mark(one, "p", "q")
    assert (kept.argv, kept.piped, texts_of(kept)) == (("sh", "q1"), True, ["sh", "q1"])


def test_output_that_cannot_be_chosen_is_bland() -> None:
    def bland(line: str) -> bool:
        return is_bland(parse(line).commands[-1])

    assert bland("id -u")
    assert bland("date +%s")
    assert not bland("date +/etc/shadow")
    assert not bland("echo 1")


def test_redirections_keep_their_numbers() -> None:
    found = parse("a 2>x >>y <z 2>&1 &>w >|v").commands[0].redirects
    assert found[0] == Redirect(">", Word("x", bare=True), "2")
    assert [(one.descriptor, one.operator, one.word.text) for one in found] == [
        ("2", ">", "x"),
        ("", ">>", "y"),
        ("", "<", "z"),
        ("2", ">&", "1"),
        ("", "&>", "w"),
        ("", ">|", "v"),
    ]


@given(st.text(max_size=300))
def test_any_text_is_commands_or_trouble(text: str) -> None:
    script = parse(text)
    assert script.commands or script.trouble


HOSTILE = ["a|", "<<a ", "$(", '"$(', "`", "{a,", "'", "\\\n", "(", "((", "a;", "for x in ", "$x"]


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_grows_no_faster_than_the_text(piece: str) -> None:
    def read(size: int) -> None:
        parse((piece * size)[:size])

    assert growth(read, COMMAND_BYTES_MAX // TIMES) <= GROWTH_MAX
    # Beyond the limit only a beginning is read, so that more text takes no more time.
    assert growth(read, 30_000) <= GROWTH_MAX


plain = st.text("abcxyz019_@%+=:,./-", min_size=1, max_size=5).filter(
    lambda text: not text.startswith("=") and text not in ("do", "for")
)
inner = st.text("abc xyz;|&<>()#*?[]{}~!=/-é\t", max_size=6)
piece = st.one_of(
    plain,
    inner.map(lambda text: f"'{text}'"),
    inner.map(lambda text: f'"{text}"'),
    st.sampled_from(["\\ ", "\\$", "\\'", '\\"', "\\;", "\\\\", "\\\n", "~x", "!", "^", "]", "a#"]),
    st.sampled_from(['"a\\"b"', '"\\$x"', '"\\\\"', '"\\a"', "'$x'", '"$"', "$"]),
)
word = st.lists(piece, min_size=1, max_size=3).map("".join)
command = st.lists(word, max_size=4).map(lambda words: " ".join(["p", *words]))
line = st.lists(command, min_size=1, max_size=3).flatmap(
    lambda commands: st.sampled_from([" ; ", " && ", "\n", ";"]).map(
        lambda between: between.join(commands)
    )
)


@pytest.mark.skipif(BASH is None, reason="there is no bash on this machine")
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(line, min_size=8, max_size=8))
def test_a_real_shell_sees_the_same_words(tmp_path: Path, lines: list[str]) -> None:
    understood = [one for one in lines if _is_known(parse(one))]
    # `p` shows its arguments; nothing else is ever run.
    show = "p() { printf '%s\\0' p \"$@\"; printf '\\1\\0'; }\nset -f\n"
    script = show + "".join(f"{one}\nprintf '\\2\\0'\n" for one in understood)
    assert BASH is not None
    done = subprocess.run(
        [BASH, "--norc", "--noprofile", "-c", script],
        capture_output=True,
        cwd=tmp_path,
        env={"PATH": "/nonexistent", "HOME": "/h", "LC_ALL": "C.UTF-8"},
        timeout=20,
    )
    seen = [
        [tuple(argv.split("\0")[:-1]) for argv in part.split("\1\0")[:-1]]
        for part in done.stdout.decode().split("\2\0")[:-1]
    ]
    ours = [argvs(parse(one)) for one in understood]
    assert [_homes(one) for one in seen] == [_homes(one) for one in ours], done.stderr


def _is_known(script: Script) -> bool:
    words = [word for one in script.commands for word in one.words]
    return not script.trouble and not any(word.opaque for word in words)


def _homes(commands: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """A tilde is left as it is here and replaced by the shell where somebody has that name."""
    return [tuple(word for word in argv if not word.startswith(("~", "/"))) for argv in commands]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mkdir -p 'a b'", ("mkdir", "-p", "a b")),
        ("mkdir a; touch b", None),
        ("mkdir a | cat", None),
        ("mkdir $X", None),
        ("mkdir *", None),
        ("mkdir a > b", None),
        ("A=b mkdir a", None),
        ("mkdir $(id)", None),
        ("", None),
    ],
)
def test_one_plain_command_is_told_from_everything_else(
    line: str, words: tuple[str, ...] | None
) -> None:
    assert one_command(line) == words


def test_an_assignment_is_a_plain_name_with_an_equals_sign() -> None:
    names = {"A=1": "A", "_x+=y": "_x", "a1=": "a1", "1a=x": "", "a-b=x": "", "A": "", "a b=c": ""}
    for text, name in names.items():
        found = ASSIGNMENT.match(text)
        assert (found[1] if found else "") == name, text
