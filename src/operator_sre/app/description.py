"""A subject of one's own: written as a description, tried once, and judged before it is trusted."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.domain.action import Action, Argument, Result
from operator_protocols.domain.health import Health, worst
from operator_protocols.domain.observation import Finding, Observation, Value
from operator_protocols.domain.tool import ParameterType
from operator_protocols.domain.verdict import Mode, Risk, Verdict
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.app.persons import myself
from operator_sre.app.wiring import App, look_at_app
from operator_sre.config import Config
from operator_sre.config.subjects import SubjectConfig
from operator_sre.controls import Controls
from operator_sre.gate import Way

if TYPE_CHECKING:
    from operator_protocols.domain.target import Target
    from operator_protocols.ports import Subject, Tool
    from operator_sre.gate.policy import Rulebook

__all__ = [
    "KINDS",
    "LeverView",
    "Trial",
    "Written",
    "add_description",
    "judge_by",
    "try_description",
    "write_description",
]

PLUGIN = "declarative"
KINDS = ("web", "redis", "postgres", "blank")
# How long a counter is given to move, where an invariant asks for its rate.
SECOND_LOOK_S = 1.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class Written:
    """What `init` wrote: the description, and the file that names it."""

    name: str
    file: str
    config: str


@dataclass(frozen=True, slots=True)
class LeverView:
    """A lever as the gate sees it: what becomes of it now, and in the mode execute."""

    tool: str
    target: str
    risk: Risk
    reversible: bool
    sentence: str
    now: Way
    in_execute: Way
    why: str


@dataclass(frozen=True, slots=True)
class ReadingView:
    """One observed value."""

    target: str
    reading: str
    value: Value


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of trying a description once."""

    subject: str
    file: str
    health: Health
    readings: tuple[ReadingView, ...]
    problems: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]
    levers: tuple[LeverView, ...]


def judge_by(rules: Callable[[], Rulebook]) -> Callable[[Action], Verdict]:
    """The verdict on a command that an observation would run."""

    def judge_action(action: Action) -> Verdict:
        from operator_sre.gate import Policy, judge

        # A person wrote the command, so the verdict is that for a person.
        return judge(action, Policy(mode=Mode.OBSERVE, book=rules()), person=True)

    return judge_action


def write_description(config: Config, name: str, kind: str, *, folder: Path) -> Written:
    """Write a description and name it in operator.toml. Nothing that exists is overwritten."""
    if kind not in KINDS:
        raise UsageError(
            f"There is no kind {kind[:60]!r}.", next_step=f"Kinds: {', '.join(KINDS)}."
        )
    text = (files("operator_sre.app") / "descriptions" / f"{kind}.yaml").read_text("utf-8")
    return add_description(config, name, text, folder=folder)


def add_description(config: Config, name: str, text: str, *, folder: Path) -> Written:
    """Write this description of a subject, and name it in operator.toml."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:60]!r} is not a valid name of a subject.",
            next_step="Use letters, digits, '-' and '_'.",
        )
    toml = config.file or folder / "operator.toml"
    if any(subject.name == name for subject in config.subjects):
        raise UsageError(
            f"{str(toml)!r} already has a subject {name!r}.", next_step="Choose another name."
        )
    before = toml.read_text(encoding="utf-8") if toml.exists() else ""
    entry = f'[subjects.{name}]\nplugin = "{PLUGIN}"\noptions = {{ file = "{name}.yaml" }}\n'
    after = f"{before.rstrip()}\n\n{entry}" if before.strip() else entry
    try:
        tomllib.loads(after)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"A subject cannot be added at the end of {str(toml)!r}.",
            next_step="Its 'subjects' must be tables such as [subjects.NAME].",
        ) from error
    file = toml.parent / f"{name}.yaml"
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text.replace("@NAME@", name))
    except FileExistsError:
        raise UsageError(
            f"{str(file)!r} already exists and is not overwritten.",
            next_step="Choose another name, or test it with: operator subjects test FILE",
        ) from None
    # Only what is new is written, so that a reader in between sees the old file or the new one.
    with toml.open("a", encoding="utf-8") as opened:
        opened.write(after[len(before) :] if after.startswith(before) else f"\n{entry}")
    return Written(name, str(file), str(toml))


async def try_description(config: Config, file: Path) -> Trial:
    """Read a description, ask every probe once, check every invariant, judge every lever."""
    tried = _find_subject(config, file)
    name = tried.name
    others = tuple(known for known in config.subjects if known.name != name)
    with look_at_app(replace(config, subjects=(*others, tried))) as app:
        controls, plugin = app.controls(name), app.plugin_of(name)
        settings = controls.settings
        assert settings is not None
        try:
            subject = plugin.subject(settings)
            observation, findings = await _look_at(app, subject)
            levers = [
                view
                for tool in (plugin.tools(settings) if plugin.tools else ())
                for view in await _view_lever(app, controls, name, tool, subject.targets())
            ]
        finally:
            await controls.aclose()
    return Trial(
        subject=name,
        file=str(tried.options["file"]),
        health=worst(finding.health for finding in findings),
        readings=tuple(
            ReadingView(seen.target, reading, value)
            for seen in observation.seen
            for reading, value in seen.readings.items()
            # What is no cause is no news.
            if not (reading.startswith("cause.") and value is False)
        ),
        problems=tuple((seen.target, seen.problem) for seen in observation.seen if seen.problem),
        findings=tuple(findings),
        levers=tuple(levers),
    )


def _find_subject(config: Config, file: Path) -> SubjectConfig:
    """The subject of a description, as operator.toml names it or would."""
    path = str(file.absolute())
    if not file.exists():
        raise NotFoundError(
            f"There is no file {str(file)!r}.", next_step="Create one with: operator subjects init"
        )
    for subject in config.subjects:
        if subject.plugin == PLUGIN and subject.options.get("file") == path:
            return subject
    name = re.sub(r"[^A-Za-z0-9_-]", "-", file.stem) or "subject"
    return SubjectConfig(name, PLUGIN, (), {"file": path})


async def _look_at(app: App, subject: Subject) -> tuple[Observation, list[Finding]]:
    """One observation, and a second one if something is still unknown, such as a rate."""
    for pause_s in (0.0, SECOND_LOOK_S):
        if pause_s:
            await app.clock.sleep(pause_s)
        observation = await subject.observe()
        findings = [
            finding for invariant in subject.invariants for finding in invariant.check(observation)
        ]
        if worst(finding.health for finding in findings) is not Health.UNKNOWN:
            break
    blind = [
        Finding("observable", seen.target, Health.UNKNOWN, seen.problem)
        for seen in observation.seen
        if seen.problem
    ]
    return observation, [*findings, *blind]


async def _view_lever(
    app: App, controls: Controls, subject: str, tool: Tool, targets: Sequence[Target]
) -> list[LeverView]:
    """What would become of a lever at every target that it is for."""
    spec = tool.spec
    views: list[LeverView] = []
    for target in targets:
        if not spec.fits(target):
            continue
        # Sample values of its parameters, for a preview.
        given: dict[str, Argument] = {}
        for parameter in spec.parameters:
            if parameter.required:
                low = 1 if parameter.minimum is None else parameter.minimum
                examples: dict[ParameterType, Argument] = {
                    ParameterType.INTEGER: int(low),
                    ParameterType.NUMBER: float(low),
                    ParameterType.BOOLEAN: True,
                }
                default = examples.get(parameter.type, "example")
                given[parameter.name] = parameter.choices[0] if parameter.choices else default
        given["target"] = target.name
        proposed = await controls.complete(Action(spec.name, given, target=target.name))
        shown = (spec.name, target.name, spec.risk, spec.reversible, spec.sentence)
        if isinstance(proposed, Result):
            views.append(LeverView(*shown, Way.NEVER, Way.NEVER, proposed.stderr))
            continue
        verdict = controls.gate.judge(proposed)
        now = controls.foresee(verdict, myself(), subject=subject)
        values = {**app.config.values, "mode": Mode.EXECUTE.value}
        sources = {**app.config.sources, "mode": "flag"}
        free_app = replace(app, config=replace(app.config, values=values, sources=sources))
        free = free_app.controls(subject)
        later = free.foresee(free.gate.judge(proposed), myself(), subject=subject)
        why = later.why or now.why
        if spec.exclusive and not spec.ends:
            why = f"It names nothing that it repairs, so it never runs by itself. {why}".strip()
        sentence = f"{spec.sentence} {proposed.expected}".strip()
        view = LeverView(*shown, now.way, later.way, why)
        views.append(replace(view, risk=verdict.risk, sentence=sentence))
    never = (Way.NEVER, Way.NEVER, "no target is of its kinds or names")
    return views or [LeverView(spec.name, "", spec.risk, spec.reversible, spec.sentence, *never)]
