"""A DeploymentTarget by compose: the containers of one project on one engine."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from operator_protocols.domain.stack import ServiceState, ServiceStatus
from operator_protocols.errors import NotFoundError, OperatorError, RigError
from operator_sre.lab.stacks.command import Compose, find_compose, plain
from operator_sre.lab.stacks.containers import Containers
from operator_sre.lab.stacks.record import Record, write_record

__all__ = ["ComposeTarget"]

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

        Whoever brought it up may have been broken off, and the engine may still be at it.
        """
        for _ in range(ROUNDS_MAX):
            with contextlib.suppress(RigError):
                await self.down(volumes=True)
            await asyncio.sleep(QUIET_S)
            if not await self._containers.rows():
                return
        raise RigError(
            f"The project {self.record.project!r} does not go down.",
            next_step=f"Look with: docker compose --project-name {self.record.project} ps",
        )

    async def status(self) -> Sequence[ServiceStatus]:
        """Every service as it is now, also those that are gone, in the order of their names."""
        rows = await self._containers.rows()
        names = sorted({*self.record.services, *rows})
        gone = {name: ServiceStatus(name, ServiceState.MISSING) for name in names}
        return tuple(rows[name].told() if name in rows else gone[name] for name in names)

    async def logs(self, service: str | None = None, *, lines: int = 100) -> Sequence[str]:
        """The last lines of one service, or of all, each begun by the name of who said it."""
        chosen = self._named(service)
        tail = str(max(1, min(lines, LINES_MAX)))
        told = await self._run("logs", "--no-color", "--tail", tail, *chosen, timeout_s=LOOK_S_MAX)
        found = (_LINE.fullmatch(plain(line)) for line in told.splitlines())
        return tuple(f"{one['service']} | {one['text']}" for one in found if one)

    async def restart(self, service: str | None = None) -> Sequence[ServiceStatus]:
        """Start one service anew, or all, and wait until they are well."""
        chosen = self._named(service)
        for each in await self.status():
            if each.state is ServiceState.PAUSED and each.name in (chosen or (each.name,)):
                await self._containers.tell(each.name, "unpause")  # nobody paused can be ended
        await self._run("restart", "--timeout", STOP_S, *chosen, timeout_s=DOWN_S_MAX)
        alone = ("--no-deps",) if chosen else ()
        await self._start("--no-recreate", *alone, *chosen)
        return await self.status()

    async def check(self) -> None:
        """RigError where compose does not accept its file."""
        await self._run("config", "--quiet", timeout_s=LOOK_S_MAX)

    def _named(self, service: str | None) -> tuple[str, ...]:
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
            said = await self._said_by_the_ill()
            raise RigError(f"{problem.message} {said}".strip()) from None

    async def _said_by_the_ill(self) -> str:
        """Who is not well, and what each of them said last; "" where nobody can tell."""
        try:
            ill = [each for each in await self.status() if each.state in _ILL]
            told = [
                f"{each.name} is {each.state} and said last: {line.partition(' | ')[2]!r}."
                for each in ill[:TOLD_MAX]
                for line in await self.logs(each.name, lines=1)
            ]
        except OperatorError:
            return ""
        return " ".join(told)

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
                f"docker compose {words[0]} took longer than {timeout_s:g} s and was ended."
            )
        if finished.exit_code != 0:
            await self._containers.reach()  # an engine that is away is told as always
            said = Compose.told(finished)
            end = "" if said.endswith((".", "?", "!")) else "."
            raise RigError(f"docker compose {words[0]} failed: {said}{end}")
        return finished.stdout.decode("utf-8", "replace")
