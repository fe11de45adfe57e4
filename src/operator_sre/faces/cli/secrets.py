"""`operator secrets`: its operations, and `lease`, which runs a command in this terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from operator_sre.app.persons import myself
from operator_sre.app.secrets import Lease, lease_asked, lease_draft, lease_secret, seconds_of
from operator_sre.faces.cli.consent import ProposeOption, YesOption, cross_boundary
from operator_sre.faces.cli.noun import arrange, noun_of
from operator_sre.faces.cli.options import JsonOption, config_of, keep_quiet
from operator_sre.faces.cli.output import print_json
from operator_sre.faces.cli.signals import run_until_stopped
from operator_sre.operations import secrets

__all__ = ["app"]

app = noun_of(secrets)
NameArgument = Annotated[str, typer.Argument(help="The secret name.")]
GivenOption = Annotated[
    str, typer.Option("--confirmation", help="The id of an approved confirmation of this request.")
]


@app.command("lease")
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
    from operator_sre.app.commands import Wanted
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


arrange(app, "set", "list", "bind", "unbind", "remove", "test", "lease")
