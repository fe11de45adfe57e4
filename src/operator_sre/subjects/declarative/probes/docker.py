"""A Docker container: its state, its health, and why it ended."""

from __future__ import annotations

import re
from dataclasses import dataclass

from operator_protocols.domain.excerpt import keep_last_line
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.probes.place import Blind, Place, down, up
from operator_sre.subjects.declarative.probes.there import run_there
from operator_sre.subjects.declarative.values import Readings, document_of

__all__ = ["KEYS", "DockerProbe", "read_docker"]

KEYS = ("container",)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_FORMAT = (
    '{"state": {{json .State}}, "restarts": {{json .RestartCount}}, '
    '"image": {{json .Config.Image}}}'
)


@dataclass(frozen=True, slots=True)
class DockerProbe:
    """`docker inspect` where the target runs; by default the container has the target's name."""

    container: str = ""

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        own = {"up", "ok", "error", "state", "health", "exit_code", "out_of_memory", "restarts"}
        return frozenset(own | {"image"})

    async def observe(self, place: Place) -> Readings:
        """Ask once; a container that is not there is a state of its own."""
        name = self.container or place.target.name
        argv = ("docker", "container", "inspect", "--format", _FORMAT, name)
        result = await run_there(place, *argv)
        if result.exit_code:
            text = result.stderr.strip()
            if "no such container" in text.lower():
                return down(f"there is no container {name}", state="missing")
            raise Blind(f"docker does not answer: {keep_last_line(text, 120)}")
        found = document_of(result.stdout)
        state = found.get("state") if isinstance(found, dict) else None
        if not isinstance(state, dict):
            raise Blind("docker did not describe the container")
        status = str(state.get("Status", ""))
        health = state.get("Health") or {}
        readings: Readings = {
            "state": status,
            "health": str(health.get("Status") or "none"),
            "exit_code": int(state.get("ExitCode") or 0),
            "out_of_memory": bool(state.get("OOMKilled")),
            "restarts": int(found.get("restarts") or 0),
            "image": str(found.get("image") or "")[:200],
        }
        why = "" if status == "running" else f"{name} is {status}"
        return up(readings, why or ("its health check fails" * (health == "unhealthy")))


def read_docker(table: Table) -> DockerProbe:
    """Parse the probe of a description."""
    name = table.text("container")
    if name and not _NAME.fullmatch(name):
        raise table.wrong(f"{name[:60]!r} is not a valid name of a container.", "container")
    return DockerProbe(name)
