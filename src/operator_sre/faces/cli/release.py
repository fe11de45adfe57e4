"""`operator release`: check the files of a release before they are installed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.options import JsonOption
from operator_sre.faces.cli.output import print_json, print_lines

__all__ = ["app"]

app = typer.Typer(help="Verify the files of a release, offline.", no_args_is_help=True)


# Without it a noun with a single verb would be taken for the verb itself.
@app.callback()
def _noun() -> None: ...


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="The directory with SHA256SUMS and its files.")],
    key: Annotated[
        str, typer.Option(help="The public key; by default the key that this version came with.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Check every file against the checksums that the release key has signed."""
    from operator_sre.app.release_files import shipped_key, verify_release

    trusted = key or shipped_key()
    if not trusted:
        raise UsageError(
            "This version came without a release key.",
            next_step="Name the key with --key, from a source that you trust.",
        )
    found = verify_release(folder, key=trusted)
    if as_json:
        print_json({"release": found})
    else:
        print_lines([f"{len(found.files)} files are unchanged, signed by {found.key[:16]}..."])
