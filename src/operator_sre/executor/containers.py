"""Containers of this home, found by their label and ended through the docker command."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from operator_sre.processes.run import run

__all__ = ["LABEL", "ContainersEnded", "end_containers"]

LABEL = "operator-sre.home"
ANSWER_S_MAX = 5.0
OUTPUT_BYTES_MAX = 64 * 1024
_PASSED_ON = (
    *("PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG"),
    *("DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"),
)


@dataclass(frozen=True, slots=True)
class ContainersEnded:
    """Which containers were ended, or why none could be looked for."""

    ended: tuple[str, ...] = ()
    note: str = ""


async def end_containers(home: str) -> ContainersEnded:
    """End every container that carries the label of this home, within a few seconds."""
    docker = shutil.which("docker")
    if docker is None:
        return ContainersEnded(note="docker is not installed")
    found = await _ask(docker, "ps", "--quiet", "--filter", f"label={LABEL}={home}")
    if found is None:
        return ContainersEnded(note="docker did not answer")
    names = tuple(found.split())
    if names and await _ask(docker, "rm", "--force", *names) is None:
        return ContainersEnded(note=f"docker did not end {', '.join(names)}")
    return ContainersEnded(ended=names)


async def _ask(docker: str, *words: str) -> str | None:
    done = await run(
        [docker, *words],
        cwd="/",
        env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
        timeout_s=ANSWER_S_MAX / 2,
        grace_s=0.1,
        output_bytes_max=OUTPUT_BYTES_MAX,
    )
    return None if done.exit_code or done.timed_out else done.stdout.decode("utf-8", "replace")
