"""`operator init`, `doctor`, `pack` and `install`: a project and the machine that it runs on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from operator_sre.faces.cli.consent import YesOption, confirm
from operator_sre.faces.cli.options import JsonOption, config_of, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.progress import waiting
from operator_sre.faces.cli.signals import run_until_stopped

__all__ = ["doctor", "init", "install", "pack"]


def init(
    directory: Annotated[Path, typer.Argument(help="The project directory.")] = Path(),
    as_json: JsonOption = False,
) -> None:
    """Create a project: settings, a policy and a first subject. Overwrites nothing."""
    from operator_sre.app.project import init_project

    made = init_project(directory)
    if as_json:
        print_json({"project": made})
        return
    print_lines([clean(f"wrote   {made.folder}/{name}") for name in made.written])
    print_lines([clean(f"kept    {made.folder}/{name} as it was") for name in made.kept])
    print_lines(
        [
            "next    describe your system in subjects/example.yaml, and check it:",
            "        operator subjects test subjects/example.yaml",
            "        then remove the comment marks in operator.toml, and check the project:",
            "        operator validate",
        ]
    )


def doctor(context: typer.Context, as_json: JsonOption = False) -> None:
    """Check that this machine can run Operator. Exit 1 if a check fails.

    Each problem is listed with its fix. Optional parts that are missing are notes. The command
    changes nothing.
    """
    from operator_sre.app.doctor import examine

    config = config_of(context)
    with waiting("checking this machine"):
        found = examine(config)
    healthy = not any(check.state == "failed" for check in found)
    if as_json:
        print_json({"healthy": healthy, "findings": found})
    else:
        print_table(
            ("", "what", "found"), [(check.state, check.name, check.found) for check in found]
        )
        fixes = [check for check in found if check.fix]
        if fixes:
            print_lines(["", "What to do:"])
            print_lines([clean(f"  {check.name}: {check.fix}") for check in fixes])
    raise typer.Exit(0 if healthy else 1)


def pack(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(help="The project directory.")] = Path(),
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file to write; NAME.operator by default."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Pack a project into one signed file. Refuses if it contains secrets.

    The same directory always produces the same bytes. If a secret is found, pack names its file,
    line and kind and writes nothing.
    """
    from operator_sre.app.bundles import pack_project

    with open_home(context) as home, waiting("packing"):
        packed = run_until_stopped(pack_project(home, directory, output))
    if as_json:
        print_json({"packed": packed})
        return
    print_lines(
        [
            clean(f"packed  {packed.file}: {packed.files} files, {packed.bytes} bytes"),
            f"sha256  {packed.sha256}",
            f"key     {packed.key}",
            "next    send the key to the installer by another channel than the file:",
            clean(f"        operator install {Path(packed.file).name} --key {packed.key}"),
        ]
    )


def install(
    context: typer.Context,
    bundle: Annotated[Path, typer.Argument(help="A file written by `operator pack`.")],
    to: Annotated[
        Path | None,
        typer.Option("--to", help="The directory to create; named after the project by default."),
    ] = None,
    key: Annotated[str, typer.Option(help="Require a signature by this key.")] = "",
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Verify a packed project and unpack it into a new directory.

    You confirm a signing key the first time it appears. With --key, the project must be signed by
    that key.
    """
    from operator_sre.app.bundles import install_bundle, is_trusted, read_bundle

    with open_home(context) as home:
        found = read_bundle(bundle)
        if not is_trusted(home, found, key):
            question = f"{found.name!r} is signed by {found.key}, a key that is new here. Trust it?"
            confirm(clean(question), yes=yes)
        work = install_bundle(home, found, to or Path.cwd() / found.name)
        with waiting("installing"):
            done = run_until_stopped(work)
    if as_json:
        print_json({"installed": done})
        return
    print_lines(
        [
            clean(f"installed  {done.name} in {done.folder}: {done.files} files"),
            clean(f"next       operator validate {done.folder}"),
        ]
    )
