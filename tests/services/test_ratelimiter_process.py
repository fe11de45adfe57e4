"""A node starts fast or says in one sentence why not, and stops when asked."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

import pytest

from operator_ratelimiter.settings import OnStoreLoss, parse_settings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.services.conftest import Rig

STORE = ("--store", "valkey://127.0.0.1:1/0")


def test_a_taken_port_ends_in_one_sentence_and_exit_code_one(rig: Rig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        process = rig.run("--name", "node-1", "--port", str(port), *STORE)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 1
    assert stderr.decode() == (
        f"port {port} on 127.0.0.1 is already taken: "
        "stop what listens there or choose another --port.\n"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_that_is_asked_to_stop_exits_with_zero(rig: Rig, number: int) -> None:
    node = rig.fresh_node(rig.store())
    node.check("a")
    node.process.send_signal(number)
    assert node.process.wait(timeout=30) == 0
    lines = node.log.splitlines()
    assert "INFO node 'node-1' started on " in lines[0]
    assert lines[-1].endswith("INFO node 'node-1' stopped")
    assert "Traceback" not in node.log


def test_a_node_stops_also_while_its_store_hangs(rig: Rig) -> None:
    store = rig.store()
    node = rig.node(store, "--store-timeout-s", "0.8")
    store.pause()
    node.process.terminate()
    assert node.process.wait(timeout=30) == 0
    assert "Traceback" not in node.log


def test_a_node_answers_without_waiting_for_its_store(rig: Rig) -> None:
    node = rig.node(rig.store(started=False))
    assert node.get("/health")["status"] == "up"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--port", "1", *STORE), "--name"),
        (("--name", "a b", "--port", "1", *STORE), "'a b' does not match"),
        (("--name", "n", "--port", "70000", *STORE), "up to 65535"),
        (("--name", "n", "--port", "1", "--store", "http://:secret@x"), "valkey://HOST:PORT/DB"),
        (("--name", "n", "--port", "1", *STORE, "--window-s", "0"), "'0' is not between"),
        (("--name", "n", "--port", "1", *STORE, "--store-timeout-s", "2"), "0.9"),
        (("--name", "n", "--port", "1", *STORE, "--registry-ttl-s", "5"), "greater than"),
        (("--name", "n", "--port", "1", *STORE, "--on-store-loss", "shrug"), "fail_closed"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_with_the_reason(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse_settings(options)
    assert exit_.value.code == 2
    stderr = capsys.readouterr().err
    assert complaint in stderr
    assert "secret" not in stderr


def test_options_left_out_have_the_figures_of_the_requirements() -> None:
    settings = parse_settings(("--name", "n", "--port", "8001", *STORE))
    assert (settings.default_limit, settings.window_s) == (100, 60)
    assert (settings.heartbeat_s, settings.registry_ttl_s) == (10, 30)
    assert settings.on_store_loss is OnStoreLoss.FAIL_OPEN


def test_a_password_shows_neither_in_the_settings_nor_in_the_address(tmp_path: Path) -> None:
    password_file = tmp_path / "password"
    password_file.write_text("open-sesame")
    store = ("--store", "valkey://user:in-url@127.0.0.1:6379/0")
    settings = parse_settings(
        ("--name", "n", "--port", "1", *store, "--store-password-file", str(password_file))
    )
    assert settings.store_password == "open-sesame"
    assert "open-sesame" not in repr(settings)
    assert settings.store_address == "127.0.0.1:6379/0"


def test_a_missing_password_file_is_named(rig: Rig, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    process = rig.run("--name", "n", "--port", "0", *STORE, "--store-password-file", str(missing))
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 1
    assert stderr.decode().startswith(f"cannot read the store's password from {str(missing)!r}: ")
    assert len(stderr.splitlines()) == 1
