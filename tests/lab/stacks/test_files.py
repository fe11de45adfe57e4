"""The stacks that come with us: pinned, bounded, on the loopback, with no default password."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from operator_lab.stacks.record import prepare
from operator_lab.stacks.rig import StackRig
from operator_lab.stacks.target import ComposeTarget, base_environment_of
from operator_protocols.domain.stack import StackSpec
from operator_protocols.ports import Ability
from operator_sre.plugins import find_plugin, plugin_names
from tests.engines.compose import compose_or_why
from tests.engines.dockerd import docker_engine
from tests.every import every
from tests.lab.stacks.engines import PLAIN, TOWN, compose_for
from tests.tidy.sources import ROOT

# What it serves nobody asks for: that it runs is its health.
WITHOUT_HEALTH = {("ratelimiter", "load")}
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?")


def _stacks() -> dict[str, StackSpec]:
    found = {name: find_plugin(name).stack for name in plugin_names()}
    return {name: stack() for name, stack in found.items() if stack is not None}


STACKS = _stacks()


def _text(spec: StackSpec) -> str:
    return (Path(spec.folder) / "compose.yaml").read_text()


def _bytes(size: str) -> int:
    return int(size[:-1]) << {"m": 20, "g": 30}[size[-1]]


def _services(spec: StackSpec) -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load(_text(spec))["services"]
    return found


def test_both_labs_are_there_and_lie_where_a_checkout_shows_them() -> None:
    assert {"ratelimiter", "tikv"} <= set(STACKS)
    for name, spec in STACKS.items():
        assert (ROOT / "deploy" / name).resolve() == Path(spec.folder)
        assert (ROOT / "src/operator_sre") in Path(spec.folder).parents, "a wheel would lack it"


@pytest.mark.parametrize("name", STACKS)
def test_every_service_is_pinned_bounded_and_checked(name: str) -> None:
    services = _services(STACKS[name])
    assert {"prometheus", "grafana"} <= services.keys()
    for service, told in services.items():
        _, _, tag = told["image"].removesuffix("}").rpartition(":")
        assert re.search(r"\d", tag), f"{service} has no version"
        assert "latest" not in told["image"], service
        assert {"mem_limit", "cpus", "logging", "networks"} <= told.keys(), service
        assert told["restart"] == "no", f"nobody can kill {service}"
        assert "privileged" not in told, service
        assert "docker.sock" not in json.dumps(told), service
        if (name, service) not in WITHOUT_HEALTH:
            assert "healthcheck" in told, service


@pytest.mark.parametrize("name", STACKS)
def test_every_port_is_a_variable_on_the_loopback(name: str) -> None:
    spec, published = STACKS[name], {}
    for service, told in _services(spec).items():
        for port in told.get("ports", ()):
            found = re.fullmatch(r"127\.0\.0\.1:\$\{(\w+):-(\d+)\}:\d+", port)
            assert found, f"{service}: {port}"
            published[found[1]] = int(found[2])
    assert published == dict(spec.ports)


@pytest.mark.parametrize("name", STACKS)
def test_no_password_comes_with_it(name: str) -> None:
    spec, services = STACKS[name], _services(STACKS[name])
    grafana = services["grafana"]["environment"]
    assert grafana["GF_SECURITY_ADMIN_PASSWORD__FILE"] == "/run/secrets/grafana"
    assert "GF_SECURITY_ADMIN_PASSWORD" not in grafana
    assert grafana["GF_AUTH_ANONYMOUS_ENABLED"] == "false"
    told = yaml.safe_load(_text(spec))["secrets"]
    assert set(told) == set(spec.secrets)
    assert all(each["file"].startswith("${STACK_SECRETS") for each in told.values())


@pytest.mark.parametrize("name", STACKS)
def test_what_the_subject_says_of_it_is_so(name: str) -> None:
    spec, services = STACKS[name], _services(STACKS[name])
    defaults = {variable: value for variable, value in _VARIABLE.findall(_text(spec)) if value}
    known = {**{key: str(port) for key, port in spec.ports.items()}, **spec.settings}
    assert {key: known[key] for key in defaults} == defaults
    for each in spec.services:
        assert each.name in services
        assert each.port_variable in json.dumps(services[each.name]["ports"])
        assert set(each.depends_on) <= {one.name for one in spec.services}
        if each.disk:
            mounted = [word.partition(":")[2] for word in services[spec.keeper]["volumes"]]
            assert each.disk in mounted
    if spec.keeper:
        disks = [each.disk for each in spec.services if each.disk]
        room = _bytes(known["DISKS_MEMORY"]) - len(disks) * _bytes(known["STORE_DISK"])
        assert room >= 16 << 20, "what fills all of them would be more than its memory"
    helpers = set(services) - {each.name for each in spec.services}
    for helper in {*helpers, "prometheus"}:
        assert services[helper]["labels"] == {"operator-sre.part": "lab"}, helper


@every(
    ("name", "target", "others", "able"),
    [
        ("tikv", "store-1", ("pd-1", "pd-2", "pd-3"), True),
        ("tikv", "store-1", ("store-2", "store-3"), True),
        ("tikv", "pd-1", ("pd-2",), True),
        ("tikv", "store-1", (), True),
        ("tikv", "pd-1", ("prometheus",), False),
        ("tikv", "prometheus", (), False),
        ("ratelimiter", "node-1", ("store",), True),
        ("ratelimiter", "store", ("node-1", "node-2"), True),
        ("ratelimiter", "store", (), True),
        ("ratelimiter", "node-1", ("store", "node-2"), False),
        ("ratelimiter", "node-1", (), False),
    ],
)
def test_only_what_passes_a_relay_can_be_slow(
    name: str, target: str, others: tuple[str, ...], able: bool, tmp_path: Path
) -> None:
    prepare(STACKS[name], tmp_path / name, project=name, ports={})
    rig = StackRig(tmp_path / name)
    assert (rig.unable(target, Ability.SLOW, others) == "") is able
    assert (rig.unable(target, Ability.CUT, others) == "") is (able or not others)


@pytest.mark.parametrize("name", STACKS)
def test_whatever_is_mounted_from_its_folder_is_there(name: str) -> None:
    spec = STACKS[name]
    words = [word for told in _services(spec).values() for word in told.get("volumes", ())]
    mounted = [word.split(":")[0] for word in words if word.startswith("./")]
    assert mounted
    assert [word for word in mounted if not (Path(spec.folder) / word).exists()] == []


def test_dashboards_ask_for_what_exists() -> None:
    ours = (ROOT / "src/operator_sre/telemetry/metrics.py").read_text()
    service = "".join(
        path.read_text() for path in (ROOT / "services").glob("**/operator_ratelimiter/*.py")
    )
    titles = []
    for spec in STACKS.values():
        for path in sorted((Path(spec.folder) / "dashboards").glob("*.json")):
            board = json.loads(path.read_text())
            titles.append(board["title"])
            for panel in board["panels"]:
                assert panel["datasource"]["uid"] == "prometheus"
                for target in panel["targets"]:
                    for metric in re.findall(r"operator_(\w+)", target["expr"]):
                        stem = re.sub(r"(_total|_bucket)$", "", metric)
                        assert f'"{stem}"' in ours or f'"operator_{stem}"' in ours, metric
                    for metric in re.findall(r"ratelimiter_\w+", target["expr"]):
                        assert re.sub(r"(_total|_bucket)$", "", metric) in service, metric
    for wanted in ("cluster health", "latency", "disk"):
        assert f"TiKV: {wanted}" in titles
    assert titles.count("Operator") == len(STACKS)


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.asyncio
async def test_compose_accepts_every_file(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    found, why = compose_or_why()
    if found is None:
        pytest.skip(why)
    compose = compose_for(docker_engine(pytestconfig))
    assert dict(compose.environment).keys() - base_environment_of(os.environ).keys() <= {
        "DOCKER_HOST"
    }
    for name, spec in STACKS.items():
        record = prepare(spec, tmp_path / name, project=f"operator-{name}", ports={})
        await ComposeTarget(record, tmp_path / name, compose=compose).check()
    own = [ROOT / "deploy/images", PLAIN, TOWN]
    for folder in own:
        file = folder / "compose.yaml"
        # Every variable that must be given; the most are names or places.
        needed = set(re.findall(r"\$\{(\w+)(?::\?|\})", file.read_text()))
        given = dict.fromkeys(needed, str(tmp_path)) | {"LAB": "lab", "TEST_IMAGE": "image:1"}
        given |= {name: "8080" for name in needed if name.endswith(("PORT", "GID"))}
        told = replace(compose, environment={**compose.environment, **given})
        done = await told.run(["--file", str(file), "config", "--quiet"], timeout_s=60.0)
        assert done.exit_code == 0, (file, done.stderr)
    files = set(ROOT.glob("deploy/*/compose*.y*ml"))
    folders = {Path(spec.folder).resolve() for spec in STACKS.values()} | set(own)
    assert {path.parent.resolve() for path in files} <= folders, "one of them was not looked at"


@pytest.mark.slow
@pytest.mark.asyncio
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", STACKS)
async def test_the_whole_lab_comes_up(
    name: str, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    engine = docker_engine(pytestconfig)
    there = {tag for image in engine.ask("GET", "/images/json") for tag in image["RepoTags"] or ()}
    spec = STACKS[name]
    told = (_services(spec)[service]["image"] for service in ("prometheus", "grafana", "disks"))
    needed = {_VARIABLE.sub(lambda found: found[2], each).removesuffix("}") for each in told}
    if missing := sorted(needed - there):
        pytest.skip(f"needs images that must be pulled: {', '.join(missing)}")
    compose = compose_for(engine)
    record = prepare(spec, tmp_path / name, project=engine.name(), ports={})
    target = ComposeTarget(record, tmp_path / name, compose=compose)
    try:
        assert all(each.well for each in await target.up())
    finally:
        await target.down(volumes=True)


def test_the_page_lists_the_images_that_are_pulled() -> None:
    page = (ROOT / "docs/deploy.md").read_text()
    pull = "STACK_SECRETS=. STACK_RELAY=. docker compose --file deploy/tikv/compose.yaml"
    assert f"\n{pull} pull --ignore-buildable\n" in page
    listed = re.search(
        rf"\$ {re.escape(pull)} config --images \| sort -u\n(.*?)```", page, re.DOTALL
    )
    assert listed is not None
    found, why = compose_or_why()
    if found is None:
        pytest.skip(why)
    done = subprocess.run(
        [str(found), *pull.split()[4:], "config", "--images"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "STACK_SECRETS": ".", "STACK_RELAY": "."},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert listed[1].split() == sorted(set(done.stdout.split()))
