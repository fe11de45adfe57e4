"""`operator subjects init` and `test`: what is written, what is shown, and the exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import ConfigError, NotFoundError, UsageError
from operator_protocols.ports import Noted
from operator_sre.app.description import (
    KINDS,
    LeverView,
    Trial,
    Written,
    try_description,
    write_description,
)
from operator_sre.app.subjects import show_subject
from operator_sre.app.wiring import look_at_app
from operator_sre.app.wiring.controls import notes_of
from operator_sre.config import Config, load_config
from operator_sre.faces.cli.subjects import app as subjects_app
from operator_sre.faces.cli.subjects import init, try_out
from operator_sre.gate import Way
from tests.contract.servers import unused_port


def config_in(folder: Path, **flags: str) -> Config:
    home = {"home": str(folder / "home"), **flags}
    return load_config(flags=home, environ={}, cwd=folder)


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def page() -> Iterator[int]:
    """A web server in a thread, for what runs a loop of its own."""
    with HTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join(10.0)


@pytest.mark.parametrize("kind", KINDS)
def test_init_writes_a_description_that_can_be_tried(tmp_path: Path, kind: str) -> None:
    written = write_description(config_in(tmp_path), "mine", kind, folder=tmp_path)
    assert written == Written("mine", str(tmp_path / "mine.yaml"), str(tmp_path / "operator.toml"))
    (subject,) = config_in(tmp_path).subjects
    assert (subject.name, subject.plugin) == ("mine", "declarative")
    assert subject.options == {"file": str(tmp_path / "mine.yaml")}
    text = (tmp_path / "mine.yaml").read_text()
    assert "@" not in text.replace("deploy@web", "")
    with unused_port() as dead:
        (tmp_path / "mine.yaml").write_text(re.sub("8080|6379|5432", str(dead), text))
        trial = asyncio.run(try_description(config_in(tmp_path), tmp_path / "mine.yaml"))
    assert trial.health is Health.BROKEN
    assert trial.subject == "mine"


def test_init_adds_to_what_is_there_and_overwrites_nothing(tmp_path: Path) -> None:
    toml = tmp_path / "operator.toml"
    toml.write_text('# mine\nmode = "approve"\n\n[subjects.a]\nplugin = "ratelimiter"')
    write_description(config_in(tmp_path), "shop", "web", folder=tmp_path)
    text = toml.read_text()
    assert text.startswith('# mine\nmode = "approve"\n\n[subjects.a]\nplugin = "ratelimiter"\n')
    assert set(tomllib.loads(text)["subjects"]) == {"a", "shop"}
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    (tmp_path / "taken.yaml").write_text("precious")
    for name, told in (
        ("shop", "already"),
        ("taken", "not overwritten"),
        ("a b", "not a valid name"),
    ):
        with pytest.raises(UsageError, match=told):
            write_description(config_in(tmp_path), name, "web", folder=tmp_path)
    with pytest.raises(UsageError, match="web, redis, postgres, blank"):
        write_description(config_in(tmp_path), "x", "mainframe", folder=tmp_path)
    assert (tmp_path / "taken.yaml").read_text() == "precious"
    assert {name: (tmp_path / name).read_text() for name in before} == before


def test_init_does_not_break_a_file_that_it_cannot_add_to(tmp_path: Path) -> None:
    toml = tmp_path / "operator.toml"
    toml.write_text('subjects = { a = { plugin = "ratelimiter" } }\n')
    with pytest.raises(UsageError, match="cannot be added"):
        write_description(config_in(tmp_path), "shop", "web", folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["operator.toml"]


LEVERS = """\
name: shop
targets: {web: {kind: web, port: PORT}}
probes: {page: {http: {}}}
invariants:
  answers: {holds: page.ok}
  fast: {holds: page.latency_ms < 60000}
levers:
  restart: {command: ["true"], risk: low, repairs: [answers]}
  flush: {command: ["true"], risk: low}
  move: {command: ["true"], risk: high, parameters: {n: {type: integer}}}
  wipe: {command: "rm -rf /", risk: low}
"""
LEVERS = LEVERS.replace('"true"], risk: high', '"true", "{n}"], risk: high')


def tried(folder: Path, port: int, **flags: str) -> Trial:
    file = folder / "shop.yaml"
    file.write_text(LEVERS.replace("PORT", str(port)))
    return asyncio.run(try_description(config_in(folder, **flags), file))


def test_every_lever_is_judged_as_it_would_be(tmp_path: Path) -> None:
    with page() as port:
        now = tried(tmp_path, port)
        execute = tried(tmp_path, port, mode="execute")
        approve = tried(tmp_path, port, mode="approve")
    assert now.health is Health.HEALTHY

    def ways(trial: Trial) -> dict[str, tuple[Way, Way]]:
        assert all(isinstance(one, LeverView) for one in trial.levers)
        return {one.tool: (one.now, one.in_execute) for one in trial.levers}

    never = (Way.NEVER, Way.NEVER)
    assert ways(now) == {
        "restart_node": (Way.PROPOSES, Way.RUNS),
        "flush": (Way.PROPOSES, Way.ASKS),
        "move": (Way.PROPOSES, Way.ASKS),
        "wipe": never,
    }
    assert ways(execute)["restart_node"] == (Way.RUNS, Way.RUNS)
    assert ways(approve)["restart_node"] == (Way.ASKS, Way.RUNS)
    (wipe,) = [one for one in now.levers if one.tool == "wipe"]
    assert "the gate blocks" in wipe.why
    (flush,) = [one for one in execute.levers if one.tool == "flush"]
    assert flush.risk is Risk.MEDIUM
    assert "names nothing that it repairs" in flush.why
    assert not (tmp_path / "home").exists(), "trying leaves nothing behind"


def test_every_target_of_a_lever_is_shown_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    text = LEVERS.replace("PORT", "1").replace(
        "targets: {", "targets: {b: {kind: other}, c: {kind: web}, "
    )
    text = text.replace("probes: {page", "probes: {none: {process: {pattern: x}}, page")
    file.write_text(
        text.replace("restart: {", "restart: {on: web, ")
        .replace("{http", "{on: web, http")
        .replace("{holds", "{on: web, holds")
    )
    trial = asyncio.run(try_description(config_in(tmp_path), file))
    assert [one.target for one in trial.levers if one.tool == "restart_node"] == ["c", "web"]
    assert [one.target for one in trial.levers if one.tool == "flush"] == ["b", "c", "web"]


def test_the_notes_of_a_description_reach_whoever_thinks(tmp_path: Path) -> None:
    write_description(config_in(tmp_path), "shop", "web", folder=tmp_path)
    with look_at_app(config_in(tmp_path)) as app:
        controls = app.controls("shop")
        plugin = app.plugin_of("shop")
        assert controls.settings is not None
        subject = plugin.subject(controls.settings)
        assert isinstance(subject, Noted)
        assert notes_of(plugin, subject) == controls.notes
        assert show_subject(app, "shop").notes == controls.notes
    assert "what it must never lose" in controls.notes
    assert controls.notes.startswith("This system is described")


def test_a_rate_is_looked_for_twice(tmp_path: Path) -> None:
    file = tmp_path / "it.yaml"
    (tmp_path / "pid").write_text(str(os.getpid()))
    file.write_text(
        "name: a\ntargets: {t: {kind: k}}\nprobes: {it: {process: {pid_file: pid}}}\n"
        "invariants: {i: {holds: it.cpu_percent < 1000000}}\n"
    )
    trial = asyncio.run(try_description(config_in(tmp_path), file))
    assert trial.health is Health.HEALTHY


def test_what_cannot_be_seen_is_not_health(tmp_path: Path) -> None:
    file = tmp_path / "it.yaml"
    file.write_text(
        "name: a\ntargets: {t: {kind: k}}\ninvariants: {i: {holds: a.ok}}\n"
        "probes: {a: {file: {path: it.yaml}}, b: {command: {run: sh x.sh}}}\n"
    )
    trial = asyncio.run(try_description(config_in(tmp_path), file))
    assert trial.health is Health.UNKNOWN
    assert [target for target, _ in trial.problems] == ["t"]
    with pytest.raises(NotFoundError, match="subjects init"):
        asyncio.run(try_description(config_in(tmp_path), tmp_path / "none.yaml"))
    file.write_text("name: a\nporbes: {}\n")
    with pytest.raises(ConfigError, match="Line 2"):
        asyncio.run(try_description(config_in(tmp_path), file))


def test_the_command_shows_it_and_says_by_its_exit_code_how_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from operator_sre.faces.cli import main

    assert {init, try_out} <= {one.callback for one in subjects_app.registered_commands}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPERATOR_HOME", str(tmp_path / "home"))

    def operator(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["operator", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capfd.readouterr()
        return int(ended.value.code or 0), told.out, told.err

    assert operator("subjects", "init", "shop", "--json")[0] == 0
    code, _, err = operator("subjects", "init", "shop")
    assert (code, "already" in err) == (2, True)
    file = tmp_path / "shop.yaml"
    with page() as port:
        file.write_text(LEVERS.replace("PORT", str(port)))
        code, out, _ = operator("subjects", "test", "shop.yaml")
        assert code == 0, out
        assert "shop is healthy." in out
        assert "runs without approval" in out
        code, out, _ = operator("subjects", "test", "shop.yaml", "--json")
        document = json.loads(out)["trial"]
        assert document["health"] == "healthy"
        assert {"target": "web", "reading": "page.status", "value": 200} in document["readings"]
    code, out, _ = operator("subjects", "test", "shop.yaml")
    assert code == 1
    assert "connection refused" in out
    file.write_text(file.read_text().replace("holds", "hlods", 1))
    code, out, err = operator("subjects", "test", "shop.yaml")
    assert (code, out) == (2, "")
    assert "Line 5" in err
    assert "Did you mean 'holds'?" in err
    assert operator("subjects", "test", "none.yaml")[0] == 2
