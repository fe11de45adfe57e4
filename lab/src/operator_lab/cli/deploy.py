"""`operator deploy`: whole systems in containers, on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.options import JsonOption, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.progress import waiting
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_lab.app.deployments import DeploymentView

__all__ = ["app"]

LINES_MAX = 10_000
BROKEN_OFF = "Stopped. Everything that this command started was removed."
app = typer.Typer(help="Run whole systems in containers.", no_args_is_help=True)
local = typer.Typer(help="On this machine, by Docker Compose.", no_args_is_help=True)
app.add_typer(local, name="local")
SubjectArgument = Annotated[str, typer.Argument(help="The subject.")]
ProjectOption = Annotated[
    str | None, typer.Option("--project", help="The compose project; operator-SUBJECT by default.")
]
ServiceOption = Annotated[
    str | None, typer.Option("--service", help="The service; all by default.")
]


@local.command()
def up(
    context: typer.Context,
    subject: SubjectArgument,
    project: ProjectOption = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Set a port or another variable, as NAME=VALUE; may be repeated."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a stack and wait until it is healthy. Generates new passwords in files."""
    from operator_lab.app.deployments import deploy_up

    with open_home(context) as app, waiting("starting the containers"):
        work = deploy_up(app, subject, project=project, given=given or ())
        view = run_until_stopped(work, last=BROKEN_OFF)
    _show(view, as_json=as_json)


@local.command()
def down(
    context: typer.Context,
    subject: SubjectArgument,
    project: ProjectOption = None,
    volumes: Annotated[
        bool, typer.Option("--volumes", help="Also remove its data and passwords.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Stop a stack."""
    from operator_lab.app.deployments import deploy_down

    with open_home(context) as app, waiting("stopping the containers"):
        found = run_until_stopped(deploy_down(app, subject, project=project, volumes=volumes))
    if as_json:
        print_json({"subject": subject, "project": found, "down": True, "volumes": volumes})
    elif found is None:
        print_lines([clean(f"Nothing of {subject} is deployed.")])
    else:
        kept = "nothing of it is left" if volumes else "its data is kept"
        print_lines([clean(f"The project {found} is down; {kept}.")])


@local.command()
def status(
    context: typer.Context,
    subject: SubjectArgument,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """List services with their state, container, image and ports."""
    from operator_lab.app.deployments import deploy_status

    with open_home(context) as app, waiting("asking Docker"):
        view = run_until_stopped(deploy_status(app, subject, project=project))
    _show(view, as_json=as_json)


@local.command()
def logs(
    context: typer.Context,
    subject: SubjectArgument,
    project: ProjectOption = None,
    service: ServiceOption = None,
    lines: Annotated[
        int, typer.Option(min=1, max=LINES_MAX, help="Maximum number of lines of each log.")
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """Print the latest log lines of its services."""
    from operator_lab.app.deployments import deploy_logs

    with open_home(context) as app, waiting("asking Docker"):
        output = run_until_stopped(
            deploy_logs(app, subject, service=service, lines=lines, project=project)
        )
    if as_json:
        print_json({"subject": subject, "lines": output})
    else:
        print_lines([clean(line) for line in output])


@local.command()
def restart(
    context: typer.Context,
    subject: SubjectArgument,
    project: ProjectOption = None,
    service: ServiceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Restart one service or all, and wait until they are healthy."""
    from operator_lab.app.deployments import deploy_restart

    with open_home(context) as app, waiting("restarting"):
        view = run_until_stopped(deploy_restart(app, subject, service=service, project=project))
    _show(view, as_json=as_json)


def _show(view: DeploymentView, *, as_json: bool) -> None:
    if as_json:
        print_json({"deployment": view})
        return
    rows = [
        (
            *(service.name, service.state, service.container or "-", service.image or "-"),
            " ".join(str(port) for port in service.ports) or "-",
        )
        for service in view.services
    ]
    print_table(("service", "state", "container", "image", "ports"), rows)
    secrets = [f"  {name} is in {place}" for name, place in view.secrets.items()]
    passwords = ["", "Passwords:", *secrets] if secrets else []
    print_lines([clean(line) for line in ["", f"Project {view.project}.", *passwords]])
