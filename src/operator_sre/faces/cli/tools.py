"""`operator tools`: typed actions, and one call of them, judged, permitted and recorded."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.exec import WaitOption, document, execute, foresee, patience
from operator_sre.faces.cli.options import JsonOption, ReasonOption, config_of, keep_quiet
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_protocols.domain.tool import Parameter
    from operator_sre.app.tools import Offered

__all__ = ["app"]

app = typer.Typer(help="List and call typed actions.", no_args_is_help=True)
DOCUMENT_BYTES_MAX = 4_000_000
SubjectOption = Annotated[str, typer.Option(help="The subject; this machine by default.")]


@app.callback()
def _noun() -> None:
    return None


@app.command("list")
def list_(context: typer.Context, subject: SubjectOption = "", as_json: JsonOption = False) -> None:
    """List tools with their risk and the policy's verdict."""
    from operator_sre.app.tools import list_tools
    from operator_sre.app.wiring import look_at_app

    with look_at_app(keep_quiet(config_of(context))) as open_home:
        found = list_tools(open_home, subject)
    if as_json:
        print_json({"tools": [tool.document for tool in found]})
        return
    rows = [
        (tool.spec.name, tool.spec.risk, tool.approval, tool.spec.source, tool.spec.sentence)
        for tool in found
    ]
    print_table(("tool", "risk", "approval", "source", "what it does"), rows)


@app.command()
def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The tool name.")],
    subject: SubjectOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show a tool: its arguments, risk and rollback."""
    from operator_sre.app.tools import show_tool
    from operator_sre.app.wiring import look_at_app

    with look_at_app(keep_quiet(config_of(context))) as open_home:
        found = show_tool(open_home, name, subject)
    if as_json:
        print_json({"tool": found.document})
        return
    print_lines([clean(line) for line in _describe(found)])


@app.command()
def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The tool name.")],
    arg: Annotated[
        list[str] | None,
        typer.Option("--arg", help="An argument as name=value; repeat for each item of a list."),
    ] = None,
    json_args: Annotated[
        str, typer.Option("--json-args", help="Read arguments from a JSON file; - is stdin.")
    ] = "",
    subject: Annotated[
        str, typer.Option(help="The subject it acts on; this machine by default.")
    ] = "",
    target: Annotated[str, typer.Option(help="The target within the subject.")] = "",
    reason: ReasonOption = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen, without running it.")
    ] = False,
    wait: WaitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Call a tool through the gate: validated, judged, permitted and recorded.

    The exit code is that of the tool; 124 on timeout, 2 if the arguments are invalid, 3 if the
    policy blocks it, 4 if it was not approved.
    """
    from operator_sre.app.tools import Call, call_document, propose_call
    from operator_sre.app.wiring import look_at_app

    config = keep_quiet(config_of(context))
    given = _document_at(json_args) if json_args else None
    call = Call(name, tuple(arg or ()), given, subject, target, reason)
    with look_at_app(config) as open_home:
        wanted = run_until_stopped(propose_call(open_home, call))
    if dry_run:
        foresee(config, wanted, (), as_json=as_json)
        return
    here = f" --home {shlex.quote(context.obj.home)}" if context.obj.home else ""
    executed = execute(config, wanted, (), here, live=not as_json, wait_s=patience(wait))
    if as_json:
        with look_at_app(config) as open_home:
            print_json({**document(executed), **call_document(open_home, executed)})
    raise typer.Exit(executed.exit_code)


def _document_at(place: str) -> Mapping[str, object]:
    try:
        if place == "-":
            data = sys.stdin.buffer.read(DOCUMENT_BYTES_MAX + 1)
        else:
            with Path(place).open("rb") as stream:
                data = stream.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as error:
        why = f"{place!r} cannot be read: {error.strerror or error}."
        raise UsageError(why, next_step="Name a file with --json-args.") from None
    step = 'It must be a JSON object such as {"service": "nginx"}.'
    if len(data) > DOCUMENT_BYTES_MAX:
        raise UsageError(f"The arguments are longer than {DOCUMENT_BYTES_MAX} bytes.")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError("The arguments are not JSON.", next_step=step) from None
    if not isinstance(found, dict):
        raise UsageError("The arguments are not a JSON object.", next_step=step)
    return found


def _describe(tool: Offered) -> list[str]:
    spec = tool.spec
    undo = f"with {spec.undo}" if spec.undo else "possible" if spec.reversible else "not possible"
    facts = (
        ("tool", spec.name),
        ("does", spec.sentence),
        ("source", spec.source),
        ("risk", f"{spec.risk}, approval: {tool.approval}"),
        ("changes", "something" if spec.changes else "nothing: it only looks"),
        ("undo", undo if spec.changes else ""),
        ("again", "may be tried again" if spec.idempotent else "is never tried again by itself"),
        ("expects", spec.expected),
        ("verify", spec.verify),
        ("limits", f"{spec.timeout_s:g} s"),
    )
    lines = [f"{name:9} {text}" for name, text in facts if text]
    return [*lines, *(f"  --arg {each.name}={_shape(each)}" for each in spec.parameters)]


def _shape(parameter: Parameter) -> str:
    low, high = parameter.minimum, parameter.maximum
    bounds = [f"from {low:.10g}"] if low is not None else []
    bounds += [f"up to {high:.10g}"] if high is not None else []
    notes = [
        "required" if parameter.required else f"default {parameter.default!r}",
        *([f"one of {', '.join(parameter.choices)}"] if parameter.choices else []),
        *([" ".join(bounds)] if bounds else []),
        *([f"the ticket's {parameter.infers} if missing"] if parameter.infers else []),
    ]
    return f"{parameter.type.upper()}  {parameter.sentence} ({'; '.join(notes)})"
