"""The command of Docker Compose: found, asked for its version, and run within limits."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.errors import RigError
from operator_sre.processes.control import base_environment
from operator_sre.processes.run import Finished, run

__all__ = [
    "Compose",
    "ComposeMissingError",
    "base_environment_of",
    "engine_variables",
    "find_compose",
    "plain",
]

OUTPUT_BYTES_MAX = 1 << 20
VERSION_S_MAX = 15.0
MAJOR_MIN = 2
TOLD_LINES, TOLD_CHARACTERS = 6, 800
INSTALL = "Install it: https://docs.docker.com/compose/install/"
# What says where the engine is and how it is reached; and how images are fetched.
_ENGINE = (
    *("DOCKER_CERT_PATH", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST", "DOCKER_TLS_VERIFY"),
    "XDG_RUNTIME_DIR",
)
_FETCHING = ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSH_AUTH_SOCK")
_VERSION = re.compile(r"v?(\d+)\.(\d+)[\w.+-]*")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class ComposeMissingError(RigError):
    """Docker Compose is not installed, or is too old."""

    category = ErrorCategory.DOCKER_UNAVAILABLE
    next_action = NextAction.INSTALL_DEPENDENCY


@dataclass(frozen=True, slots=True)
class Compose:
    """How compose is called here: the words that come first, its version, its environment."""

    words: tuple[str, ...]
    version: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    async def run(self, argv: Sequence[str], *, timeout_s: float) -> Finished:
        """Run it with these words to its end or the time-out."""
        return await run(
            [*self.words, *argv],
            cwd="/",
            env=self.environment,
            timeout_s=timeout_s,
            output_bytes_max=OUTPUT_BYTES_MAX,
        )

    @staticmethod
    def told(finished: Finished) -> str:
        """What it said last, in one line and without colours."""
        text = plain(finished.stderr.decode("utf-8", "replace"))
        lines = [" ".join(line.split()) for line in text.replace("\r", "\n").splitlines()]
        said = " / ".join([line for line in lines if line][-TOLD_LINES:])
        return said[-TOLD_CHARACTERS:] or f"it ended with {finished.exit_code} and said nothing"


def plain(text: str) -> str:
    """The same without what a terminal would do."""
    return _CONTROL.sub("", text)


def base_environment_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The few variables that compose, and who runs it, inherits; secrets stay behind."""
    given = {name: environ[name] for name in _FETCHING if name in environ}
    return {**base_environment(environ), **engine_variables(environ), **given}


def engine_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Those that say where the engine is, for whoever has to find it too."""
    return {name: environ[name] for name in _ENGINE if name in environ}


async def find_compose(environ: Mapping[str, str] | None = None) -> Compose:
    """The plug-in of `docker`, or a `docker-compose` of its own; ComposeMissingError says why not.

    Version 1 does not count: it has no `up --wait`.
    """
    known = os.environ if environ is None else environ
    environment = base_environment_of(known)
    path = known.get("PATH", os.defpath)
    seen = ""
    for words in (("docker", "compose"), ("docker-compose",)):
        place = shutil.which(words[0], path=path)
        if place is None:
            continue
        found = Compose((place, *words[1:]), "", environment)
        asked = await found.run(["version", "--short"], timeout_s=VERSION_S_MAX)
        told = asked.stdout.decode("utf-8", "replace").strip()
        if asked.exit_code != 0 or (version := _VERSION.fullmatch(told)) is None:
            continue
        if int(version[1]) >= MAJOR_MIN:
            return Compose(found.words, told.removeprefix("v"), environment)
        seen = told
    if seen:
        raise ComposeMissingError(
            f"docker-compose {seen} is too old: version {MAJOR_MIN} is needed.", next_step=INSTALL
        )
    if shutil.which("docker", path=path) is None:
        raise ComposeMissingError(
            "Docker is not installed: there is no command 'docker' on the PATH.",
            next_step="Install it: https://docs.docker.com/engine/install/",
        )
    raise ComposeMissingError(
        "Docker is here, and its plug-in 'compose' is not.", next_step=INSTALL
    )
