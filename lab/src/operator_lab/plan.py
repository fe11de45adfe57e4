"""From a RigSpec to the orders of its supervisor: checked, with ports and directories filled in."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath

from operator_lab.manifest import HOST, LINKS, LOAD, Layout, nonsense, own_home, port_keys
from operator_lab.places import User
from operator_protocols.domain.rig import LoadSpec, ProcessSpec, RigSpec
from operator_sre.processes.supervision import Supervised

__all__ = ["LINKS_CONFIG_FILE", "aside", "check_spec", "plan"]

LINKS_CONFIG_FILE = "config.json"
LOAD_CONFIG_FILE = "config.json"
VOLUME_MB_MAX = 4096
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_RESERVED = frozenset({LOAD, LINKS, "control"})
_ASIDE = "-aside"


def check_spec(spec: RigSpec) -> None:
    """RigError with the first thing that makes no sense, before anything is started."""
    names = [process.name for process in spec.processes]
    for process in spec.processes:
        if why := _nonsense_of(process, names):
            raise nonsense(spec, why)
    try:
        TopologicalSorter(
            {process.name: process.depends_on for process in spec.processes}
        ).prepare()
    except CycleError as problem:
        circle = " needs ".join(problem.args[1])
        raise nonsense(spec, f"its processes wait for each other: {circle}") from None


def _nonsense_of(process: ProcessSpec, names: list[str]) -> str:
    name = process.name
    if not _NAME.fullmatch(name) or name in _RESERVED or name.endswith(_ASIDE):
        return f"{name!r} cannot be the name of a process"
    if names.count(name) > 1:
        return f"{name!r} is the name of two processes"
    if not process.argv or not all(process.prepare):
        return f"{name!r} has no command"
    for need in process.depends_on:
        if need not in names:
            return f"{name!r} needs {need!r}, which is not in it"
    for port in process.ports:
        if not _NAME.fullmatch(port) or process.ports.count(port) > 1:
            return f"{port!r} cannot be the name of a port of {name!r}"
    for path in process.files:
        parts = PurePosixPath(path).parts
        absolute = path.startswith(("/", "~"))
        if not (bool(parts) and not absolute and ".." not in parts and "\0" not in path):
            return f"{path!r} is not the path of a file below the directory of {name!r}"
    if not 0 <= process.volume_mb <= VOLUME_MB_MAX:
        return f"{name!r} cannot have a volume of {process.volume_mb} MB"
    return ""


def plan(layout: Layout, *, env: Mapping[str, str], user: User | None) -> tuple[Supervised, ...]:
    """What to run; all but the links wait to be asked for. `user` is who the unprivileged are."""
    spec = layout.manifest.spec
    orders = [_order(layout, process, env=env, user=user) for process in spec.processes]
    for process in spec.processes:
        # A web server such as people start to share a few files, on the port of a process.
        port = str(layout.manifest.ports[process.name])
        place = own_home(layout.directory, LINKS) / "empty"
        beside = Supervised(
            name=aside(process.name),
            argv=(sys.executable, "-P", "-m", "http.server", "--bind", HOST, port),
            cwd=str(place),
            log=str(place.with_suffix(".log")),
            env=env,
            start=False,
        )
        orders.append(beside)
    if layout.manifest.links:
        home = own_home(layout.directory, LINKS)
        config = home / LINKS_CONFIG_FILE
        manifest = layout.manifest
        record = {
            "directory": str(layout.directory),
            "links": [
                {"target": process.name, "listen": manifest.links[key], "to": manifest.ports[key]}
                for process in manifest.spec.processes
                if process.linked
                for key in port_keys(process)
            ],
            "targets": [process.name for process in manifest.spec.processes],
        }
        config.write_text(json.dumps(record), encoding="utf-8")
        orders.append(
            Supervised(
                name=LINKS,
                argv=(sys.executable, "-P", "-m", "operator_lab.links", "--config", str(config)),
                cwd=str(home),
                log=str(layout.log(LINKS)),
                env=env,
            )
        )
    if spec.load is not None:
        orders.append(_load_order(layout, spec.load, env=env))
    return tuple(orders)


def aside(name: str) -> str:
    """Under which name the supervisor knows what can take the port of a process."""
    return f"{name}{_ASIDE}"


def _order(
    layout: Layout, process: ProcessSpec, *, env: Mapping[str, str], user: User | None
) -> Supervised:
    def fill_words(words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(layout.fill(process, word) for word in words)

    runs_as = user if process.unprivileged else None
    home = layout.home(process.name)
    identity = {} if runs_as is None else {**runs_as.env, "HOME": str(home)}
    own = {name: layout.fill(process, value) for name, value in process.env.items()}
    return Supervised(
        name=process.name,
        argv=fill_words(process.argv),
        cwd=str(home),
        log=str(layout.log(process.name)),
        # Unbuffered, so that the last words of a killed Python process are in its log.
        env={**env, **identity, "PYTHONUNBUFFERED": "1", **own},
        start=False,
        prepare=tuple(fill_words(argv) for argv in process.prepare),
        check=fill_words(process.ready_argv),
        uid=None if runs_as is None else runs_as.uid,
        gid=None if runs_as is None else runs_as.gid,
    )


def _load_order(layout: Layout, load: LoadSpec, *, env: Mapping[str, str]) -> Supervised:
    home = own_home(layout.directory, LOAD)
    config = home / LOAD_CONFIG_FILE
    spec = layout.manifest.spec
    ports = [
        layout.manifest.public_port(process.name)
        for process in spec.processes
        if process.kind == load.kind
    ]
    if not ports or load.rate_per_s <= 0:
        raise nonsense(spec, f"there is nothing of kind {load.kind!r} to put load on")
    record = {
        "host": HOST,
        "ports": ports,
        "path": load.path,
        "body": dict(load.body),
        "rate_per_s": load.rate_per_s,
        "shape": load.shape,
        "statement": load.statement,
        "dsn": load.dsn,
    }
    config.write_text(json.dumps(record), encoding="utf-8")
    return Supervised(
        name=LOAD,
        argv=(sys.executable, "-P", "-m", "operator_lab.load", "--config", str(config)),
        cwd=str(home),
        log=str(layout.log(LOAD)),
        env=env,
        start=False,
    )
