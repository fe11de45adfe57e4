"""`operator init`, `doctor`, `pack` and `install`: a project and the machine that it runs on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from operator_sre.faces.cli.consent import YesOption, confirmed
from operator_sre.faces.cli.options import JsonOption, config_of, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.faces.cli.progress import waiting
from operator_sre.faces.cli.signals import run_until_stopped

__all__ = ["doctor", "init", "install", "pack"]


def init(
    directory: Annotated[Path, typer.Argument(help="Where; the current folder if none.")] = Path(),
    as_json: JsonOption = False,
) -> None:
    """Make a project: settings, a policy and a first subject. Overwrites nothing."""
    from operator_sre.app.project import init_project

    made = init_project(directory)
    if as_json:
        print_json({"project": made})
        return
    print_lines([clean(f"wrote   {made.folder}/{name}") for name in made.written])
    print_lines([clean(f"kept    {made.folder}/{name} as it was") for name in made.kept])
    print_lines(
        [
            "next    say in subjects/example.yaml what your system is, and try it:",
            "        operator subjects test subjects/example.yaml",
            "        then take the marks away in operator.toml, and see whether all is ready:",
            "        operator validate",
        ]
    )


def doctor(context: typer.Context, as_json: JsonOption = False) -> None:
    """Is this machine fit? Each finding with its fix; exit 1 when something fails.

    It changes nothing, and what is merely absent is a note.
    """
    from operator_sre.app.doctor import examine

    config = config_of(context)
    with waiting("looking at this machine"):
        found = examine(config)
    healthy = not any(one.state == "failed" for one in found)
    if as_json:
        print_json({"healthy": healthy, "findings": found})
    else:
        print_table(("", "what", "found"), [(one.state, one.name, one.found) for one in found])
        fixes = [one for one in found if one.fix]
        if fixes:
            print_lines(["", "What to do:"])
            print_lines([clean(f"  {one.name}: {one.fix}") for one in fixes])
    raise typer.Exit(0 if healthy else 1)


def pack(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(help="The project's folder.")] = Path(),
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file; NAME.operator if none.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Sign a project as one file, after looking for secrets in it.

    The same folder makes the same bytes. A secret that is found is named by file, line and kind,
    and nothing is written.
    """
    from operator_sre.app.bundles import pack_project

    with opened(context) as home, waiting("packing"):
        packed = run_until_stopped(pack_project(home, directory, output))
    if as_json:
        print_json({"packed": packed})
        return
    print_lines(
        [
            clean(f"packed  {packed.file}: {packed.files} files, {packed.bytes} bytes"),
            f"sha256  {packed.sha256}",
            f"key     {packed.key}",
            "next    tell whoever installs it the key, on another way than the file:",
            clean(f"        operator install {Path(packed.file).name} --key {packed.key}"),
        ]
    )


def install(
    context: typer.Context,
    bundle: Annotated[Path, typer.Argument(help="What `operator pack` has made.")],
    to: Annotated[Path | None, typer.Option("--to", help="The folder; its name if none.")] = None,
    key: Annotated[str, typer.Option(help="The key that has to have signed it.")] = "",
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Verify a packed project, and unpack it where nothing is yet.

    A key that is met for the first time has to be meant; with --key it has to be that one.
    """
    from operator_sre.app.bundles import install_bundle, is_trusted, read_bundle

    with opened(context) as home:
        found = read_bundle(bundle)
        if not is_trusted(home, found, key):
            question = f"{found.name!r} is signed by {found.key}, a key that is new here. Trust it?"
            confirmed(clean(question), yes=yes)
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
