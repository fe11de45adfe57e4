"""The wheels that `make dist` builds: installed elsewhere, they are the whole product."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tomllib
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest

import dist
from operator_lab.ports import reserve_ports
from operator_sre import __version__
from operator_sre.release import code_revision
from tests.e2e.terminal import Terminal
from tests.e2e.waiting import eventually
from tests.every import every

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
EXTRAS = tuple(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
)


def _run(*words: object, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environ: Mapping[str, str] = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "OPERATOR_HOME": str(home / "operator"),
        **more,
    }
    return subprocess.run(
        [str(word) for word in words],
        env=environ,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    dist.build(folder)
    return folder


@pytest.fixture(scope="module")
def installed(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `operator` of an environment that has our wheels, and not our checkout."""
    place = tmp_path_factory.mktemp("elsewhere")
    own = [UV, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", place / "venv"]
    made = _run(UV, "venv", "--quiet", "--python", sys.executable, place / "venv", home=place)
    assert made.returncode == 0, made.stderr
    done = _run(*own, *sorted(wheels.glob("*.whl")), home=place)
    assert done.returncode == 0, done.stderr
    # The dependencies are those of this environment; its editable installs are not followed.
    (site,) = (place / "venv").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "venv" / "bin" / "operator"


def test_the_version_names_the_commit_of_the_build(installed: Path, tmp_path: Path) -> None:
    done = _run(installed, "--version", home=tmp_path)
    commit = code_revision().rstrip("+")[:12]
    assert done.stdout.startswith(f"operator {__version__} (commit {commit}"), done.stderr


def test_every_page_of_the_documentation_is_in_the_wheel(installed: Path, tmp_path: Path) -> None:
    done = _run(installed, "docs", "--json", home=tmp_path)
    pages = {row["topic"] for row in json.loads(done.stdout)["topics"]}
    docs = ROOT / "docs"
    assert pages == {
        path.relative_to(docs).with_suffix("").as_posix() for path in docs.rglob("*.md")
    }
    shown = _run(installed, "docs", "subjects/etcd", home=tmp_path).stdout
    assert shown.strip() == (docs / "subjects" / "etcd.md").read_text().strip()


def test_a_schema_is_that_of_the_documentation(installed: Path, tmp_path: Path) -> None:
    done = _run(installed, "docs", "--schema", "operator tickets  list", home=tmp_path)
    file = ROOT / "docs" / "schemas" / "cli" / "tickets-list.json"
    assert json.loads(done.stdout) == json.loads(file.read_text())
    done = _run(installed, "docs", "--schema", "ticket list", home=tmp_path)
    assert "Did you mean 'tickets list'?" in done.stderr


def test_a_misspelled_topic_names_the_nearest(installed: Path, tmp_path: Path) -> None:
    done = _run(installed, "docs", "gats", home=tmp_path)
    assert done.returncode == 2
    assert "Did you mean 'gate'?" in done.stderr


@every("line", ["gate check -- uptime", "lab faults etcd"])
def test_the_installed_command_works(installed: Path, tmp_path: Path, line: str) -> None:
    done = _run(installed, *line.split(), home=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_sums_are_those_of_the_wheels(wheels: Path) -> None:
    done = _run("sha256sum", "--check", "--quiet", "SHA256SUMS", home=wheels)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len((wheels / "SHA256SUMS").read_text().splitlines()) == len(dist.PROJECTS)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_each_extra_installs_into_an_empty_environment(
    wheels: Path, tmp_path: Path, extra: str
) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    name = f"operator-sre[{extra}]" if extra else "operator-sre"
    place = ["-f", str(wheels), "-c", str(wheels / "constraints.txt")]
    # With the machine's settings of pip, as a user has them.
    subprocess.run([venv / "bin" / "pip", "install", "--quiet", *place, name], check=True)
    whole = _run(venv / "bin" / "pip", "check", home=tmp_path)
    assert whole.returncode == 0, whole.stdout
    operator = venv / "bin" / "operator"
    assert _run(operator, "--help", home=tmp_path).returncode == 0
    nouns = {"lab": "lab", "demo": "demo", "evals": "eval", "tui": "tui", "web": "web"}
    assert _run(operator, nouns.get(extra, "docs"), "--help", home=tmp_path).returncode == 0


FACES = "alerts,mcp,tui,web"
SERVICE = """\
interval_s = 1
[triggers.pager]
kind = "alertmanager"
open = 1
[service]
parts = ["monitor", "agent", "web", "api", "mcp", "alerts"]
web = "127.0.0.1:{web}"
api = "127.0.0.1:{api}"
mcp = "127.0.0.1:{mcp}"
alerts = "127.0.0.1:{alerts}"
"""
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}


class _Installation:
    """A new environment with these extras, and a home beside it."""

    def __init__(self, folder: Path, wheels: Path, extras: str) -> None:
        venv = folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        place = ["-f", str(wheels), "-c", str(wheels / "constraints.txt")]
        name = f"operator-sre[{extras}]"
        subprocess.run([venv / "bin" / "pip", "install", "--quiet", *place, name], check=True)
        self.folder, self.operator = folder, venv / "bin" / "operator"
        home = {"HOME": str(folder), "OPERATOR_HOME": str(folder / "home")}
        self.environ = {"PATH": "/usr/bin:/bin", **home}

    def ask(self, *words: str, given: str = "") -> str:
        """What a command prints that must succeed."""
        done = subprocess.run(
            [self.operator, *words],
            env=self.environ,
            cwd=self.folder,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def states(self) -> list[str]:
        """The states of the parts of the service."""
        parts = json.loads(self.ask("status", "--json"))["status"]["parts"]
        return [part["state"] for part in parts]

    def bearer(self, *words: str) -> dict[str, str]:
        """The headers of a viewer with a new token."""
        made = json.loads(self.ask("tokens", "create", *words, "--role", "viewer", "--json"))
        return {"Authorization": f"Bearer {made['secret']}"}


def _fetch(port: int, path: str, body: object = None, **headers: str) -> str:
    """The body of an answer; HTTPError for one that is no success."""
    content = None if body is None else json.dumps(body).encode()
    given = {"Content-Type": "application/json", **headers}
    url = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(url, data=content, headers=given)
    with urllib.request.urlopen(request, timeout=30.0) as answer:  # noqa: S310
        return str(answer.read().decode())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_face_of_an_installation_answers(wheels: Path, tmp_path: Path) -> None:
    """All parts of a service, the terminal console, and MCP on a pipe; nothing of the checkout."""
    new = _Installation(tmp_path, wheels, FACES)
    with reserve_ports(("web", "api", "mcp", "alerts")) as reserved:
        ports = dict(reserved.ports)
        (tmp_path / "operator.toml").write_text(SERVICE.format_map(ports))
        with (tmp_path / "log").open("wb") as log:
            words = [str(new.operator), "service", "run"]
            service = subprocess.Popen(words, env=new.environ, cwd=tmp_path, stdout=log, stderr=log)
        try:
            eventually(lambda: new.states() == ["running"] * 6, "all parts run", every_s=1.0)
            assert "<html" in _fetch(ports["web"], "/login")
            assert _fetch(ports["api"], "/healthz")
            served = _fetch(ports["api"], "/v1/openapi.json", **new.bearer("reader"))
            assert json.loads(served) == json.loads((ROOT / "docs" / "openapi.json").read_text())
            accepts = {"Accept": "application/json, text/event-stream"}
            headers = new.bearer("friend", "--for", "mcp") | accepts
            assert "serverInfo" in _fetch(ports["mcp"], "/mcp", HELLO, **headers)
            alert = {"labels": {"alertname": "Down"}, "status": "firing", "fingerprint": "1"}
            fired = {"version": "4", "alerts": [alert]}
            assert _fetch(ports["alerts"], "/alerts/pager", fired)
        finally:
            service.terminate()
            service.wait(60.0)
    assert b"Traceback" not in (tmp_path / "log").read_bytes()
    assert "serverInfo" in new.ask("mcp", given=json.dumps(HELLO) + "\n")
    terminal = Terminal([str(new.operator), "tui"], cwd=tmp_path, environ=new.environ)
    try:
        terminal.shows("Health")
        terminal.type("q")
        assert terminal.ended() == 0
    finally:
        terminal.close()
