"""The parts of the Kubernetes rig that need no cluster: plan, keys, images, build, groups."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest
import yaml

from operator_lab import cgroups
from operator_lab.builders import build_for, find_built, unbuildable
from operator_lab.kubernetes import build
from operator_lab.kubernetes.images import make_image
from operator_lab.kubernetes.pki import make_all
from operator_lab.kubernetes.sample import manifests
from operator_lab.plan import check_spec
from operator_protocols.domain.rig import RigSpec
from operator_protocols.errors import RigError
from operator_sre.subjects.kubernetes.rig import rig
from operator_sre.subjects.kubernetes.subject import RIG_KINDS

_BLANK = re.compile(r"\{[a-z0-9-]+(?:\.dir)?\}")


@pytest.mark.parametrize("user", [0, 1000])
def test_the_rig_is_a_sound_plan(user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    spec = rig()
    check_spec(spec)
    names = {process.name for process in spec.processes}
    assert {"etcd", "apiserver", "controllers", "scheduler", "customers"} <= names
    assert ("node2-kubelet" in names) == (user == 0)
    assert {process.kind for process in spec.processes} <= set(RIG_KINDS)


def test_every_configuration_of_a_node_is_yaml_or_json() -> None:
    processes = rig().processes
    assert processes
    for process in processes:
        for path, text in process.files.items():
            assert "@" not in text.replace("@sha", ""), (process.name, path)
            if path.endswith((".yaml", ".conflist")):
                assert isinstance(yaml.safe_load(_BLANK.sub("blank", text)), dict)


def test_keys_and_kubeconfigs_fit_together(tmp_path: Path) -> None:
    make_all(
        tmp_path,
        server="https://10.99.0.1:6443",
        outside="https://127.0.0.1:7000",
        nodes={"node1": "10.99.0.11"},
    )
    outside = json.loads((tmp_path / "kubeconfig").read_text())
    assert outside["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:7000"
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    for name in ("admin", "node1", "apiserver", "proxy"):
        context.load_cert_chain(tmp_path / f"{name}.crt", tmp_path / f"{name}.key")
    for key in tmp_path.glob("*.key"):
        assert key.stat().st_mode & 0o077 == 0


def test_an_image_has_its_program_as_entry_point(tmp_path: Path) -> None:
    program = tmp_path / "shop"
    program.write_bytes(b"#!/bin/true\n")
    make_image(program, "lab.local/shop:1", tmp_path / "shop.tar")
    with tarfile.open(tmp_path / "shop.tar") as archive:
        file = archive.extractfile("manifest.json")
        assert file is not None
        manifest = json.loads(file.read())[0]
        config = archive.extractfile(manifest["Config"])
        assert config is not None
        assert json.loads(config.read())["config"]["Entrypoint"] == ["/shop"]
    assert manifest["RepoTags"] == ["lab.local/shop:1"]


def test_every_object_of_the_sample_has_a_kind_and_a_name() -> None:
    paths = manifests()
    assert paths
    for path in paths:
        for item in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            assert item["kind"]
            assert item["metadata"]["name"]


def test_a_machine_without_go_is_told_so_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(RigError) as caught:
        build.build(nodes=False, tell=lambda _: None, stop=threading.Event())
    assert "Go" in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_programs_of_other_sources_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = build.cache_folder()
    folder.mkdir(parents=True)
    for name in (build.PROGRAMS, *build.ADDONS):
        (folder / name).write_bytes(b"")
        (folder / f"{name}.stamp").write_text("another digest")
    assert build.find_programs() is None


def test_only_the_groups_of_a_rig_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    mine, other = (cgroups.group_name(tmp_path / each) for each in ("mine", "other"))
    for name in (mine, other):
        (tmp_path / "memory" / f"{name}-node1" / "kubepods").mkdir(parents=True)
    cgroups.remove_groups(mine)
    assert [each.name for each in (tmp_path / "memory").iterdir()] == [f"{other}-node1"]


def test_a_rig_that_names_an_unknown_build_is_refused() -> None:
    with pytest.raises(RigError):
        find_built(RigSpec("x", (), builds="minix"))


def test_a_rig_that_needs_no_build_is_built_at_once() -> None:
    spec = RigSpec("x", ())
    build_for(spec, pytest.fail, threading.Event())
    assert (find_built(spec), unbuildable(spec)) == ("", "")


def test_groups_are_made_in_every_hierarchy_that_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    for name in ("memory", "hugetlb"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "memory")
    name = cgroups.group_name(tmp_path)
    cgroups.make_groups(name)
    assert [str(each.relative_to(tmp_path)) for each in tmp_path.rglob(name)] == [f"memory/{name}"]


@pytest.mark.parametrize("name", ["", "*", "operator-lab-", "system.slice"])
def test_no_group_of_the_machine_is_made_or_removed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    (tmp_path / "system.slice").mkdir()
    for change in (cgroups.make_groups, cgroups.remove_groups):
        with pytest.raises(ValueError, match="not a group of a rig"):
            change(name)
    assert (tmp_path / "system.slice").is_dir()


def test_a_machine_without_root_has_no_nodes_and_the_rig_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    spec = rig()
    assert "root" in spec.note
    assert not [each for each in spec.processes if each.kind == build.NODE_KIND]


def test_a_machine_of_another_kind_has_no_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert "this machine is aarch64" in rig().note


# Be the first process of a node whose own places are the argument and /run.
NODE = """
import os, sys
from pathlib import Path
from operator_lab.kubernetes import namespaces
place = Path(sys.argv[1])
namespaces._OWN_PLACES = ("/run", str(place))
namespaces.unshare(namespaces.NEWNS | namespaces.NEWPID)
if os.fork() == 0:
    namespaces._become_first(place / "built" / "pause", (place / "rig", place / "built"))
os.wait()
"""
PAUSE = """#!/bin/sh
cd "$(dirname "$0")/.."
{ ls; cat /proc/sys/kernel/panic; echo 7 > /proc/sys/kernel/panic; } > rig/seen 2>&1
for each in kernel/threads-max vm/swappiness fs/nr_open; do
    read -r value < "/proc/sys/$each"
    (echo "$value" > "/proc/sys/$each") 2> /dev/null && echo "$each" >> rig/writable
done
touch lost
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes namespaces")
def test_a_node_sees_its_rig_alone_and_changes_no_setting_of_the_kernel(tmp_path: Path) -> None:
    for name in ("rig", "built", "others"):
        (tmp_path / name).mkdir()
    pause = tmp_path / "built" / "pause"
    pause.write_text(PAUSE)
    pause.chmod(0o755)
    before = Path("/proc/sys/kernel/panic").read_text()
    subprocess.run([sys.executable, "-c", NODE, str(tmp_path)], check=True, timeout=60)
    assert (tmp_path / "rig" / "seen").read_text().split() == ["built", "rig", "10"]
    assert not (tmp_path / "lost").exists()
    assert not (tmp_path / "rig" / "writable").exists()
    assert Path("/proc/sys/kernel/panic").read_text() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes nodes")
def test_a_program_of_a_node_never_starts_in_the_network_of_this_machine(tmp_path: Path) -> None:
    runtime = next(each for each in rig().processes if each.name == "node1-runtime")
    shell, flag, script = runtime.argv[:3]
    (tmp_path / "init").write_text(str(os.getpid()))
    argv = [shell, flag, script, str(tmp_path / "init"), "touch", str(tmp_path / "started")]
    assert subprocess.run(argv, check=False).returncode != 0
    assert not (tmp_path / "started").exists()
