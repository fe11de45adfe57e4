"""The Helm chart: what it renders observes only, as no special user; unsafe values are refused.

Helm renders it where there is one (`python -m tests.tools.helm` builds it). Elsewhere a small
program (`render/`) does, with the functions of Helm; it needs Go and its public modules.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from operator_sre.config import PARTS
from operator_sre.config.service import service_of
from tests.engines.debian import CACHE
from tests.every import every
from tests.tools.helm import helm

CHART = Path(__file__).resolve().parents[2] / "deploy" / "chart"
SOURCE = Path(__file__).parent / "render"
BUILD_S_MAX = 600.0
EVERYTHING = {
    "mode": "approve",
    "replicas": 2,
    "keysSecret": "keys",
    "filesSecret": "files",
    "store": {"kind": "postgres", "postgres": {"urlSecret": "database"}},
    "config": 'interval_s = 10\n[triggers.pager]\nkind = "alertmanager"\nopen = 1\n',
    "rbac": {"level": "cluster"},
    "console": {"enabled": True, "hosts": ["ops.example.com"], "tlsSecret": "console"},
    "alerts": {"enabled": True},
    "ingress": {"enabled": True, "host": "ops.example.com", "tlsSecret": "edge"},
    "networkPolicy": {"metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]},
    "monitoring": {"podMonitor": True},
}
Json = dict[str, Any]


def _values() -> Json:
    found: Json = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def test_every_value_has_a_schema_and_the_defaults_obey_it() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    Draft7Validator.check_schema(schema)
    checker = Draft7Validator(schema)
    assert [error.message for error in checker.iter_errors(_values())] == []
    assert {*schema["properties"]} - {"global"} == {*_values()}
    mistakes: tuple[Json, ...] = (
        {"mode": "auto"},
        {"parts": []},
        {"parts": ["web"]},
        {"replicas": 0},
        {"rbac": {"level": "admin"}},
        {"image": {"digest": "latest"}},
        {"unknown": 1},
    )
    for wrong in mistakes:
        assert not checker.is_valid(wrong), wrong
    offered = schema["properties"]["parts"]["items"]["enum"]
    # The chart adds these itself, with their Services.
    assert {*offered} | {"web", "alerts"} == {*PARTS}


def test_the_defaults_observe_and_give_no_right() -> None:
    values = _values()
    assert values["mode"] == "observe"
    assert values["rbac"] == {"level": "none"}
    assert not any(values[part]["enabled"] for part in ("console", "alerts", "ingress"))
    assert values["networkPolicy"]["enabled"]


def test_the_pods_run_as_the_user_of_the_image() -> None:
    image = (CHART.parent / "images" / "Dockerfile").read_text()
    text = (CHART / "templates" / "workload.yaml").read_text()
    assert "runAsUser: 10001" in text
    assert "useradd --uid 10001" in image


@pytest.fixture(scope="module")
def renderer() -> Path:
    """Helm, or the program that renders a chart without it, built once."""
    if (found := helm()) is not None:
        return found
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go to build what renders a chart")
    place = CACHE / "render" / "render"
    place.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [go, "build", "-trimpath", "-o", place, "."],
        cwd=SOURCE,
        env={**os.environ, "GOFLAGS": "-mod=readonly"},
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_S_MAX,
    )
    if done.returncode:
        pytest.skip(f"the modules of Go cannot be fetched: {done.stderr[-200:]}")
    return place


def _render(renderer: Path, folder: Path, values: Mapping[str, object]) -> list[Json] | str:
    """The objects of the chart with these values; or why it refuses them."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    is_helm = renderer.name == "helm"
    words = [renderer, "template", "shop", CHART, "--values"] if is_helm else [renderer, CHART]
    done = subprocess.run([*words, file], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        return done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def _of(objects: list[Json], kind: str) -> Json:
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(900)
def test_what_it_renders_is_narrow(renderer: Path, tmp_path: Path) -> None:
    objects = _render(renderer, tmp_path, {})
    assert isinstance(objects, list), objects
    kinds = {each["kind"] for each in objects}
    assert kinds == {"ConfigMap", "NetworkPolicy", "ServiceAccount", "StatefulSet"}
    pod = _of(objects, "StatefulSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"] == ["--mode", "observe", "service", "run", "--yes"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (pod["securityContext"]["runAsNonRoot"], pod["automountServiceAccountToken"]) == (
        True,
        False,
    )
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert mounted == volumes | {"home"}
    assert _of(objects, "NetworkPolicy")["spec"]["ingress"] == []
    settings = tomllib.loads(_of(objects, "ConfigMap")["data"]["operator.toml"])
    assert service_of(settings["service"], None).parts == ("monitor", "agent")


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(900)
def test_everything_at_once_fits_together(renderer: Path, tmp_path: Path) -> None:
    objects = _render(renderer, tmp_path, EVERYTHING)
    assert isinstance(objects, list), objects
    pod = _of(objects, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        volume["name"] for volume in pod["volumes"]
    }
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    served = {port["name"]: port["port"] for port in _of(objects, "Service")["spec"]["ports"]}
    assert served.items() <= ports.items()
    settings = tomllib.loads(_of(objects, "ConfigMap")["data"]["operator.toml"])
    service = service_of(settings["service"], None)
    assert service.parts == ("monitor", "agent", "web", "alerts")
    for part, port in served.items():
        name = {"console": "web"}.get(part, part)
        assert service.addresses[name] == f"0.0.0.0:{port}"
    assert settings["interval_s"] == 10
    rules = _of(objects, "ClusterRole")["rules"]
    verbs = {verb for rule in rules for verb in rule["verbs"]}
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert verbs == {"get", "list", "watch"}
    assert not resources & {"secrets", "configmaps", "*", "pods/exec"}
    assert len(_of(objects, "NetworkPolicy")["spec"]["ingress"]) == 1


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(900)
@every(
    ("values", "words"),
    [
        ({"replicas": 2}, "store.kind=postgres"),
        ({"store": {"kind": "postgres"}}, "urlSecret"),
        ({**EVERYTHING, "keysSecret": ""}, "keysSecret"),
        ({"ingress": {"enabled": True, "tlsSecret": "x"}}, "console.enabled"),
        ({"console": {"enabled": True}, "ingress": {"enabled": True}}, "unencrypted"),
    ],
)
def test_values_that_cannot_work_are_refused(
    renderer: Path, tmp_path: Path, values: Mapping[str, object], words: str
) -> None:
    refused = _render(renderer, tmp_path, values)
    assert isinstance(refused, str), refused
    assert words in refused


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(120)
@every("values", [{}, EVERYTHING])
def test_helm_finds_nothing_wrong(tmp_path: Path, values: Mapping[str, object]) -> None:
    program = helm()
    if program is None:
        pytest.skip("there is no Helm: python -m tests.tools.helm")
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    words = [str(program), "lint", "--strict", str(CHART), "--values", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 chart(s) failed" in done.stdout + done.stderr
