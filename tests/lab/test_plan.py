"""From a RigSpec to orders, and the manifest that remembers it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from operator_protocols.domain.rig import LoadSpec, ProcessSpec, RigSpec
from operator_protocols.domain.target import Process
from operator_protocols.errors import NotFoundError, RigError
from operator_sre.lab.manifest import MANIFEST_FILE, Manifest, read_manifest, write_manifest
from operator_sre.lab.plan import LOAD, check_spec, home_of, log_of, plan
from tests.lab.conftest import NODE, STORE, node, rig_spec

_LOAD = LoadSpec("node", "/check", {"key": "k"}, 5.0)


def test_blanks_are_filled_and_other_braces_stay(tmp_path: Path) -> None:
    argv = ("x", "--port={port}", "{dir}/data", "v://{store.port}/0", '{"a": {}}', "{unknown}")
    process = ProcessSpec("a", "node", argv, env={"AT": "{dir}:{port}"})
    spec = RigSpec("tiny", (process, STORE))
    orders = plan(spec, tmp_path, ports={"a": 21, "store": 22}, env={"PATH": "/bin"})
    home = tmp_path / "a"
    assert orders[0].argv == (
        *("x", "--port=21", f"{home}/data", "v://22/0"),
        *('{"a": {}}', "{unknown}"),
    )
    assert orders[0].env == {"PATH": "/bin", "PYTHONUNBUFFERED": "1", "AT": f"{home}:21"}
    assert orders[0].cwd == str(home_of(tmp_path, "a")) == str(home)
    assert orders[0].log == str(log_of(tmp_path, "a"))
    assert not orders[0].start


def test_the_load_is_one_of_the_processes(tmp_path: Path) -> None:
    ports = {"node-1": 21, "node-2": 22, "store": 23}
    orders = plan(rig_spec(2, load=_LOAD), tmp_path, ports=ports, env={})
    assert [order.name for order in orders] == ["node-1", "node-2", "store", LOAD]
    assert '"ports": [21, 22]' in (tmp_path / LOAD / "config.json").read_text()


def test_a_blank_that_names_no_process_is_refused(tmp_path: Path) -> None:
    spec = RigSpec("tiny", (replace(STORE, argv=("x", "{nobody.port}")),))
    with pytest.raises(RigError, match=r"nobody\.port"):
        plan(spec, tmp_path, ports={"store": 21}, env={})


def test_load_needs_something_to_be_put_on(tmp_path: Path) -> None:
    spec = RigSpec("tiny", (STORE,), _LOAD)
    with pytest.raises(RigError, match="nothing of kind 'node'"):
        plan(spec, tmp_path, ports={"store": 21}, env={})


@pytest.mark.parametrize(
    ("processes", "why"),
    [
        ((replace(STORE, name="../up"),), "cannot be the name"),
        ((replace(STORE, name=LOAD),), "cannot be the name"),
        ((replace(STORE, name=""),), "cannot be the name"),
        ((STORE, STORE), "two processes"),
        ((replace(STORE, argv=()),), "has no command"),
        ((NODE,), "needs 'store', which is not in it"),
        ((NODE, replace(STORE, depends_on=("node-1",))), "wait for each other"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(
    processes: tuple[ProcessSpec, ...], why: str
) -> None:
    with pytest.raises(RigError, match=why):
        check_spec(RigSpec("tiny", processes))
    check_spec(rig_spec(3))


def test_a_manifest_survives_the_file(tmp_path: Path) -> None:
    manifest = Manifest(
        spec=rig_spec(2, load=_LOAD),
        created=datetime(2031, 1, 2, 3, 4, 5, tzinfo=UTC),
        maker=Process(1, 2.5),
        ports={"store": 20_001},
        supervisor=Process(3, 4.75),
    )
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert not manifest.live
    assert manifest.process("node-2") == node("node-2")
    with pytest.raises(NotFoundError, match=r"no target 'x' .* node-1, node-2, store"):
        manifest.process("x")


def test_no_manifest_is_none_and_a_damaged_one_an_error(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    for text in ("", "[]", "{}", '{"spec": 1}'):
        (tmp_path / MANIFEST_FILE).write_text(text)
        with pytest.raises(RigError, match="cannot be read"):
            read_manifest(tmp_path)
