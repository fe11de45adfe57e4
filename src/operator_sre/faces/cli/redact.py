"""`operator redact`: text on stdin, the same without its secrets on stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import typer

from operator_sre.faces.cli.options import JsonOption, config_of
from operator_sre.faces.cli.output import print_json

__all__ = ["redact"]

CHUNK_BYTES = 65_536


def redact(context: typer.Context, as_json: JsonOption = False) -> None:
    """Copy stdin to stdout without secrets; with --json, only count them."""
    from operator_sre.app.redaction import redact_stream

    def chunks() -> Iterator[bytes]:
        # The input so far, without waiting for a full buffer, so that a live log flows on.
        while chunk := os.read(sys.stdin.fileno(), CHUNK_BYTES):
            yield chunk

    def write(data: bytes) -> None:
        if not as_json:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    tally = redact_stream(config_of(context), chunks(), write)
    if as_json:
        print_json(
            {
                "lines": tally.lines,
                "bytes": tally.bytes,
                "secrets": tally.secrets,
                "kinds": tally.kinds,
            }
        )
