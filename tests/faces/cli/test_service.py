"""`operator service` and `operator status`, as a person starts and asks them."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from operator_protocols.errors import ConfigError
from operator_sre.config import load_config
from operator_sre.faces.cli.service import must_be_reloadable
from tests.e2e.home import Home
from tests.e2e.waiting import eventually

SETTINGS = """\
interval_s = 1
[service]
parts = ["monitor", "agent", "web", "api", "mcp", "alerts"]
{addresses}
[triggers.pager]
kind = "alertmanager"
open = 1
"""


def _settings(folder: Path) -> str:
    with ExitStack() as stack:
        lines = []
        for name in ("web", "api", "mcp", "alerts"):
            held = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            lines.append(f'{name} = "127.0.0.1:{held.getsockname()[1]}"')
    text = SETTINGS.format(addresses="\n".join(lines))
    (folder / "operator.toml").write_text(text)
    return text


def test_one_process_runs_every_part_and_reads_its_settings_again(home: Home) -> None:
    text = _settings(home.cwd)
    service = home.fork("service", "run")

    def parts() -> dict[str, str]:
        status = home.ask("status")["status"]
        return {part["name"]: part["state"] for part in status["parts"]}

    every = dict.fromkeys(("monitor", "agent", "web", "api", "mcp", "alerts"), "running")
    eventually(lambda: parts() == every, "every part runs")
    second = home.run("service", "run")
    assert second.code == 1
    assert "already" in second.err
    (home.cwd / "operator.toml").write_text("nonsense = 1\n")
    os.kill(service.pid, signal.SIGHUP)
    eventually(lambda: "previous settings stay in force" in service.said, "it refuses nonsense")
    fewer = text.replace('"web", "api", "mcp", ', "")
    fewer = fewer.replace("[service]", '[service]\nlog_file = "service.log"')
    (home.cwd / "operator.toml").write_text(fewer)
    os.kill(service.pid, signal.SIGHUP)
    rest = dict.fromkeys(("monitor", "agent", "alerts"), "running")
    eventually(lambda: parts() == rest, "only the parts that are named still run")
    assert "the settings have changed" in (home.cwd / "service.log").read_text()
    assert "the settings have changed" not in service.said
    assert service.end() == 128 + signal.SIGTERM
    assert home.ask("status")["status"]["service"] == "stopped"
    assert "!! no monitor is running" in home.run("status").out


def test_a_listener_for_other_machines_needs_a_person(home: Home) -> None:
    toml = '[service]\nparts = ["web"]\nweb = "0.0.0.0:18442"\n'
    (home.cwd / "operator.toml").write_text(toml)
    done = home.run("service", "run")
    assert done.code == 4, done
    assert "reachable from other machines" in done.out


def test_the_unit_is_shown_and_written_for_the_own_account(home: Home) -> None:
    shown = home.run("service", "install", "--print")
    assert "Type=notify" in shown.out
    config = home.cwd / "config"
    done = home.run("service", "install", XDG_CONFIG_HOME=str(config))
    assert done.code == 0, done
    assert "daemon-reload" in done.out
    assert (config / "systemd" / "user" / "operator.service").read_text() == shown.out
    refused = home.run("service", "install", "--system", "--user", "root")
    assert (refused.code, "must not run as root" in refused.err) == (2, True)
    assert home.run("service", "install", "--system").code == 2
    words = ("service", "install", "--system", "--user", "operator-sre", "--print")
    assert "User=operator-sre\n" in home.run(*words, HOME="/nonexistent").out
    refused = home.run(*words, HOME=str(home.cwd))
    assert (refused.code, "Name one of operator-sre" in refused.err) == (2, True)


def test_a_reload_refuses_what_needs_a_restart_or_a_person(tmp_path: Path) -> None:
    def config(toml: str, **flags: str) -> object:
        (tmp_path / "operator.toml").write_text(toml)
        return load_config(flags={"home": str(tmp_path), **flags}, environ={}, cwd=tmp_path)

    before = config("")
    must_be_reloadable(before, config("interval_s = 3"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="store cannot change"):
        must_be_reloadable(before, config("", store="postgresql://db/x"))  # type: ignore[arg-type]
    for name in ("api", "web", "mcp", "alerts"):
        public = config(f'[service]\nparts = ["{name}"]\n{name} = "0.0.0.0:1"')
        with pytest.raises(ConfigError, match="reachable"):
            must_be_reloadable(before, public)  # type: ignore[arg-type]
        must_be_reloadable(public, public)  # type: ignore[arg-type]
