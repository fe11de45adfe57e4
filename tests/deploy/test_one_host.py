"""deploy/compose.yaml, really up: the service keeps its store in PostgreSQL, across a restart."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deploy.built import add_image, load_image
from tests.deploy.stand_in_postgres import ENTRY, PROGRAMS, root_of
from tests.engines.base import base_or_why
from tests.engines.dockerd import PrivateEngine
from tests.lab.stacks.engines import compose_for, engine_to_publish

pytestmark = [
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.timeout(3600),
    pytest.mark.group("archive"),
]
FILE = Path(__file__).resolve().parents[2] / "deploy" / "compose.yaml"
POSTGRES = "operator-tests/postgres:18"
COMMAND_S_MAX = 600.0
PROJECT = """\
interval_s = 1
[service]
parts = ["monitor", "agent", "web"]
web = "0.0.0.0:8442"
"""


@pytest.fixture
def engine(pytestconfig: pytest.Config, archive: Path, tmp_path: Path) -> Iterator[PrivateEngine]:
    """An engine with the image of the service, and one of a database."""
    base, why = base_or_why()
    if base is None:
        pytest.skip(why)
    engine = engine_to_publish(pytestconfig)
    try:
        load_image(engine, archive)
        root = tmp_path / "postgres.tar"
        root_of(base.tar, root)
        path = f"ENV PATH={PROGRAMS}:/usr/sbin:/usr/bin:/sbin:/bin PGHOST=/run/postgresql"
        add_image(engine, POSTGRES, root, path, f'ENTRYPOINT ["{ENTRY}"]')
        root.unlink()
        yield engine
    finally:
        engine.end()


def test_the_service_of_one_host_comes_up_and_keeps_its_store(
    engine: PrivateEngine, tmp_path: Path
) -> None:
    shutil.copy(FILE, tmp_path)
    (tmp_path / "secrets").mkdir(mode=0o700)
    (tmp_path / "secrets" / "database").write_text("kX9fQ2mW7pLr\n")
    project = tmp_path / "project"
    project.mkdir()
    (project / "operator.toml").write_text(PROJECT)
    compose = compose_for(engine)
    environ = {
        **os.environ,
        **compose.environment,
        "OPERATOR_PROJECT": str(project),
        "POSTGRES_IMAGE": POSTGRES,
    }
    words = [*compose.words, "--file", str(tmp_path / FILE.name)]

    def do(*more: str) -> str:
        done = subprocess.run(
            [*words, *more],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S_MAX,
        )
        assert done.returncode == 0, (more, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def start() -> None:
        try:
            do("up", "--detach", "--no-build", "--wait")
        except AssertionError as error:
            raise AssertionError(do("logs", "--tail=20")) from error

    ask: Callable[..., str] = lambda *more: do("exec", "--no-TTY", "operator", *more)  # noqa: E731
    try:
        start()
        status = json.loads(ask("operator", "status", "--json"))["status"]
        assert (status["mode"], status["home"]["store"]) == ("observe", "PostgreSQL")
        assert [part["state"] for part in status["parts"]] == ["running"] * 3
        assert ask("id", "-u") == "10001\n"
        assert "kX9fQ2mW7pLr" not in ask("sh", "-c", "cat /proc/*/cmdline | tr '\\0' ' '")
        ask("operator", "tokens", "create", "ada", "--role", "viewer", "--json")
        do("restart", "--timeout", "20")
        start()
        assert '"ada"' in ask("operator", "tokens", "list", "--json")
        assert ask("operator", "store", "check")
    finally:
        do("down", "--volumes", "--timeout", "5")
