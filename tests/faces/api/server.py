"""The API in another process, as `operator serve` starts it."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.contract_messages.holding import held_to_schema
from tests.e2e.waiting import eventually
from tests.e2e.warm import Done, Forked, Warm

__all__ = ["Desk", "Server"]


@dataclass
class Server:
    """A process that serves, where it listens, and a token of the role admin."""

    process: Forked
    url: str
    secret: str
    errors: Path

    @property
    def place(self) -> tuple[str, int]:
        """The host and the port."""
        host, _, port = self.url.rpartition("/")[2].rpartition(":")
        return host, int(port)

    @property
    def headers(self) -> Mapping[str, str]:
        """What lets in."""
        return {"authorization": f"Bearer {self.secret}"}

    def client(self, **options: Any) -> httpx2.Client:
        """A client with the token."""
        return httpx2.Client(base_url=self.url, headers=self.headers, timeout=30, **options)

    def connect(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(self.place, timeout=30)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Its exit code, after a signal."""
        self.process.send_signal(number)
        return self.process.wait(30)


@dataclass
class Desk:
    """A home in a folder, and the command at hand."""

    folder: Path
    warm: Warm

    def run(self, *words: str) -> Done:
        """One command to its end."""
        return self.warm.run(*words, cwd=self.folder, environ=self._environ)

    @contextmanager
    def served(self, *words: str, verb: str = "serve") -> Iterator[Server]:
        """The API of this home, or another face, for the length of a `with`."""
        secret = self.run("tokens", "create", "test", "--role", "admin", "--json").json["secret"]
        errors = self.folder / "serve.err"
        said = self.folder / "serve.out"
        with errors.open("wb") as error, said.open("wb") as out:
            line = (verb, "--port", "0", "--json", "--log-level", "info", *words)
            process = self.warm.start(
                *line, cwd=self.folder, environ=self._environ, out=out.fileno(), err=error.fileno()
            )
        try:
            first = eventually(
                lambda: said.read_text().partition("\n")[0] or process.poll() is not None, "a place"
            )
            assert isinstance(first, str), errors.read_text()
            held_to_schema(line, first)
            yield Server(process, json.loads(first)["listening"][0], secret, errors)
        finally:
            process.kill()
            process.wait(30)

    @property
    def _environ(self) -> dict[str, str]:
        return {**os.environ, "OPERATOR_HOME": str(self.folder / "home")}
