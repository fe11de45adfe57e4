"""Tools that read a container: its state and its logs. They change nothing."""

from __future__ import annotations

import json
from collections import deque

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.excerpt import find_start, keep_first, note_omission
from operator_protocols.domain.observation import Value
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job
from operator_sre.executor.docker.answers import Container, Frames
from operator_sre.executor.docker.engine import ANSWER_BYTES_MAX, Answer, Engine
from operator_sre.executor.tools.docker_tool import CONTAINER, ID, DockerTool, failed_by
from operator_sre.executor.tools.parameters import Validated

__all__ = ["DockerInspect", "DockerLogs", "Newest"]

TAIL, TAIL_MAX = 100, 10_000
LOGS_S = 30.0
# What is kept of the newest lines, and after how much the engine is not listened to any more.
LOGS_BYTES_MAX = 256 * 1024
READ_BYTES_MAX = 64 * 1024 * 1024
NAMES_MAX, TEXT_CHARACTERS_MAX = 100, 300


class DockerInspect(DockerTool):
    """Tells what a container is and does, without its secrets."""

    spec = ToolSpec(
        name="docker_inspect",
        sentence="Shows the id, image, state, networks and mounts of a container; of its variables"
        " and labels only the names.",
        parameters=(CONTAINER, ID),
        risk=Risk.LOW,
        changes=False,
        idempotent=True,
        timeout_s=30.0,
    )

    async def act(self, engine: Engine, container: Container, given: Validated, job: Job) -> Result:
        """What is known of it, as JSON; the most important of it in the data."""
        state = container.state
        data: dict[str, Value] = {
            "id": container.id,
            "name": container.name.removeprefix("/"),
            "image": container.config.image,
            "status": state.status,
            "running": state.running,
            "exit_code": state.exit_code,
            "oom_killed": state.oom_killed,
            "restart_count": container.restart_count,
            "health": state.health.status if state.health else "",
            "started_at": state.started_at,
            "finished_at": state.finished_at,
            "networks": ", ".join(sorted(container.networks)[:NAMES_MAX]),
        }
        # The rest that may be shown. Values of variables and labels, and arguments, hold secrets.
        configuration, host = container.config, container.host_config
        variables = (each.partition("=")[0] for each in configuration.env or ())
        more = {
            "image_id": container.image,
            "created": container.created,
            "program": container.path[:TEXT_CHARACTERS_MAX],
            "argument_count": len(container.args or ()),
            "user": configuration.user,
            "tty": configuration.tty,
            "error": container.state.error[:TEXT_CHARACTERS_MAX],
            "paused": container.state.paused,
            "restart_policy": host.restart_policy.name if host.restart_policy else "",
            "memory_bytes_max": host.memory,
            "privileged": host.privileged,
            "variables": sorted(variables)[:NAMES_MAX],
            "labels": sorted(configuration.labels or ())[:NAMES_MAX],
            "ports": sorted(container.network_settings.ports or ())[:NAMES_MAX],
            "networks": {
                name: {"address": each.address, "aliases": (each.aliases or [])[:NAMES_MAX]}
                for name, each in sorted(container.networks.items())[:NAMES_MAX]
            },
            "mounts": [
                f"{each.type} {each.source} {each.destination} {'rw' if each.writable else 'ro'}"
                for each in (container.mounts or [])[:NAMES_MAX]
            ],
        }
        text = json.dumps({**data, **more}, indent=1, ensure_ascii=False)
        return Result(Outcome.RAN, exit_code=0, stdout=text, data=data)


class DockerLogs(DockerTool):
    """Shows the newest log lines of a container."""

    spec = ToolSpec(
        name="docker_logs",
        sentence="Shows the newest log lines of a container, stdout and stderr in order.",
        parameters=(
            CONTAINER,
            Parameter(
                "tail",
                "the number of lines",
                ParameterType.INTEGER,
                required=False,
                default=TAIL,
                minimum=1,
                maximum=TAIL_MAX,
            ),
            Parameter(
                "timestamps",
                "whether each line starts with its timestamp",
                ParameterType.BOOLEAN,
                required=False,
                default=True,
            ),
            ID,
        ),
        risk=Risk.LOW,
        changes=False,
        idempotent=True,
        timeout_s=LOGS_S,
    )

    async def act(self, engine: Engine, container: Container, given: Validated, job: Job) -> Result:
        """The lines, oldest first; it never follows."""
        kept = Newest(given.integer("tail"), LOGS_BYTES_MAX)
        parameters = {
            "stdout": "true",
            "stderr": "true",
            "follow": "false",
            "tail": str(given.integer("tail")),
            "timestamps": "true" if given.flag("timestamps") else "false",
        }
        frames = Frames(is_plain=container.config.tty)
        path = f"/containers/{container.id}/logs"
        timeout_s = min(LOGS_S, job.timeout_s)
        async with engine.stream("GET", path, parameters=parameters, timeout_s=timeout_s) as (
            status,
            chunks,
        ):
            content = b""
            async for chunk in chunks:
                if status != 200:
                    content = (content + chunk)[:ANSWER_BYTES_MAX]
                    continue
                for number, piece in frames.feed(chunk):
                    kept.feed(number, piece)
                if kept.seen_bytes > READ_BYTES_MAX:
                    break
        if status != 200:
            return failed_by(Answer(status, content))
        return kept.result(container)


class Newest:
    """The newest lines within a number of lines and of bytes, bounded while it is fed."""

    def __init__(self, lines_max: int, bytes_max: int) -> None:
        self._lines_max = lines_max
        self._bytes_max = bytes_max
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._open = {1: b"", 2: b""}
        self.seen_bytes = 0
        self._dropped = False

    def feed(self, number: int, piece: bytes) -> None:
        """Take the next bytes of one stream; a line counts when it is whole."""
        self.seen_bytes += len(piece)
        *whole, rest = (self._open[number] + piece).split(b"\n")
        # Of a line that is too long the beginning counts: there stand the names of its values.
        self._open[number] = rest[: self._bytes_max + 1]
        for line in whole:
            self._add(line)

    def _add(self, line: bytes) -> None:
        kept = keep_first(line, self._bytes_max)
        self._lines.append(kept)
        self._bytes += len(kept) + 1
        self._dropped = self._dropped or len(kept) < len(line)
        while len(self._lines) > self._lines_max or self._bytes > self._bytes_max + 1:
            self._bytes -= len(self._lines.popleft()) + 1
            self._dropped = True

    def text(self) -> str:
        """All that was kept and that belongs to nothing older."""
        for rest in self._open.values():
            if rest:
                self._add(rest)
        self._open.clear()
        data = b"".join(line + b"\n" for line in self._lines)
        if self._dropped or len(self._lines) >= self._lines_max:
            start = find_start(data, inside=False)
            data = note_omission(start).lstrip() + data[start:] if start else data
        return data.decode("utf-8", "replace")

    def result(self, container: Container) -> Result:
        """The text with how much of it there is."""
        text = self.text()
        return Result(
            Outcome.RAN,
            exit_code=0,
            stdout=text,
            truncated=self._dropped,
            stdout_bytes=self.seen_bytes,
            data={"id": container.id, "lines": len(self._lines), "tty": container.config.tty},
        )
