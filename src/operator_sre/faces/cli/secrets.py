"""`operator secrets`: encrypted secrets and their bindings."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.consent import ProposeOption, YesOption, confirm, cross_boundary
from operator_sre.faces.cli.options import JsonOption, config_of, keep_quiet, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_list, print_table
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_sre.app.secrets import SecretView

__all__ = ["app"]

app = typer.Typer(
    help="Store encrypted secrets and bind them to what needs them.", no_args_is_help=True
)
READ_BYTES_MAX = (1 << 16) + 2
DAY_S = 86_400
NameArgument = Annotated[str, typer.Argument(help="The secret name.")]
ToOption = Annotated[str, typer.Option("--to", help="subject:NAME, model:NAME or command:PATTERN.")]
GivenOption = Annotated[
    str, typer.Option("--confirmation", help="The id of an approved confirmation of this request.")
]


@app.command("set")
def set_(context: typer.Context, name: NameArgument, as_json: JsonOption = False) -> None:
    """Store a secret from a hidden prompt or stdin. It is never shown again."""
    from operator_sre.app.secrets import set_secret

    value = _value()
    with open_home(context) as home:
        view = run_until_stopped(set_secret(home, name, value))
    if as_json:
        print_json({"secret": view})
        return
    held = ", ".join(map(str, view.holders))
    step = f"bound to {held}" if held else f"next: operator secrets bind {view.name} --to ..."
    print_lines([clean(f"kept    {view.name} in the {view.where}"), clean(f"        {step}")])


@app.command("list")
def list_(context: typer.Context, as_json: JsonOption = False) -> None:
    """List secrets with their bindings and age, never their values."""
    from operator_sre.app.secrets import list_secrets, settle_changes, sweep_leases

    with open_home(context) as home:
        sweep_leases(home.config)
        run_until_stopped(settle_changes(home))
        _show(list_secrets(home), as_json=as_json)


@app.command()
def bind(
    context: typer.Context,
    name: NameArgument,
    to: ToOption,
    variable: Annotated[
        str, typer.Option("--as", help="The environment variable for a command.")
    ] = "",
    yes: YesOption = False,
    propose: ProposeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Bind a secret to a subject, a model or a command pattern. Requires confirmation."""
    from operator_sre.app.secret_store import named_secret
    from operator_sre.app.secrets import binding_asked, holder_named, view_of

    with open_home(context) as home:
        change = binding_asked(home, name, holder_named(to, variable))
        cross_boundary(home, change, yes=yes, propose=propose, as_json=as_json)
        _show([view_of(home, named_secret(home.config, name))], as_json=as_json)


@app.command()
def unbind(
    context: typer.Context, name: NameArgument, to: ToOption, as_json: JsonOption = False
) -> None:
    """Remove a binding of a secret."""
    from operator_sre.app.secret_store import Holder
    from operator_sre.app.secrets import unbind_secret

    kind, _, holder = to.partition(":")
    with open_home(context) as home:
        view = run_until_stopped(unbind_secret(home, name, Holder(kind, holder)))
        _show([view], as_json=as_json)


@app.command()
def remove(
    context: typer.Context, name: NameArgument, yes: YesOption = False, as_json: JsonOption = False
) -> None:
    """Remove a secret and all its bindings."""
    from operator_sre.app.secret_store import named_secret
    from operator_sre.app.secrets import remove_secret

    with open_home(context) as home:
        held = ", ".join(map(str, named_secret(home.config, name).holders)) or "nobody"
        confirm(clean(f"{name!r} is gone for good; it is bound to {held}."), yes=yes)
        view = run_until_stopped(remove_secret(home, name))
    if as_json:
        print_json({"secret": view})
        return
    print_lines([clean(f"removed {view.name}")])


@app.command("test")
def try_(context: typer.Context, name: NameArgument, as_json: JsonOption = False) -> None:
    """Test that a secret can be read and that its model and subjects accept it. Exit 1 if not.

    Sends the model one short request and checks each subject once.
    """
    from operator_sre.app.secrets import try_secret

    with open_home(context) as home:
        found = run_until_stopped(try_secret(home, name))
    if as_json:
        print_json({"name": name, "tested": found})
    else:
        rows = [
            (result.holder, "works" if result.works else "fails", result.detail) for result in found
        ]
        print_table(("where", "", "because"), rows)
    raise typer.Exit(0 if all(result.works for result in found) else 1)


@app.command()
def lease(
    context: typer.Context,
    name: NameArgument,
    command: Annotated[str, typer.Option(help="The command that receives the secret.")],
    variable: Annotated[
        str, typer.Option("--as", help="The environment variable that holds it.")
    ] = "SECRET",
    in_file: Annotated[
        bool, typer.Option("--file", help="Pass the secret in a file; the variable holds its path.")
    ] = False,
    span: Annotated[str, typer.Option("--for", help="Time limit, such as 30s or 5m.")] = "5m",
    given: GivenOption = "",
    yes: YesOption = False,
    propose: ProposeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Lend a secret to one command, once. Requires confirmation.

    The command is judged like any other. The exit code is that of the command.
    """
    from pathlib import Path

    from operator_sre.app.commands import Wanted
    from operator_sre.app.persons import myself
    from operator_sre.app.secrets import Lease, lease_asked, lease_draft, lease_secret, seconds_of
    from operator_sre.app.wiring import open_app
    from operator_sre.faces.cli.exec import document, execute, patience

    wanted = Lease(name, command, variable, in_file, seconds_of(span))
    config = keep_quiet(config_of(context))
    with open_app(config) as home:
        change = lease_asked(home, wanted)
        cross_boundary(home, change, yes=yes, propose=propose, as_json=as_json, given=given)
        draft = lease_draft(wanted, myself())
        run_until_stopped(home.store.journal.append(draft))
    line = Wanted(
        command,
        cwd=str(Path.cwd()),
        timeout_s=wanted.seconds,
        reason=f"It is leased the secret {name!r} as {variable}.",
    )
    with lease_secret(config, wanted):
        done = execute(config, line, (), "", live=not as_json, wait_s=patience(None))
    if as_json:
        print_json(document(done))
    raise typer.Exit(done.exit_code)


def _value() -> str:
    """What was typed or piped, without its line end."""
    if sys.stdin.isatty():
        import getpass

        value = getpass.getpass("Value (it is not shown): ", stream=sys.stderr)
        if getpass.getpass("Again: ", stream=sys.stderr) != value:
            raise UsageError("The two values differ.", next_step="Nothing was stored; try again.")
        return value
    data = sys.stdin.buffer.read(READ_BYTES_MAX)
    try:
        return data.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise UsageError(
            "The value is not text.", next_step="Encode it first, for example with base64."
        ) from None


def _show(views: list[SecretView], *, as_json: bool) -> None:
    rows = [
        (
            view.name,
            view.where,
            f"{view.age_s / DAY_S:.0f} d",
            view.by,
            ", ".join(
                f"{held} as {held.variable}" if held.variable else str(held)
                for held in view.holders
            )
            or "-",
        )
        for view in views
    ]
    head = ("name", "in", "age", "by", "given to")
    print_list("secrets", views, head, rows, none="No secrets.", as_json=as_json)
