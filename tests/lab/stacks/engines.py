"""An engine and a compose for the tests of stacks; both from files of this machine alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from operator_lab.stacks.containers import Containers
from operator_lab.stacks.target import Compose, base_environment_of
from operator_sre.executor.docker import Address
from operator_sre.executor.docker import Engine as Client
from tests.engines.compose import compose_or_why
from tests.engines.dockerd import Engine, PrivateEngine, private_engine

__all__ = ["PLAIN", "TOWN", "compose_for", "containers_of", "engine_to_publish", "on_path"]

PLAIN = Path(__file__).parent / "plain"
TOWN = Path(__file__).parent / "town"


def compose_for(engine: Engine) -> Compose:
    """Compose that talks to this engine; skips where there is none."""
    found, why = compose_or_why()
    if found is None:
        pytest.skip(why)
    environment = {**base_environment_of(os.environ), "DOCKER_HOST": engine.url}
    return Compose((str(found),), "2", environment)


def containers_of(engine: Engine, project: str) -> Containers:
    """The containers of a project on this engine."""
    return Containers(project, Client(Address(socket=engine.socket)))


@contextmanager
def on_path(engine: Engine, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everybody in this process finds this engine, and a compose, by the usual words."""
    compose = compose_for(engine).words[0]
    folder = Path(compose).parent
    with patch.context() as now:
        now.setenv("DOCKER_HOST", engine.url)
        now.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        yield


def engine_to_publish(config: pytest.Config) -> PrivateEngine:
    """An engine of our own whose containers have ports on a loopback; skips without compose."""
    found, why = compose_or_why()
    if found is None:
        pytest.skip(why)
    return private_engine(config, publishing=True)
