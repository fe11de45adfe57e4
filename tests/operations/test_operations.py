"""Every operation is declared once, and what is declared is true of the function that it calls."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, get_args

import msgspec
import pytest
import typer
from msgspec import Meta

from operator_protocols.domain.token import Role
from operator_sre.contract.schemas import Maybe, document_schema
from operator_sre.faces.cli.contents import NOUNS as COMMANDS
from operator_sre.faces.cli.main import command_line
from operator_sre.faces.cli.noun import command_of
from operator_sre.faces.mcp.tools import TOOLS
from operator_sre.operations import NOUNS, all_operations, operations_of
from operator_sre.operations.documents import DOCUMENTS, LOCAL_COMMANDS
from operator_sre.operations.operation import (
    ENVELOPE,
    Effect,
    Face,
    Local,
    Operation,
    Place,
    Request,
    Route,
    Tool,
    facts,
    struct_for,
)
from operator_sre.operations.silences import ListSilences, SilenceList
from tests.every import every
from tests.faces.cli.tree import run_here

OPERATIONS = tuple(all_operations())
LIST = next(one for one in OPERATIONS if one.name == "silences list")


def _spread(
    parameter: inspect.Parameter, function: Callable[..., object]
) -> list[inspect.Parameter]:
    """The parameters that `**where: Unpack[...]` stands for; any other parameter as it is."""
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
        return [parameter]
    name = str(parameter.annotation).removeprefix("Unpack[").removesuffix("]")
    fields = getattr(import_module(function.__module__), name).__annotations__
    return [
        parameter.replace(
            name=field,
            kind=inspect.Parameter.KEYWORD_ONLY,
            annotation=reference.__forward_arg__,
            default=None,
        )
        for field, reference in fields.items()
    ]


@every("operation", OPERATIONS)
def test_the_function_of_an_operation_takes_what_its_request_has(operation: Operation) -> None:
    asked = (operation.confirmation, operation.question)
    for dotted in (operation.call, *filter(None, asked)):
        module, _, name = dotted.rpartition(".")
        function = getattr(import_module(module), name)
        parameters = [*inspect.signature(function).parameters.values()]
        if operation.opens != "nothing":
            home = parameters.pop(0)
            assert home.name in {"home": ("app", "home"), "settings": ("config",)}[operation.opens]
        parameters = [each for one in parameters for each in _spread(one, function)]
        given = {one.name for one in operation.parameters}
        assert given <= {one.name for one in parameters}, dotted
        needed = {one.name for one in parameters if one.default is inspect.Parameter.empty}
        more = {"tell"} if operation.live and dotted == operation.call else set()
        if operation.counted and dotted == operation.call:
            more.add("progress")
        if operation.question and dotted == operation.call:
            assert "agreed" in needed, "what was agreed to has to be compared"
            more.add("agreed")
        assert needed <= given | dict(operation.fixed).keys() | more, dotted
        kinds = {one.name: one.annotation for one in parameters}
        for one in operation.parameters:
            if not one.many and one.enum is None:
                # Python 3.13 names the module of a path `pathlib._local`.
                text = re.sub(r"\bpathlib\.(_local\.)?", "", str(one.kind))
                wanted = getattr(one.kind, "__name__", text)
                assert kinds[one.name] == wanted, (dotted, one.name)


@every("operation", OPERATIONS)
def test_every_parameter_is_described_and_every_text_is_bounded(operation: Operation) -> None:
    for one in operation.parameters:
        assert one.meta.description, one.name
        if one.kind is str:
            assert one.meta.max_length, one.name
        if one.kind is int:
            assert one.meta.le, one.name
    assert set(operation.arguments) <= {one.name for one in operation.parameters}
    assert operation.summary.endswith(".")
    for printed in operation.printed:
        assert not set(ENVELOPE) & set(printed)
        assert "schema_version" in document_schema(operation.name, printed)["required"]
    assert not operation.looks or operation.looks in {one.name for one in operation.parameters}


@every(("name", "example"), [(one.name, text) for one in OPERATIONS for text in one.examples])
def test_every_example_is_a_line_that_parses(name: str, example: str) -> None:
    command, *words = shlex.split(example)
    assert command == "operator"
    assert example.startswith(f"operator {name}")
    found = typer.main.get_command(command_line(words[:1]))
    while commands := getattr(found, "commands", None):
        found, words = commands[words[0]], words[1:]
    assert found.make_context(name, words).params["as_json"] is False


def test_an_answer_of_a_shape_of_its_own_has_a_schema_of_it() -> None:
    explained = next(one for one in OPERATIONS if one.name == "policy explain")
    rule, command = explained.printed
    assert isinstance(rule["rule"]["match"], Maybe)
    assert command["parts"] == [{"command": str, "rules": [str]}]
    assert "lines" not in command


def test_every_noun_of_operations_is_a_noun_of_the_command_line() -> None:
    for module in NOUNS:
        names = [one.name.partition(" ") for one in operations_of(module)]
        assert names, module
        assert all(noun == module or not verb for noun, _, verb in names)
        places = {COMMANDS[noun].rpartition(".")[2] for noun, _, _ in names}
        assert places == {module.replace("-", "_")}


def test_a_command_without_an_operation_beside_operations_says_why() -> None:
    own = {one.name for one in all_operations()}
    commands = {name for name in DOCUMENTS if name.partition(" ")[0] in ("hub", "secrets", "store")}
    assert commands - own == {*LOCAL_COMMANDS}


def test_no_tool_that_is_derived_decides_or_changes() -> None:
    derived = [one for one in OPERATIONS if one.tool]
    assert {one.tool.name for one in derived if one.tool} <= set(TOOLS)
    assert {one.effect for one in derived} <= {Effect.READ, Effect.PROPOSE}
    assert all(TOOLS[one.tool.name].role is one.role for one in derived if one.tool)


@pytest.mark.parametrize(
    "more",
    [
        {"effect": Effect.DECIDE, "role": Role.APPROVER, "tool": Tool("x", "X", "X.")},
        {"effect": Effect.CHANGE, "role": Role.ADMIN, "tool": Tool("x", "X", "X.")},
        {"effect": Effect.CHANGE, "role": Role.ADMIN, "place": Place("X", "/x", "x")},
        {"effect": Effect.CHANGE, "route": Route("POST", "/v1/x", "x")},
        {"local": Local.FILES, "route": Route("GET", "/v1/x", "x")},
        {"local": Local.FILES, "tool": Tool("x", "X", "X.")},
        {"opens": "settings", "route": Route("GET", "/v1/x", "x")},
        {"each": True, "route": Route("GET", "/v1/x", "x")},
        {"each": True},
    ],
)
def test_a_declaration_that_gives_away_too_much_is_refused(more: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^x: "):
        Operation(
            **{  # type: ignore[arg-type]
                "name": "x",
                "help": "X.",
                "request": ListSilences,
                "result": SilenceList,
                "call": LIST.call,
                "view": LIST.view,
                **more,
            }
        )


def test_a_command_has_the_options_that_its_request_declares() -> None:
    class Many(Request, frozen=True, kw_only=True):
        """Parameters of several kinds."""

        name: str
        states: tuple[Effect, ...] = ()
        effect: Effect | None = None
        limit: int = 3

    made = Operation(
        name="silences list",
        help="X.",
        request=Many,
        result=SilenceList,
        call=LIST.call,
        view=LIST.view,
        arguments=("name",),
    )
    signature = inspect.signature(command_of(made))
    assert list(signature.parameters) == [
        *("context", "name", "states", "effect", "limit", "as_json")
    ]
    assert signature.parameters["states"].default is None
    assert signature.parameters["effect"].default == ""
    assert made.parameters[1].enum is Effect


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--role", "root"], "There is no role 'root'. Roles: viewer, approver, admin."),
        (["--for", "cron"], "There is no audience 'cron'. Audiences: api, mcp, web."),
    ],
)
def test_a_word_that_is_none_of_the_choices_is_refused(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    done = run_here(capsys, ["tokens", "create", "x", *words, "--home", str(tmp_path / "home")])
    assert (done.code, done.err) == (2, f"operator: {sentence}\n")
    assert not (tmp_path / "home").exists()


def test_a_parameter_has_the_limits_of_its_face() -> None:
    class Faces(Request, frozen=True, kw_only=True):
        """A parameter that is not the same everywhere."""

        name: Annotated[
            str, Meta(max_length=9, extra={"api": Meta(max_length=3), "mcp": False, "query": "q"})
        ]

    made = Operation(
        name="silences list",
        help="X.",
        request=Faces,
        result=SilenceList,
        call=LIST.call,
        view=LIST.view,
    )
    (one,) = made.parameters
    assert one.query == "q"
    metas = [one.meta_for(face) for face in get_args(Face)]
    assert [meta and meta.max_length for meta in metas] == [3, 9, None]
    assert struct_for("mcp", "X", made, ["name"]).__struct_fields__ == ()
    with pytest.raises(msgspec.ValidationError, match="length <= 3"):
        msgspec.convert({"name": "four"}, struct_for("api", "X", made, ["name"]))


def test_facts_stand_below_each_other() -> None:
    found = facts([("request", "a1"), ("answer", ""), ("expects", "one\ntwo"), ("", "more")])
    assert found == ["request   a1", "expects   one", "          two", "          more"]
