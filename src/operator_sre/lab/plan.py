"""From a RigSpec to what the supervisor is told: checked, ports and directories filled in."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from operator_protocols.domain.rig import ProcessSpec, RigSpec
from operator_protocols.errors import RigError
from operator_sre.lab.manifest import HOST
from operator_sre.processes.supervision import Supervised

__all__ = ["LOAD", "check_spec", "home_of", "log_of", "plan"]

LOAD = "load"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_RESERVED = frozenset({LOAD, "control"})
_BLANK = re.compile(r"\{(?:(port|dir)|([A-Za-z0-9_-]+)\.port)\}")


def check_spec(spec: RigSpec) -> None:
    """RigError with the first thing that makes no sense, before anything is started."""
    names = [process.name for process in spec.processes]
    for process in spec.processes:
        if not _NAME.fullmatch(process.name) or process.name in _RESERVED:
            raise _nonsense(spec, f"{process.name!r} cannot be the name of a process")
        if names.count(process.name) > 1:
            raise _nonsense(spec, f"{process.name!r} is the name of two processes")
        if not process.argv:
            raise _nonsense(spec, f"{process.name!r} has no command")
        for need in process.depends_on:
            if need not in names:
                raise _nonsense(spec, f"{process.name!r} needs {need!r}, which is not in it")
    try:
        TopologicalSorter({each.name: each.depends_on for each in spec.processes}).prepare()
    except CycleError as problem:
        circle = " needs ".join(problem.args[1])
        raise _nonsense(spec, f"its processes wait for each other: {circle}") from None


def plan(
    spec: RigSpec, directory: Path, *, ports: Mapping[str, int], env: Mapping[str, str]
) -> tuple[Supervised, ...]:
    """What to run, with a private directory for each; all wait to be asked for."""
    orders = [_order(spec, each, directory, ports=ports, env=env) for each in spec.processes]
    if spec.load is not None:
        orders.append(_load_order(directory, env=env))
        _write_load_config(spec, directory, ports=ports)
    return tuple(orders)


def home_of(directory: Path, name: str) -> Path:
    """The private directory of one process."""
    return directory / name


def log_of(directory: Path, name: str) -> Path:
    """Where one process writes what it says."""
    return home_of(directory, name) / f"{name}.log"


def _order(
    spec: RigSpec,
    process: ProcessSpec,
    directory: Path,
    *,
    ports: Mapping[str, int],
    env: Mapping[str, str],
) -> Supervised:
    home = home_of(directory, process.name)
    home.mkdir(mode=0o700)

    def fill(match: re.Match[str]) -> str:
        if match[1] == "dir":
            return str(home)
        name = match[2] or process.name
        if name not in ports:
            raise _nonsense(spec, f"{match[0]!r} of {process.name!r} names no process")
        return str(ports[name])

    own = {name: _BLANK.sub(fill, value) for name, value in process.env.items()}
    return Supervised(
        name=process.name,
        argv=tuple(_BLANK.sub(fill, word) for word in process.argv),
        cwd=str(home),
        log=str(log_of(directory, process.name)),
        # Unbuffered, so that the last words of a killed Python process are in its log.
        env={**env, "PYTHONUNBUFFERED": "1", **own},
        start=False,
    )


def _load_order(directory: Path, *, env: Mapping[str, str]) -> Supervised:
    home = home_of(directory, LOAD)
    home.mkdir(mode=0o700)
    config = str(home / "config.json")
    return Supervised(
        name=LOAD,
        argv=(sys.executable, "-P", "-m", "operator_sre.lab.load", "--config", config),
        cwd=str(home),
        log=str(log_of(directory, LOAD)),
        env=env,
        start=False,
    )


def _write_load_config(spec: RigSpec, directory: Path, *, ports: Mapping[str, int]) -> None:
    load = spec.load
    if load is None:
        return
    nodes = [ports[each.name] for each in spec.processes if each.kind == load.kind]
    if not nodes or load.rate_per_s <= 0:
        raise _nonsense(spec, f"there is nothing of kind {load.kind!r} to put load on")
    record = {
        "host": HOST,
        "ports": nodes,
        "path": load.path,
        "body": dict(load.body),
        "rate_per_s": load.rate_per_s,
    }
    (home_of(directory, LOAD) / "config.json").write_text(json.dumps(record), encoding="utf-8")


def _nonsense(spec: RigSpec, why: str) -> RigError:
    return RigError(
        f"The rig of {spec.subject!r} cannot be built: {why}.",
        next_step="Correct the RigSpec of its plug-in.",
    )
