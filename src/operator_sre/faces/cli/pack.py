"""`operator pack` and `operator install`: a project as one signed file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from operator_sre.faces.cli.confirming import YesOption, confirmed
from operator_sre.faces.cli.options import JsonOption, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines
from operator_sre.faces.cli.progress import waiting
from operator_sre.faces.cli.running import run_until_stopped

__all__ = ["install", "pack"]


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
    from operator_sre.app.packing import pack_project

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
    from operator_sre.app.packing import install_bundle, is_trusted, read_bundle

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
