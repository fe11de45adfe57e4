"""The image with every tool of a kitchen is a layer on the agent's, and changes nothing of it."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "deploy" / "images" / "Dockerfile").read_text()
# What an agent in a free shell may expect, and the packages that bring it.
KITCHEN = {
    "git",
    "htop",
    "nmap",
    "python3-numpy",
    "python3-pandas",
    "traceroute",
    "vim-tiny",
    "wget",
}
AGENT = {"bind9-dnsutils", "curl", "iputils-ping", "jq", "netcat-openbsd", "tcpdump"}


def _stage(name: str) -> tuple[str, str]:
    """What a stage is built on, and its lines."""
    found = re.search(rf"^FROM (\S+) AS {name}\n(.*?)(?=^FROM |\Z)", TEXT, re.M | re.S)
    assert found is not None, name
    return found[1], found[2]


def test_the_layer_has_the_tools() -> None:
    base, lines = _stage("kitchen")
    assert base == "agent"
    assert set(re.sub(r"[\\&]", " ", lines).split()) >= KITCHEN
    assert set(re.sub(r"[\\&]", " ", _stage("agent")[1]).split()) >= AGENT


def test_the_layer_runs_as_the_agent_does() -> None:
    lines = _stage("kitchen")[1]
    assert lines.rstrip().endswith("USER sre")
    assert not re.search(r"^(ENV|ENTRYPOINT|CMD|VOLUME|EXPOSE)", lines, re.M)
