"""Proposed subjects as operator.toml and descriptions, in mode observe. Overwrites nothing."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.errors import UsageError
from operator_sre.app.discovery.discover import Proposal
from operator_sre.app.discovery.pack_copy import copy_pack
from operator_sre.config import Config

__all__ = ["WrittenSubjects", "describe", "entry_of", "write_subjects"]

HEAD = 'mode = "observe"  # nothing is changed; see docs/watching.md\n'


@dataclass(frozen=True, slots=True)
class WrittenSubjects:
    """The files that were written, and the subjects in them."""

    config: str
    files: tuple[str, ...]
    subjects: tuple[str, ...]


def write_subjects(
    config: Config, proposals: Sequence[Proposal], *, folder: Path
) -> WrittenSubjects:
    """Write a description for each proposal that needs one, and add all to operator.toml."""
    toml = config.file or folder / "operator.toml"
    before = toml.read_text(encoding="utf-8") if toml.exists() else ""
    entries = "\n".join(entry_of(proposal) for proposal in proposals)
    after = f"{before.rstrip()}\n\n{entries}" if before.strip() else f"{HEAD}\n{entries}"
    try:
        tomllib.loads(after)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"Subjects cannot be added at the end of {str(toml)!r}.",
            next_step="Its 'subjects' must be tables such as [subjects.NAME].",
        ) from error
    described = {
        toml.parent / f"{proposal.name}.yaml": describe(proposal)
        for proposal in proposals
        if not proposal.plugin
    }
    for file in described:
        if file.exists():
            raise UsageError(
                f"{str(file)!r} already exists and is not overwritten; nothing was written.",
                next_step="Move it away, or add it to operator.toml by hand.",
            )
    for file, text in described.items():
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    # Only what is new is written, so that a reader in between sees the old file or the new one.
    with toml.open("a" if before else "x", encoding="utf-8") as opened:
        opened.write(after[len(before) :] if after.startswith(before) else f"\n\n{entries}")
    files = tuple(str(file) for file in described)
    return WrittenSubjects(str(toml), files, tuple(proposal.name for proposal in proposals))


def entry_of(proposal: Proposal) -> str:
    """The table of a proposal, with why it is there and what it still needs."""
    lines = [f"# {line}" for why in proposal.why for line in why.splitlines()]
    if proposal.grant:
        lines.append(
            f"# Operator needs a credential. Give it exactly these rights in {proposal.kind}:"
        )
        lines += [f"#   {line}" for line in proposal.grant.splitlines()]
        lines.append(f"# Then write the password to {proposal.name}.password (mode 600).")
    lines.append(f"[subjects.{proposal.name}]")
    if not proposal.plugin:
        options = f'options = {{ file = "{proposal.name}.yaml" }}'
        return "\n".join([*lines, 'plugin = "declarative"', options, ""])
    lines.append(f'plugin = "{proposal.plugin}"')
    if proposal.options:
        pairs = ", ".join(f"{key} = {json.dumps(text)}" for key, text in proposal.options.items())
        return "\n".join([*lines, f"options = {{ {pairs} }}", ""])
    lines.append("targets = [")
    for number, place in enumerate(proposal.places, start=1):
        host, port = _split(place)
        name = f"{proposal.target}-{number}"
        access = ""
        if proposal.grant:
            file = f"{proposal.name}.password"
            access = f', access = {{ user = "operator", password_file = "{file}" }}'
        lines.append(
            f'  {{ name = "{name}", kind = "{proposal.target}", host = "{host}", port = {port}'
            f"{access} }},"
        )
    return "\n".join([*lines, "]", ""])


def describe(proposal: Proposal) -> str:
    """The description of a system without a plug-in: its pack, or else a plain one."""
    if proposal.pack:
        return copy_pack(proposal)
    (place, *_) = proposal.places
    host, port = _split(place)
    kind, why = proposal.kind, "; ".join(proposal.why)
    lines = [
        f"# {why}. docs/declarative.md explains every key.",
        f"# After a change:  operator subjects test {proposal.name}.yaml",
        f"name: {proposal.name}",
        "targets:",
        f"  {proposal.name}:",
        f"    kind: {kind}",
        f"    host: {host}",
        f"    port: {port}",
    ]
    if proposal.grant:
        access = f"{{user: operator, password_file: {proposal.name}.password}}"
        lines.append(f"    access: {access}")
    if kind == "redis":
        info = "{used_bytes: used_memory, limit_bytes: maxmemory}"
        probe, holds = f"redis: {{info: {info}}}", "server.up"
        says = "it does not answer: {server.error}"
    elif proposal.path:
        status = "2xx" if proposal.status >= 500 else str(proposal.status)
        expected = "2xx" if status.startswith("2") else status
        probe = f"http: {{path: {json.dumps(proposal.path)}, expect: {{status: {expected}}}}}"
        holds, says = "server.ok", f"{proposal.path} is not as expected: {{server.error}}"
    else:
        pattern = json.dumps(re.escape(proposal.program or kind))
        probe, holds = f"process: {{pattern: {pattern}}}", "server.alive"
        says = "its process does not run"
    lines += [
        *("probes:", "  server:", f"    on: {kind}", f"    {probe}"),
        *("invariants:", f"  {kind}_answers:" if holds != "server.alive" else f"  {kind}_runs:"),
        *(f"    on: {kind}", f"    holds: {holds}", "    severity: critical"),
        f"    says: {json.dumps(says)}",
    ]
    if kind == "redis":
        lines += [
            *("  memory_left:", f"    on: {kind}", "    for: 60s"),
            "    holds: server.limit_bytes == 0 || server.used_bytes / server.limit_bytes < 0.9",
            '    says: "{server.used_bytes} of {server.limit_bytes} bytes are used"',
        ]
    if proposal.unit:
        lines += [
            *("levers:", "  restart:", f"    on: {kind}", f"    says: Restart {proposal.unit}"),
            f"    command: [systemctl, restart, {proposal.unit}]",
            *("    risk: medium", "    ends: [process_dead]"),
        ]
    return "\n".join(lines) + "\n"


def _split(place: str) -> tuple[str, int]:
    host, _, port = place.rpartition(":")
    return host.strip("[]"), int(port)
