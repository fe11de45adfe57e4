"""A DeploymentTarget by compose: the containers of one project on one engine, and the command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from operator_lab.stacks.containers import Containers
from operator_lab.stacks.record import Record, write_record
from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.stack import ServiceState, ServiceStatus
from operator_protocols.errors import NotFoundError, OperatorError, RigError
from operator_sre.processes.control import base_environment
from operator_sre.processes.run import Finished, run

__all__ = [
    "Compose",
    "ComposeMissingError",
    "ComposeTarget",
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
    def last_words(finished: Finished) -> str:
        """Its last output, in one line and without colours."""
        text = plain(finished.stderr.decode("utf-8", "replace"))
        lines = [" ".join(line.split()) for line in text.replace("\r", "\n").splitlines()]
        summary = " / ".join([line for line in lines if line][-TOLD_LINES:])
        return summary[-TOLD_CHARACTERS:] or f"it ended with {finished.exit_code} without output"


def plain(text: str) -> str:
    """The same without what a terminal would do."""
    return _CONTROL.sub("", text)


def base_environment_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The few variables that compose, and who runs it, inherits; secrets stay behind."""
    given = {name: environ[name] for name in _FETCHING if name in environ}
    return {**base_environment(environ), **engine_variables(environ), **given}


def engine_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that say where the engine is, for other processes that need it."""
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
        finished = await found.run(["version", "--short"], timeout_s=VERSION_S_MAX)
        output = finished.stdout.decode("utf-8", "replace").strip()
        if finished.exit_code != 0 or (version := _VERSION.fullmatch(output)) is None:
            continue
        if int(version[1]) >= MAJOR_MIN:
            return Compose(found.words, output.removeprefix("v"), environment)
        seen = output
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
        "Docker is installed, but its plug-in 'compose' is not.", next_step=INSTALL
    )


# Fetching images takes as long as it takes; what is there already comes up in a minute.
UP_S_MAX, WELL_S = 1800.0, 300
DOWN_S_MAX, LOOK_S_MAX = 180.0, 60.0
STOP_S = "5"
TOLD_MAX = 3
_ILL = (ServiceState.EXITED, ServiceState.UNHEALTHY)
LINES_MAX = 10_000
ROUNDS_MAX, QUIET_S = 5, 2.0
COMPOSE_FILE = "compose.yaml"
_LINE = re.compile(r"(?P<service>[\w.-]+?)-\d+ +\| ?(?P<text>.*)")


class ComposeTarget:
    """One deployment. `directory` is where its record and its secrets lie."""

    def __init__(
        self,
        record: Record,
        directory: Path,
        *,
        compose: Compose | None = None,
        containers: Containers | None = None,
        well_s: int = WELL_S,
    ) -> None:
        self.record = record
        self._directory = directory
        self._compose = compose
        self._containers = containers or Containers(record.project)
        self._well_s = well_s

    async def up(self) -> Sequence[ServiceStatus]:
        """Start all of it and wait until it is well; RigError says what did not come up."""
        names = await self._run("config", "--services", timeout_s=LOOK_S_MAX)
        self.record = replace(self.record, services=tuple(sorted(names.split())))
        write_record(self._directory, self.record)
        await self._start("--remove-orphans")
        return await self.status()

    async def down(self, *, volumes: bool = False) -> None:
        """End all of it; its data too, where asked. Fine when there is nothing."""
        # Whose data goes as well need not put anything in order first.
        also = ("--timeout", "0", "--volumes") if volumes else ("--timeout", STOP_S)
        await self._run("down", "--remove-orphans", *also, timeout_s=DOWN_S_MAX)

    async def clear(self) -> None:
        """Take it down, with its data, until nothing comes any more.

        The process that started it may have been killed, and the engine may still be starting it.
        """
        for _ in range(ROUNDS_MAX):
            with contextlib.suppress(RigError):
                await self.down(volumes=True)
            await asyncio.sleep(QUIET_S)
            if not await self._containers.rows():
                return
        raise RigError(
            f"The project {self.record.project!r} does not go down.",
            next_step=f"Check with: docker compose --project-name {self.record.project} ps",
        )

    async def status(self) -> Sequence[ServiceStatus]:
        """Every service as it is now, also the missing ones, in the order of their names."""
        rows = await self._containers.rows()
        names = sorted({*self.record.services, *rows})
        gone = {name: ServiceStatus(name, ServiceState.MISSING) for name in names}
        return tuple(rows[name].to_status() if name in rows else gone[name] for name in names)

    async def logs(self, service: str | None = None, *, lines: int = 100) -> Sequence[str]:
        """The last lines of one service, or of all, each with the name of its service."""
        chosen = self._select(service)
        tail = str(max(1, min(lines, LINES_MAX)))
        output = await self._run(
            "logs", "--no-color", "--tail", tail, *chosen, timeout_s=LOOK_S_MAX
        )
        found = (_LINE.fullmatch(plain(line)) for line in output.splitlines())
        return tuple(f"{line['service']} | {line['text']}" for line in found if line)

    async def restart(self, service: str | None = None) -> Sequence[ServiceStatus]:
        """Restart one service, or all, and wait until they are healthy."""
        chosen = self._select(service)
        for each in await self.status():
            if each.state is ServiceState.PAUSED and each.name in (chosen or (each.name,)):
                await self._containers.tell(
                    each.name, "unpause"
                )  # a paused service cannot be stopped
        await self._run("restart", "--timeout", STOP_S, *chosen, timeout_s=DOWN_S_MAX)
        alone = ("--no-deps",) if chosen else ()
        await self._start("--no-recreate", *alone, *chosen)
        return await self.status()

    async def check(self) -> None:
        """RigError where compose does not accept its file."""
        await self._run("config", "--quiet", timeout_s=LOOK_S_MAX)

    def _select(self, service: str | None) -> tuple[str, ...]:
        if service is None:
            return ()
        if service not in self.record.services:
            raise NotFoundError(
                f"There is no service {service[:80]!r} in the project {self.record.project!r}.",
                next_step=f"It has {', '.join(self.record.services) or 'none that was started'}.",
            )
        return (service,)

    async def _start(self, *words: str) -> None:
        wait = ("--wait", "--wait-timeout", str(self._well_s))
        try:
            await self._run("up", "--detach", "--quiet-pull", *wait, *words, timeout_s=UP_S_MAX)
        except RigError as problem:
            output = await self._describe_unhealthy()
            raise RigError(f"{problem.message} {output}".strip()) from None

    async def _describe_unhealthy(self) -> str:
        """The unhealthy services, each with its last output; "" where that is unknown."""
        try:
            ill = [each for each in await self.status() if each.state in _ILL]
            lines = [
                f"{each.name} is {each.state}; its last line was {line.partition(' | ')[2]!r}."
                for each in ill[:TOLD_MAX]
                for line in await self.logs(each.name, lines=1)
            ]
        except OperatorError:
            return ""
        return " ".join(lines)

    async def _run(self, *words: str, timeout_s: float) -> str:
        if self._compose is None:
            self._compose = await find_compose()
        where = Path(self.record.spec.folder)
        finished = await self._compose.run(
            [
                *("--project-name", self.record.project, "--project-directory", str(where)),
                *("--env-file", str(self._directory / "values.env")),
                *("--file", str(where / COMPOSE_FILE), "--ansi", "never", "--progress", "quiet"),
                *words,
            ],
            timeout_s=timeout_s,
        )
        if finished.timed_out:
            raise RigError(
                f"docker compose {words[0]} took longer than {timeout_s:g} s and was stopped."
            )
        if finished.exit_code != 0:
            await self._containers.reach()  # a missing engine is reported as everywhere
            output = Compose.last_words(finished)
            end = "" if output.endswith((".", "?", "!")) else "."
            raise RigError(f"docker compose {words[0]} failed: {output}{end}")
        return finished.stdout.decode("utf-8", "replace")
