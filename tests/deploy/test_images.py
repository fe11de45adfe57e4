"""The images and the services around them, as far as files tell: nothing here builds or pulls."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
import yaml

from operator_sre.executor.porter.lab import PART_LABEL
from operator_sre.faces.cli.main import command_line
from operator_sre.faces.cli.porter import PLACE

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "images"
TOOLS = {
    *("bind9-dnsutils", "curl", "docker-cli", "iputils-ping", "jq", "kubernetes-client"),
    *("netcat-openbsd", "tcpdump"),
}


@dataclass(slots=True)
class Stage:
    """One image on its way: what it begins with, and what is done to it."""

    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def last(self, word: str) -> str:
        """The last step of this kind, which is the one that counts."""
        return next((rest for step, rest in reversed(self.steps) if step == word), "")


def _instructions() -> Iterator[tuple[str, str]]:
    lines = (FOLDER / "Dockerfile").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


def _stages() -> dict[str, Stage]:
    stages: dict[str, Stage] = {}
    now = Stage("")
    for word, rest in _instructions():
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            now = stages[name] = Stage(base)
        else:
            now.steps.append((word, rest))
    return stages


def _services() -> dict[str, dict[str, Any]]:
    told = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    assert isinstance(told, dict)
    return told


def _parses(words: list[str]) -> bool:
    """Whether the command line knows this command, with these options."""
    command: Any = typer.main.get_command(command_line(words))
    rest = list(words)
    while (inner := getattr(command, "commands", None)) is not None:
        command = inner[rest.pop(0)]
    command.make_context("operator", rest)
    return bool(command.callback)


def test_all_that_is_copied_is_there_and_reaches_the_builder() -> None:
    patterns = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    admitted = [line[1:] for line in patterns if line.startswith("!")]
    copied = [
        source
        for stage in _stages().values()
        for word, rest in stage.steps
        if word == "COPY" and not rest.startswith("--from=")
        for source in rest.split()[:-1]
    ]
    assert set(copied) == set(admitted), "no more and no less is sent to the builder"
    assert all((ROOT / source).exists() for source in copied)
    assert "*" in patterns
    assert any(fnmatch.fnmatch("src/__pycache__", line) for line in patterns)


def test_images_begin_with_a_pinned_slim_python_and_end_as_a_user() -> None:
    base, commit = (rest for word, rest in _instructions() if word == "ARG")
    assert commit == "COMMIT="
    assert re.fullmatch(r"BASE=python:3\.12\.\d+-slim-[a-z]+", base), base
    stages = _stages()
    assert {name: one.base for name, one in stages.items()} == {
        "build": "${BASE}",
        "operator": "${BASE}",
        "agent": "operator",
        "kitchen": "agent",
    }
    for name in ("operator", "agent", "kitchen"):
        assert stages[name].last("USER") == "sre", name
    assert "latest" not in (FOLDER / "Dockerfile").read_text()
    assert not [rest for word, rest in _instructions() if word == "ADD"]


def test_what_images_run_is_known_to_the_command_line() -> None:
    stages = _stages()
    assert json.loads(stages["operator"].last("ENTRYPOINT")) == ["operator"]
    for name in ("operator", "agent"):
        assert _parses(json.loads(stages[name].last("CMD")))
        program, *words = json.loads(stages[name].last("HEALTHCHECK").partition("CMD ")[2])
        assert program == "operator"
        assert _parses(words)


def test_the_agent_has_the_tools_and_reaches_docker_by_the_porter_only() -> None:
    agent = _stages()["agent"]
    installed = next(rest for word, rest in agent.steps if word == "RUN").split()
    assert set(installed) >= TOOLS
    assert agent.last("ENV") == f"DOCKER_HOST=unix://{PLACE}"
    shared = next(rest for word, rest in _stages()["operator"].steps if word == "RUN")
    assert str(PLACE.parent) in shlex.split(shared), "a volume there belongs to the user"


def test_only_what_is_locked_is_installed() -> None:
    build = " ".join(rest for word, rest in _stages()["build"].steps if word == "RUN")
    assert "--require-hashes" in build
    assert "--constraints requirements.lock" in build
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = re.search(r"\.\[([a-z,]+)\]", build)
    assert extras is not None
    installed = set(extras[1].split(","))
    assert installed <= set(declared["optional-dependencies"])
    assert installed >= {"aws", "kafka", "kubernetes", "postgres"}, "what the service can watch"
    text = (FOLDER / "Dockerfile").read_text() + (FOLDER / "compose.yaml").read_text()
    versions = set(re.findall(r"operator-sre/[a-z]+:(?:\$\{OPERATOR_TAG:-)?([0-9.]+)", text))
    assert versions == {declared["version"]}


def test_services_are_bounded_and_publish_nothing() -> None:
    services = _services()
    assert set(services) == {"operator", "agent", "porter"}
    for name, one in services.items():
        assert one["read_only"] is True, name
        assert one["cap_drop"] == ["ALL"], name
        assert one["security_opt"] == ["no-new-privileges:true"], name
        assert one["labels"] == {PART_LABEL: name}, "the porter lets nobody touch them"
        assert one["healthcheck"]["test"][0] == "CMD", name
        assert {"mem_limit", "cpus", "pids_limit"} <= set(one), name
        assert not {"ports", "privileged", "cap_add", "devices", "pid", "user"} & set(one), name
        words = [re.sub(r"\$\{.*\}", "observe", word) for word in one["command"]]
        words = words if "--mode" not in words else words[: words.index("--mode")]
        assert _parses(words), name
        assert (FOLDER / one["build"]["context"]).resolve() == ROOT
        assert (ROOT / one["build"]["dockerfile"]).exists()
        assert one["build"]["target"] in _stages()


def test_only_the_porter_sees_the_engine_and_it_has_no_network() -> None:
    services = _services()
    seeing = [name for name, one in services.items() if "docker.sock" in str(one["volumes"])]
    assert seeing == ["porter"]
    assert services["porter"]["network_mode"] == "none"
    shared = f"porter:{PLACE.parent}"
    assert [name for name, one in services.items() if shared in one["volumes"]] == [
        "agent",
        "porter",
    ]
