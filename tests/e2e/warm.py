"""The real command line in a process that is warm: the same `main`, without a new Python each time.

Run as a script it serves: one JSON request a line, one JSON answer a line, until its input ends.
"""

from __future__ import annotations

import io
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["Done", "Warm", "serve"]

ANSWER_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended: its exit code, what it said, and to which channel."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        document: dict[str, Any] = json.loads(self.out)
        assert document["schema_version"] == "1.0.0"
        return document


class Warm:
    """A process that runs one line after another as the command does."""

    def __init__(self) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, *words: str, cwd: Path, environ: Mapping[str, str]) -> Done:
        """Run one line to its end, with this environment and nothing else of ours."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        request = {"words": words, "cwd": str(cwd), "environ": dict(environ)}
        self._popen.stdin.write(json.dumps(request).encode() + b"\n")
        self._popen.stdin.flush()
        ready, _, _ = select.select([self._popen.stdout], [], [], ANSWER_S_MAX)
        assert ready, f"not within {ANSWER_S_MAX:g} s: {words}"
        done = Done(**json.loads(self._popen.stdout.readline()))
        assert "Traceback" not in done.out + done.err, done.err
        return done

    def close(self) -> None:
        """End the process."""
        with self._popen:
            self._popen.kill()


def serve() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environ"])
        answers.write(json.dumps(asdict(_answer(request["words"]))).encode() + b"\n")


def _answer(words: list[str]) -> Done:
    from operator_sre.faces.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    sys.stdout, sys.stderr = out, err
    code: object = 0
    try:
        main(words)
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    return Done(code if isinstance(code, int) else 1, _text(out), _text(err))


def _text(said: io.TextIOWrapper) -> str:
    said.flush()
    assert isinstance(said.buffer, io.BytesIO)
    return said.buffer.getvalue().decode()


if __name__ == "__main__":
    serve()
