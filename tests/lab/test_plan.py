"""From a RigSpec to orders, and the manifest that remembers it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from operator_lab.manifest import (
    LINKS,
    LOAD,
    MANIFEST_FILE,
    Layout,
    Manifest,
    Volumes,
    has_volume,
    nonsense,
    own_home,
    port_keys,
    read_manifest,
    write_manifest,
)
from operator_lab.plan import (
    LINKS_CONFIG_FILE,
    User,
    aside,
    check_spec,
    choose_homes,
    clear,
    make_places,
    plan,
    unprivileged_user,
)
from operator_protocols.domain.rig import LoadShape, LoadSpec, ProcessSpec, RigSpec
from operator_protocols.domain.target import Process
from operator_protocols.errors import NotFoundError, RigError
from operator_sre.processes.supervision import Supervised
from tests.lab.conftest import NODE, STORE, node, rig_spec

_LOAD = LoadSpec("node", "/check", {"key": "k"}, 5.0, LoadShape.BURST)
_MADE = datetime(2031, 1, 2, 3, 4, 5, tzinfo=UTC)


def _layout(
    directory: Path,
    *processes: ProcessSpec,
    ports: Mapping[str, int],
    links: Mapping[str, int] | None = None,
    load: LoadSpec | None = None,
) -> Layout:
    spec = RigSpec("tiny", processes, load)
    return Layout(directory, Manifest(spec, _MADE, Process(1, 2.5), ports, links=links or {}))


def _planned(layout: Layout, env: Mapping[str, str] | None = None) -> dict[str, Supervised]:
    make_places(layout, None)
    return {each.name: each for each in plan(layout, env=env or {}, user=None)}


def test_blanks_are_filled_and_other_braces_stay(tmp_path: Path) -> None:
    argv = ("x", "--port={port}", "{dir}/data", "v://{store.port}/0", '{"a": {}}', "{unknown}")
    process = ProcessSpec("a", "node", argv, env={"AT": "{dir}:{port}"})
    layout = _layout(tmp_path, process, STORE, ports={"a": 21, "store": 22})
    order = _planned(layout, {"PATH": "/bin"})["a"]
    home = tmp_path / "a"
    assert order.argv == (
        *("x", "--port=21", f"{home}/data", "v://22/0"),
        *('{"a": {}}', "{unknown}"),
    )
    assert order.env == {"PATH": "/bin", "PYTHONUNBUFFERED": "1", "AT": f"{home}:21"}
    assert order.cwd == str(own_home(tmp_path, "a")) == str(layout.home("a")) == str(home)
    assert order.log == str(layout.log("a"))
    assert not order.start


def test_what_is_linked_listens_on_one_port_and_is_reached_at_another(tmp_path: Path) -> None:
    words = "{port} {port:peer} {a.port} {a.port:peer} {b.port} {b.port:peer} {a.dir} {b.dir}"
    one = ProcessSpec("a", "node", (words,), ports=("peer",), linked=True)
    two = ProcessSpec("b", "node", (words,), ports=("peer",), env={"X": words})
    ports = {"a": 1, "a:peer": 2, "b": 3, "b:peer": 4}
    assert port_keys(one) + port_keys(two) == tuple(ports)
    layout = _layout(tmp_path, one, two, ports=ports, links={"a": 11, "a:peer": 12})
    orders = _planned(layout)
    dirs = f"{tmp_path}/a {tmp_path}/b"
    assert orders["a"].argv == (f"1 2 11 12 3 4 {dirs}",)
    assert orders["b"].argv == (f"3 4 11 12 3 4 {dirs}",)
    assert orders["b"].env["X"] == orders["b"].argv[0]
    config = json.loads((own_home(tmp_path, LINKS) / LINKS_CONFIG_FILE).read_text())
    assert config["links"] == [
        {"target": "a", "listen": 11, "to": 1},
        {"target": "a", "listen": 12, "to": 2},
    ]
    assert orders[LINKS].start


def test_without_a_link_nobody_holds_links(tmp_path: Path) -> None:
    assert LINKS not in _planned(_layout(tmp_path, STORE, ports={"store": 21}))


def test_files_are_written_with_their_blanks_filled(tmp_path: Path) -> None:
    files = {"a.conf": "listen {port}\n{dir}\n{}", "deep/er/b": "{volume}"}
    process = replace(STORE, files=files, prepare=(("mk", "{dir}"),), ready_argv=("ok", "{port}"))
    layout = _layout(tmp_path, process, ports={"store": 21})
    order = _planned(layout)["store"]
    home = tmp_path / "store"
    assert (home / "a.conf").read_text() == f"listen 21\n{home}\n{{}}"
    assert (home / "deep/er/b").read_text() == str(layout.volume("store"))
    assert stat.S_IMODE((home / "a.conf").stat().st_mode) == 0o600
    assert (order.prepare, order.check) == ((("mk", str(home)),), ("ok", "21"))
    assert has_volume(process)
    assert layout.volume("store").is_dir()
    assert not has_volume(STORE)


def test_the_unprivileged_live_where_they_can_enter_and_run_as_nobody(tmp_path: Path) -> None:
    user = User("somebody", 4711, 4712)
    spec = RigSpec("tiny", (replace(STORE, unprivileged=True, env={"A": "{dir}"}), NODE))
    homes = choose_homes(spec, user)
    assert choose_homes(spec, None) == {}
    assert list(homes) == ["store"]
    assert not Path(homes["store"]).exists()
    away = tmp_path / "away"
    ports = {"store": 21, "node-1": 22}
    manifest = Manifest(spec, _MADE, Process(1, 2.5), ports, homes={"store": str(away)})
    layout = Layout(tmp_path / "rig", manifest)
    (tmp_path / "rig").mkdir()
    # Only root can give something away, so this is done by who we are.
    make_places(layout, User("me", os.geteuid(), os.getegid()))
    orders = {each.name: each for each in plan(layout, env={"HOME": "/root"}, user=user)}
    store = orders["store"]
    assert (store.uid, store.gid, store.cwd) == (4711, 4712, str(away))
    assert (store.env["HOME"], store.env["USER"], store.env["A"]) == (
        str(away),
        user.name,
        str(away),
    )
    assert (orders["node-1"].uid, orders["node-1"].env["HOME"]) == (None, "/root")
    clear(tmp_path / "rig", manifest.homes)
    assert not away.exists()
    assert list((tmp_path / "rig").iterdir()) == []


def test_who_is_not_root_needs_nobody_else() -> None:
    user = unprivileged_user()
    assert (user is None) == (os.geteuid() != 0)
    assert user is None or user.uid != 0


def test_the_load_is_one_of_the_processes_and_goes_through_links(tmp_path: Path) -> None:
    ports = {"node-1": 21, "node-2": 22, "store": 23}
    nodes = (replace(NODE, linked=True), node("node-2"))
    orders = _planned(
        _layout(tmp_path, *nodes, STORE, ports=ports, links={"node-1": 31}, load=_LOAD)
    )
    assert list(orders) == [
        *("node-1", "node-2", "store"),
        *(aside("node-1"), aside("node-2"), aside("store")),
        *(LINKS, LOAD),
    ]
    config = json.loads((tmp_path / LOAD / "config.json").read_text())
    assert (config["ports"], config["shape"]) == ([31, 22], "burst")


@pytest.mark.parametrize("blank", ["{nobody.port}", "{port:nothing}", "{store.port:no}", "{x.dir}"])
def test_a_blank_that_names_nothing_is_refused(tmp_path: Path, blank: str) -> None:
    layout = _layout(tmp_path, replace(STORE, argv=("x", blank)), ports={"store": 21})
    with pytest.raises(RigError, match="names nothing"):
        _planned(layout)
    assert "cannot be built" in str(nonsense(layout.manifest.spec, "no"))


def test_load_needs_something_to_be_put_on(tmp_path: Path) -> None:
    with pytest.raises(RigError, match="nothing of kind 'node'"):
        _planned(_layout(tmp_path, STORE, ports={"store": 21}, load=_LOAD))


@pytest.mark.parametrize(
    ("processes", "why"),
    [
        ((replace(STORE, name="../up"),), "cannot be the name"),
        ((replace(STORE, name=LOAD),), "cannot be the name"),
        ((replace(STORE, name=LINKS),), "cannot be the name"),
        ((replace(STORE, name=aside("store")),), "cannot be the name"),
        ((replace(STORE, name=""),), "cannot be the name"),
        ((STORE, STORE), "two processes"),
        ((replace(STORE, argv=()),), "has no command"),
        ((replace(STORE, prepare=((),)),), "has no command"),
        ((NODE,), "needs 'store', which is not in it"),
        ((NODE, replace(STORE, depends_on=("node-1",))), "wait for each other"),
        ((replace(STORE, ports=("a", "a")),), "name of a port"),
        ((replace(STORE, ports=("a:b",)),), "name of a port"),
        ((replace(STORE, files={"../x": ""}),), "not the path of a file below"),
        ((replace(STORE, files={"a/../../x": ""}),), "not the path of a file below"),
        ((replace(STORE, files={"/etc/x": ""}),), "not the path of a file below"),
        ((replace(STORE, files={"": ""}),), "not the path of a file below"),
        ((replace(STORE, files={"a\0": ""}),), "not the path of a file below"),
        ((replace(STORE, volume_mb=-1),), "cannot have a volume"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(
    processes: tuple[ProcessSpec, ...], why: str
) -> None:
    with pytest.raises(RigError, match=why):
        check_spec(RigSpec("tiny", processes))
    check_spec(rig_spec(3))


def test_a_manifest_survives_the_file(tmp_path: Path) -> None:
    whole = replace(
        STORE,
        name="whole",
        files={"a": "b"},
        prepare=(("a", "b"), ("c",)),
        ports=("peer",),
        ready_argv=("x", "y"),
        linked=True,
        volume_mb=3,
        unprivileged=True,
    )
    spec = rig_spec(2, load=_LOAD)
    manifest = Manifest(
        spec=replace(spec, processes=(*spec.processes, whole), options={"grace": 0.5, "by": "x"}),
        created=_MADE,
        maker=Process(1, 2.5),
        ports={"store": 20_001, "whole": 1, "whole:peer": 2},
        supervisor=Process(3, 4.75),
        links={"whole": 3, "whole:peer": 4},
        homes={"whole": "/away"},
        volumes=Volumes.PRIVATE,
        no_volumes="it is Tuesday",
    )
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert not manifest.live
    assert manifest.process("node-2") == node("node-2")
    assert (manifest.public_port("whole:peer"), manifest.public_port("store")) == (4, 20_001)
    assert Layout(tmp_path, manifest).data(whole) == Path("/proc/3/root/away/data")
    with pytest.raises(NotFoundError, match=r"no target 'x' .* node-1, node-2, store"):
        manifest.process("x")


def test_no_manifest_is_none_and_a_damaged_one_an_error(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    for text in ("", "[]", "{}", '{"spec": 1}'):
        (tmp_path / MANIFEST_FILE).write_text(text)
        with pytest.raises(RigError, match="cannot be read"):
            read_manifest(tmp_path)
