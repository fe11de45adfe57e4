"""A description made into a subject, as the product would, with what a test gives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from operator_protocols.domain.action import Action
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding, Observation, Seen
from operator_protocols.domain.target import Target
from operator_protocols.domain.verdict import Verdict
from operator_protocols.ports import Shell, Subject, SubjectSettings, Tool
from operator_sre.app.description import judge_by
from operator_sre.app.secret_store import read_secret
from operator_sre.gate.policy import built_in
from operator_sre.plugins import find_plugin
from tests.contract.clock import HeldClock

__all__ = ["Tried", "described", "judge"]

judge: Callable[[Action], Verdict] = judge_by(built_in)


@dataclass(slots=True)
class Tried:
    """One description in a folder, asked through its plug-in and nothing else."""

    file: Path
    commands: Shell | None = None
    timeout_s: float = 60.0
    judge: Callable[[Action], Verdict] | None = judge
    clock: HeldClock = field(default_factory=HeldClock)
    _subject: Subject | None = None

    @property
    def options(self) -> dict[str, Any]:
        return {"file": str(self.file)}

    @property
    def settings(self) -> SubjectSettings:
        plugin = find_plugin("declarative")
        assert plugin.targets is not None
        read = plugin.targets
        return SubjectSettings(
            "mine",
            lambda: read(self.options),
            self.clock,
            self.timeout_s,
            self.options,
            read_secret,
            self.commands,
            None,
            self.judge,
        )

    @property
    def subject(self) -> Subject:
        """The same one at every look, so that counters are remembered."""
        if self._subject is None:
            self._subject = find_plugin("declarative").subject(self.settings)
        return self._subject

    @property
    def tools(self) -> Sequence[Tool]:
        tools = find_plugin("declarative").tools
        assert tools is not None
        return tools(self.settings)

    @property
    def targets(self) -> Sequence[Target]:
        return self.settings.targets()

    async def look(self) -> Observation:
        return await self.subject.observe()

    async def seen(self, target: str = "") -> Seen:
        """What one look showed of a target, or of the only one."""
        observation = await self.look()
        return observation.of(target) if target else observation.seen[0]

    async def findings(self) -> list[Finding]:
        observation = await self.look()
        return [one for each in self.subject.invariants for one in each.check(observation)]

    async def health(self) -> Health:
        """That of the only finding."""
        (finding,) = await self.findings()
        return finding.health


def described(folder: Path, text: str, **more: Any) -> Tried:
    """A description with this text."""
    file = folder / "described.yaml"
    file.write_text(text)
    return Tried(file, **more)
