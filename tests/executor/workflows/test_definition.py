"""A definition becomes a workflow, or all that is wrong with it is told with its place."""

from __future__ import annotations

import json
import re

from operator_protocols.domain.action import Urgency
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.domain.workflow import Workflow
from operator_sre.executor.workflows import Mistake, read_workflow
from operator_sre.executor.workflows.definition import (
    FILE_BYTES_MAX,
    STEPS_MAX,
    Document,
    parse_document,
)
from tests.every import every

RESTART = ToolSpec(
    "restart_node",
    "It restarts.",
    (
        Parameter("target", "a node", infers="target"),
        Parameter("grace_s", "how long", ParameterType.INTEGER, required=False),
    ),
    Risk.MEDIUM,
    changes=True,
    timeout_s=77.0,
)
WHOLE = """
name: drain and restart
subject: shop
steps:
  - id: look
    command: cat /srv/node
    retry: false
  - id: restart
    tool: restart_node
    arguments: {target: "${steps.look.stdout}", grace_s: 5}
    reason: it leaks
    urgency: immediate
    retry: 2
    undo: {argv: [echo, "${steps.look.stdout}"]}
  - id: check
    argv: [curl, -s, "http://127.0.0.1/${steps.look.stdout}"]
    depends_on: [restart]
    cwd: /srv
    timeout_s: 30
"""


def _read(text: str) -> Workflow | tuple[Mistake, ...]:
    return read_workflow(text, [RESTART])


def _mistakes(text: str) -> list[str]:
    found = _read(text)
    assert isinstance(found, tuple), found
    return [str(one) for one in found]


def _steps(*lines: str) -> str:
    return "name: x\nsteps:\n" + "".join(f"  - {{{line}}}\n" for line in lines)


def test_a_definition_becomes_a_workflow() -> None:
    workflow = _read(WHOLE)
    assert isinstance(workflow, Workflow)
    assert (workflow.name, workflow.subject) == ("drain and restart", "shop")
    look, restart, check = workflow.steps
    assert (look.depends_on, look.attempts_max, look.action.cwd) == ((), 1, "/")
    # Whoever wants to know what a step said waits for it.
    assert (restart.depends_on, restart.attempts_max) == (("look",), 2)
    assert (restart.action.timeout_s, restart.action.urgency) == (77.0, Urgency.IMMEDIATE)
    assert restart.undo is not None
    assert restart.undo.argv == ("echo", "${steps.look.stdout}")
    assert check.depends_on == ("restart", "look")
    assert (check.action.cwd, check.action.timeout_s, check.attempts_max) == ("/srv", 30.0, 0)


def test_json_and_a_dict_are_definitions_too() -> None:
    table = {"name": "x", "steps": [{"id": "a", "command": "ls", "retry": True}]}
    first, second = read_workflow(table, []), _read(json.dumps(table))
    assert first == second
    assert isinstance(first, Workflow)
    assert first.steps[0].attempts_max == 3


def test_all_mistakes_are_told_at_once_in_their_order() -> None:
    text = """name: x
steps:
  - id: a
    command: echo ${steps.c.stdout}
    depends_on: [b]
  - id: b
    comand: ls
    depends_on: [a]
  - id: b
    tool: restart_nod
  - id: d
    tool: restart_node
    arguments: {grace_s: "5", colour: red}
"""
    told = _mistakes(text)
    assert all(re.match(r"line \d+, ", one) for one in told)
    for line, says in (
        (4, "there is no step 'c'"),
        (5, "steps depend on each other: a -> b -> a"),
        (7, "is not a known key; did you mean 'command'?"),
        (9, "'b' is given twice"),
        (10, "there is no tool 'restart_nod'; did you mean 'restart_node'?"),
        (13, "'colour' is not a parameter"),
        (13, "'grace_s' must be an integer"),
        (13, "'target' is missing"),
    ):
        assert any(says in one for one in told), (says, told)
        lines = [int(one.split()[1].rstrip(",")) for one in told if says in one]
        assert all(abs(found - line) <= 2 for found in lines), (says, lines)
    assert [one.split()[1] for one in told] == sorted((one.split()[1] for one in told), key=_number)


def _number(text: str) -> int:
    return int(text.rstrip(","))


@every(
    ("text", "says"),
    [
        ("", "must be a table"),
        ("[]", "must be a table"),
        ("name: x", "at least one step"),
        ("name: x\nsteps: 7", "must be a list"),
        ("name: 'a/b'\nsteps: [{id: a, command: ls}]", "up to 64 letters"),
        ("steps: [{id: a, command: ls}]", "is missing"),
        (_steps("id: '../x', command: ls"), "up to 40 letters"),
        (_steps("id: a, command: ls, argv: [ls]"), "exactly one of"),
        (_steps("id: a"), "exactly one of"),
        (_steps("id: a, command: ''"), "is empty"),
        (_steps("id: a, argv: []"), "start with a program"),
        (_steps("id: a, argv: [1]"), "must be a string"),
        (_steps("id: a, command: ls, arguments: {x: 1}"), "belong to a tool"),
        (_steps("id: a, command: ls, cwd: here"), "absolute path"),
        (_steps("id: a, command: ls, timeout_s: 601"), "at most 600"),
        (_steps("id: a, command: ls, timeout_s: true"), "at most 600"),
        (_steps("id: a, command: ls, retry: 11"), "from 1 to 10"),
        (_steps("id: a, command: ls, urgency: now"), "must be one of"),
        (_steps("id: a, command: ls, depends_on: [a]"), "a -> a"),
        (_steps("id: a, command: 'echo ${steps.a.stdout}'"), "a -> a"),
        (_steps("id: a, command: 'echo ${steps.b}'"), "is not a valid reference"),
        (_steps("id: a, command: ls", "id: b, command: 'echo \"${steps.a.stdout}\"'"), "quotes"),
        (
            _steps(
                "id: a, command: ls, undo: {command: 'echo ${steps.b.stdout}'}",
                "id: b, command: ls",
            ),
            "does not depend on",
        ),
        (_steps("id: a, command: ls, undo: {id: b, command: ls}"), "is not a known key"),
        ("name: &n x\nsteps: [{id: *n, command: ls}]", "alias"),
        ("name: x\nname: y", "is given twice"),
        ("name: [", "cannot be read"),
        ("name: \0", "cannot be read"),
        ("[" * 40 + "]" * 40, "nested deeper"),
        ("#" * (FILE_BYTES_MAX + 1), "larger than 256 kB"),
        (_steps(*(f"id: s{n}, command: ls" for n in range(STEPS_MAX + 1))), "at most 100"),
    ],
)
def test_a_bad_definition_is_told_in_a_sentence(text: str, says: str) -> None:
    told = _mistakes(text)
    assert any(says in one for one in told), told


def test_an_undo_may_say_what_its_own_step_said() -> None:
    text = _steps("id: a, command: ls, undo: {argv: [echo, '${steps.a.stdout}']}")
    assert isinstance(_read(text), Workflow)


def test_a_hundred_steps_are_fine() -> None:
    text = _steps(*(f"id: s{n}, command: ls" for n in range(STEPS_MAX)))
    assert isinstance(_read(text), Workflow)


def test_a_document_knows_its_lines() -> None:
    document = parse_document("a:\n  - b: 1\n    c: x\n")
    assert document.value == {"a": [{"b": 1, "c": "x"}]}
    assert document.line_of("a[0].c") == 3
    assert document.line_of("a[0].nothing") == 2
    assert Document(1).line_of("x") == 0
    assert str(Mistake("", "is wrong")) == "the definition: is wrong"
