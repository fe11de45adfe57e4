"""What one step says gets into another's arguments as text, and never as code."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.workflow import Passed, Workflow, WorkflowStep
from operator_sre.executor.workflows.references import (
    PASSED_BYTES_MAX,
    SAMPLE,
    Reference,
    action_mistakes,
    insert_data,
    passed_on,
    references_of,
    with_samples,
)
from operator_sre.shell.holes import HOLE, line_trouble, quote, words_trouble
from tests.every import every

BASH = ("bash", "--norc", "--noprofile", "-c")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
REFERENCE = "${steps.a.stdout}"
MARK = "pwned"
HOSTILE = (
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    "x\\'; touch pwned; #",
    '"; touch pwned; "',
    '"$(touch pwned)"',
    "a[$(touch pwned)]",
    "\ntouch pwned\n",
    "; touch pwned",
    "| touch pwned",
    "&& touch pwned &&",
    ")) ; touch pwned ; ((",
    "}; touch pwned; {",
    "${x:-$(touch pwned)}",
    "$'\\n'touch pwned",
    "x' $(touch pwned) '",
    "\\",
    "'",
    "\\'$(touch pwned)\\'",
    "-rf",
    "~root",
    "*",
    "{touch,pwned}",
    "!!",
    "#",
    "2",
    "",
)
TEMPLATES = (
    f"printf '%s\\0' {REFERENCE}",
    f"printf '%s\\0' before-{REFERENCE}-behind",
    f"printf '%s\\0' {REFERENCE}{REFERENCE}",
    f"true && printf '%s\\0' a {REFERENCE} b",
    f"printf '%s\\0' x={REFERENCE} | cat",
    f"for one in {REFERENCE}; do printf '%s\\0' a; done",
)
# What a line may be made of; most of what comes out makes no sense, and some of it is dangerous.
PIECES = (
    *("echo ", "printf ", "printf -v ", "test ", "[ ", " ]", "[[ ", " ]]", "-v ", "-eq ", "let "),
    *("eval ", "read ", "declare ", "export ", "unset ", "source ", ". ", "trap ", "bash -c "),
    *("sh -c ", "env ", "command ", "exec ", "xargs ", "awk ", "sed ", "sed -e ", "python3 -c "),
    *("if ", "; then ", "; fi", "for i in ", "; do ", "; done", "case x in ", ") ", "; esac"),
    *("'", '"', "\\", "$", "`", "(", ")", "{", "}", " ", "  ", ";", "|", "&", "<", ">", "<<<", "#"),
    *("=", "x=", "~", "$(", "${x:-", "((", "))", "$((", "<<E\n", "\nE\n", "\n", "!", "*", "[", "]"),
    *("a", "EXIT ", "1", "x", "-", "/dev/null", REFERENCE, REFERENCE, REFERENCE, f" {REFERENCE}"),
)


def _bash(line: str, folder: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*BASH, line],
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )


def _filled(template: str, text: str) -> str:
    action = Action.shell(template)
    assert action_mistakes(action) == []
    made = insert_data(action, {"a": Passed(stdout=text)})
    assert isinstance(made, Action), made
    return made.command


@given(
    template=st.sampled_from(TEMPLATES),
    text=st.one_of(
        st.sampled_from(HOSTILE),
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40),
        st.lists(st.sampled_from(HOSTILE), max_size=3).map("".join),
    ),
)
@settings(max_examples=150, deadline=None)
def test_whatever_data_says_it_is_one_argument(template: str, text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = _bash(_filled(template, text), folder)
        plain = _bash(template.replace(REFERENCE, "DATA"), folder)
        assert done.stdout == plain.stdout.replace(b"DATA", text.encode())
        assert done.returncode == 0
        assert list(Path(folder).iterdir()) == []


@given(
    pieces=st.lists(st.sampled_from(PIECES), min_size=2, max_size=9), text=st.sampled_from(HOSTILE)
)
@settings(max_examples=300, deadline=None)
def test_a_line_in_which_data_could_be_code_is_refused(pieces: list[str], text: str) -> None:
    template = "".join(pieces) + (f" {REFERENCE}" if REFERENCE not in pieces else "")
    action = Action.shell(template)
    if action_mistakes(action):
        return
    made = insert_data(action, {"a": Passed(stdout=text)})
    if isinstance(made, str):
        return
    with tempfile.TemporaryDirectory() as folder:
        _bash(made.command, folder)
        assert not (Path(folder) / MARK).exists(), made.command


@every(
    ("line", "says"),
    [
        (f"echo '{HOLE}'", "inside quotes"),
        (f'echo "{HOLE}"', "inside quotes"),
        (f"echo \\{HOLE}", "backslash"),
        (f"echo ${HOLE}", "may be code"),
        (f"echo $(echo {HOLE})", "may be code"),
        (f"echo `echo {HOLE}`", "may be code"),
        (f"cat <<E\n{HOLE}\nE", "may be code"),
        (f"echo {{a,{HOLE}}}", "braces"),
        (f"echo x # {HOLE}", "comment"),
        (HOLE, "name of the program"),
        (f"x={HOLE} ls", "variable"),
        (f"$CMD {HOLE}", "is known only at run time"),
        (f"eval {HOLE}", "as code"),
        (f"true; bash -c {HOLE}", "as code"),
        (f"env FOO=1 bash -c {HOLE}", "as code"),
        (f"env -S {HOLE}", "as code"),
        (f"ssh host {HOLE}", "as code"),
        (f"let {HOLE}", "as code"),
        (f"[[ {HOLE} -eq 1 ]]", "as code"),
        (f"printf -v {HOLE} x", "name of a variable"),
        (f"python3 -c {HOLE}", "as code"),
        (f"awk {HOLE} f", "as code"),
        (f"sed -e {HOLE} f", "as code"),
        (f"echo 'x {HOLE}", "inside quotes"),
        ("echo 'x", "not closed"),
        (f"if {HOLE}; then ls; fi", "name of the program"),
    ],
)
def test_places_where_data_would_be_code(line: str, says: str) -> None:
    assert says in line_trouble(line)


@pytest.mark.parametrize(
    "line",
    [
        f"ls -l {HOLE}",
        f"kubectl logs --tail={HOLE} pod/{HOLE}",
        f"awk '{{print $1}}' {HOLE}",
        f"awk -v x={HOLE} '{{print x}}'",
        f"python3 script.py {HOLE}",
        f'echo \'a "b"\' "c d" {HOLE} > /dev/null 2>&1',
        f"(cd / && ls {HOLE})",
        f"if true; then echo {HOLE}; fi",
        "echo nothing",
    ],
)
def test_places_where_data_is_an_argument(line: str) -> None:
    assert line_trouble(line) == ""


def test_words_without_a_shell_take_data_anywhere_but_first() -> None:
    assert words_trouble(["echo", f"a'{HOLE}\"b"]) == ""
    assert "name of the program" in words_trouble([HOLE, "x"])
    assert "as code" in words_trouble(["bash", "-c", f"echo {HOLE}"])
    assert words_trouble([]) != ""


def test_a_quote_is_a_quote_even_where_none_is_needed() -> None:
    assert quote("2") == "'2'"
    assert quote("it's") == "'it'\"'\"'s'"


def test_an_argument_that_is_nothing_but_a_reference_keeps_its_type() -> None:
    wanted: dict[str, Argument] = {
        "code": "${steps.a.exit_code}",
        "pid": "${steps.a.data.pid}",
        "text": "pid ${steps.a.data.pid}",
        "words": ("x", "${steps.a.stdout}"),
        "table": {"k": "${steps.a.stdout}"},
        "plain": 7,
    }
    action = Action("tool", wanted, target="${steps.a.stdout}")
    names = ["stdout", "exit_code", "data.pid", "data.pid", "stdout", "stdout"]
    assert [one.name for one in references_of(action)] == names
    made = insert_data(action, {"a": Passed(stdout="node-1", exit_code=3, data={"pid": 42})})
    assert isinstance(made, Action)
    assert made.target == "node-1"
    assert made.arguments == {
        "code": 3,
        "pid": 42,
        "text": "pid 42",
        "words": ("x", "node-1"),
        "table": {"k": "node-1"},
        "plain": 7,
    }


def test_a_program_without_a_shell_gets_text_as_it_is() -> None:
    action = Action.program(["echo", f"<{REFERENCE}>"])
    made = insert_data(action, {"a": Passed(stdout="$(x) '")})
    assert isinstance(made, Action)
    assert made.argv == ("echo", "<$(x) '>")


def test_what_was_never_said_is_not_made_up() -> None:
    action = Action.shell("echo ${steps.a.data.pid}")
    assert insert_data(action, {"a": Passed()}) == "step 'a' has no data.pid to pass on."
    assert insert_data(action, {}) == "step 'a' has no data.pid to pass on."
    nul = insert_data(Action.shell(f"echo {REFERENCE}"), {"a": Passed(stdout="a\0b")})
    assert isinstance(nul, str)
    assert "NUL" in nul


def test_a_reference_that_is_none_is_a_mistake() -> None:
    for bad in ("${steps.a}", "${steps.a.output}", "${ steps.a.stdout }", "${steps..stdout}"):
        (mistake,) = action_mistakes(Action.shell(f"echo {bad}"))
        assert "not a valid reference" in mistake
    assert action_mistakes(Action.shell("echo \0")) == ["it contains a NUL byte"]


def test_an_action_is_looked_at_with_a_harmless_word() -> None:
    assert with_samples(Action.shell(f"echo {REFERENCE}")).command == f"echo '{SAMPLE}'"
    untouched = Action.shell("echo $HOME")
    assert with_samples(untouched) is untouched
    assert Reference("a", "exit_code", "").value_of(Passed(exit_code=0)) == 0


def _workflow(command: str) -> Workflow:
    first, second = Action.shell("ls"), Action.shell(command)
    return Workflow("w", (WorkflowStep("a", first), WorkflowStep("b", second, ("a",))))


def test_only_what_is_asked_for_is_passed_on() -> None:
    result = Result(Outcome.RAN, 0, "out\n\n", "err\n", data={"pid": 1, "other": 2})
    nothing = passed_on(_workflow("ls"), "a", result)
    assert nothing == Passed()
    both = passed_on(_workflow("echo ${steps.a.stdout} ${steps.a.data.pid}"), "a", result)
    assert both == Passed(stdout="out", data={"pid": 1})


def test_what_was_cut_or_is_too_large_is_not_passed_on() -> None:
    workflow = _workflow(f"echo {REFERENCE}")
    cut = passed_on(workflow, "a", Result(Outcome.RAN, 0, "x", truncated=True))
    large = passed_on(workflow, "a", Result(Outcome.RAN, 0, "x" * (PASSED_BYTES_MAX + 1)))
    assert "truncated" in str(cut)
    assert str(PASSED_BYTES_MAX) in str(large)
