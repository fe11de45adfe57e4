"""The evidence on a ticket so far, read from the steps of its run. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from operator_protocols.domain.action import SHELL, Action, Outcome, Result
from operator_protocols.domain.cause import Cause
from operator_protocols.domain.change import Change
from operator_protocols.domain.observation import Seen, Trouble, Violation, key_of
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import Act, Ask, Briefing, Diagnose, Prove, Step
from operator_protocols.domain.target import Target, dependencies_of
from operator_sre.models.reasoner.belief import (
    FAILED,
    PRINTED_REASONS,
    Belief,
    Suspect,
    Symptoms,
    first_belief,
    normalise,
)
from operator_sre.models.reasoner.causes import (
    DEAD,
    ENDING,
    GENERIC,
    LIKE,
    NAMED_IN_LOGS,
    NEEDS_FAILURE,
    VAGUE,
)
from operator_sre.models.reasoner.logs import read_log
from operator_sre.models.reasoner.outcomes import CHANGES, DECISIVE
from operator_sre.models.reasoner.probes import PROBES, Probe, Scene
from operator_sre.models.reasoner.statement import keep_supported
from operator_sre.models.reasoner.symptoms import TROUBLES, meaning

__all__ = ["LISTENS_ON", "OBSERVED", "Case", "Reading", "case_from", "is_made", "split_case"]

OUTPUT_CHARS_MAX = 500
OBSERVED = "observation"  # the source of changes that only a check has noticed
SET = ("setting_", "version")  # readings that change only where someone changes them
CHANGED = 3.0  # how much likelier a cause is where something was changed before the failure
LISTENS_ON = "listens on"  # the name of the change of a process's ports
_PORT = re.compile(r"\b(tcp[-_])?port\b|\blisten", re.IGNORECASE)
OF_PROCESS = frozenset({"process", "sockets", "limits"})  # the probes that ask by a PID
FAILS_ALONE = "fails_alone"  # a reading: its trouble does not follow from what it depends on
PARTS_MAX = 4  # of a cluster that fails so many are asked
STARTS_FAILED = 40.0  # how much likelier a failed start makes it that every start fails


@dataclass(frozen=True, slots=True)
class Reading:
    """The outcome of one probe at one target."""

    probe: str
    target: str
    outcome: str
    sentence: str
    seq: int | None


@dataclass(frozen=True, slots=True)
class Case:
    """The state of knowledge: fresh readings, tried actions, and the belief.

    `before` is the belief before the `latest` readings, those of the last turn. `patient` are the
    causes and targets for which waiting did not help. `failed` are failed actions, each with the
    cause it was meant to resolve, and `outputs` is what they printed, read like a log. `about` are
    the targets whose violations are explained together; empty for all of the ticket. `unproven` are
    the changes that succeeded and that no proof has covered yet.
    """

    briefing: Briefing
    readings: tuple[Reading, ...]
    tried: tuple[Act, ...]
    belief: Belief
    last: Step | None
    before: Belief | None = None
    latest: int = 1
    patient: frozenset[tuple[str, str]] = frozenset()
    failed: tuple[tuple[str, Act], ...] = ()
    outputs: tuple[Reading, ...] = ()
    about: frozenset[str] = frozenset()
    steps: tuple[Step, ...] = ()
    unproven: tuple[Step, ...] = ()

    @property
    def broken_targets(self) -> frozenset[str]:
        """The targets of the ticket at which something is still broken."""
        broken, violations = self.briefing.broken, self.briefing.ticket.violations
        return frozenset(each.target for each in violations if each.key in broken)

    @property
    def gone(self) -> frozenset[str]:
        """The targets at which nothing listens: that does not follow from what they depend on."""
        return frozenset(each.target for each in self.briefing.observation.seen if _is_gone(each))

    @property
    def failing_parts(self) -> frozenset[str]:
        """The targets that something is wrong with by the ticket or by the observation."""
        observed = {
            seen.target
            for seen in self.briefing.observation.seen
            if seen.problem or False in (seen.readings.get(name) for name in ("reachable", "up"))
        }
        named = sorted(observed | self.broken_targets)
        return frozenset(named[:PARTS_MAX])

    @property
    def open_questions(self) -> list[tuple[Probe, Target, Action]]:
        """Every possible probe of a suspected target that has not run since the last change."""
        suspected = {suspect.target for suspect in self.belief.weights}
        return [question for question in self.remaining if question[1].name in suspected]

    @property
    def remaining(self) -> list[tuple[Probe, Target, Action]]:
        """Every possible probe of any target that has not run since the last change."""
        answered = {(reading.probe, reading.target) for reading in self.readings}
        given = {SHELL, *(spec.name for spec in self.briefing.tools)}
        return [
            (probe, target, action)
            for target in self.briefing.targets
            for probe in PROBES
            if (probe.name, target.name) not in answered
            and (action := probe.ask(target)) is not None
            and action.tool in given
        ]


def split_case(ask: Ask, case: Case) -> list[Case]:
    """A case for each broken target that fails by itself, roots first.

    Parts that fail independently have a cause each, and no cause explains them all. A target that
    depends on another broken one counts only where nothing answers at it, or where its subject
    says that it fails alone. Empty where there is only one such target.
    """
    broken, targets = case.broken_targets, case.briefing.targets
    gone = case.gone
    needs = {name: dependencies_of(name, targets) & broken for name in broken}
    observation = case.briefing.observation
    apart = {each.target for each in observation.seen if each.readings.get(FAILS_ALONE) is True}
    alone = [name for name in broken if not needs[name] or name in gone | apart]
    dependants = Counter(need for each in targets for need in dependencies_of(each.name, targets))
    alone.sort(key=lambda name: (len(needs[name]), -dependants[name], name))
    return [case_from(ask, about=frozenset({name})) for name in alone] if len(alone) > 1 else []


def _is_gone(seen: Seen) -> bool:
    return seen.trouble is Trouble.REFUSED or (
        seen.readings.get("reachable") is False
        and "refused" in {meaning(str(seen.readings.get("error", ""))), meaning(seen.problem)}
    )


def case_from(ask: Ask, *, about: frozenset[str] = frozenset()) -> Case:
    """The evidence of a run so far, weighed; `about` limits what is to be explained."""
    briefing = ask.briefing
    attempts = _read_attempts(ask)
    blamed, failed = attempts.blamed, attempts.failed
    readings = _read_steps(briefing, ask.steps[attempts.over :])
    # An invariant that holds again needs no cause.
    violations = [each for each in briefing.ticket.violations if each.key in briefing.broken]
    violations = violations or list(briefing.ticket.violations)
    # The other broken targets have cases of their own.
    others = {each.target for each in violations} - about if about else frozenset()
    violations = [each for each in violations if each.target not in others]
    symptoms = _find_symptoms(briefing, violations)
    targets = [violation.target for violation in violations]
    causes = _list_causes(briefing)
    belief = first_belief(targets, briefing.targets, causes, symptoms)
    belief = normalise({each: w for each, w in belief.weights.items() if each.target not in others})
    belief = belief.without(blamed)
    belief = _learn_from_failures(belief, briefing, failed, blamed)
    words = (*_find_words(briefing, violations), *attempts.complaints)
    belief = keep_supported(
        belief,
        briefing,
        symptoms=symptoms,
        words=words,
        readings=(*attempts.outputs, *readings),
    )
    for word, target in words:
        belief = belief.weigh_word(target, word)
    made = {change.target for change in briefing.changes if is_made(change)}
    belief = normalise(
        {each: w * (CHANGED if each.target in made else 1) for each, w in belief.weights.items()}
    )
    for name in _find_moved(briefing):
        belief = belief.after(CHANGES, name, "moved")
    for output in attempts.outputs:
        if output.outcome in PRINTED_REASONS | set(DECISIVE):
            seen = output.probe, output.target, output.outcome
            belief = belief.after(*seen).favour_reason(*seen, printed=True)
    before, latest = None, max(1, len(ask.turns[-1].steps) if ask.turns else 1)
    for at, reading in enumerate(readings):
        seen = reading.probe, reading.target, reading.outcome
        before = belief if at == 0 or at == len(readings) - latest else before
        belief = belief.after(*seen).favour_reason(*seen)
    return Case(
        briefing=briefing,
        readings=readings,
        tried=tuple(attempts.tried),
        belief=belief,
        last=ask.steps[-1] if ask.steps else None,
        before=before,
        latest=latest,
        patient=frozenset(blamed),
        failed=tuple(failed),
        outputs=tuple(attempts.outputs),
        about=about,
        steps=tuple(ask.steps),
        unproven=tuple(attempts.unproven),
    )


@dataclass(slots=True)
class _Attempts:
    """What the changes and proofs of a run have shown.

    Readings before the step `over` are obsolete. `blamed` are the causes whose remedy was applied
    and whose proof then failed, and `complaints` the reasons in the outputs of failed remedies.
    """

    over: int = 0
    tried: list[Act] = field(default_factory=list)
    blamed: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, Act]] = field(default_factory=list)
    complaints: dict[tuple[str, str], None] = field(default_factory=dict)
    outputs: list[Reading] = field(default_factory=list)
    unproven: list[Step] = field(default_factory=list)


def _read_attempts(ask: Ask) -> _Attempts:
    """Each attempt belongs to the diagnosis before it."""
    changing = {spec.name for spec in ask.briefing.tools if spec.changes}
    attempts = _Attempts()
    suspect: tuple[str, str] | None = None
    acted: dict[str, tuple[str, str]] = {}  # the suspects whose remedies are not proven yet
    undos: list[Action] = []
    for at, step in enumerate(ask.steps):
        want, result = step.want, step.result
        undos += [result.undo] if isinstance(result, Result) and result.undo is not None else []
        if isinstance(want, Diagnose):
            suspect = (want.diagnosis.cause, want.diagnosis.target)
        elif isinstance(want, Prove):
            attempts.over = at + 1
            held = isinstance(result, Proof) and result.held
            covered = [want.target] if want.target in acted else list(acted)
            blamed = [acted.pop(name) for name in covered]
            if not blamed and suspect is not None:  # it was waited for
                blamed = [suspect]
            attempts.blamed += [] if held else blamed
            attempts.unproven = [
                each
                for each in attempts.unproven
                if isinstance(each.want, Act) and each.want.action.target in acted
            ]
        elif isinstance(want, Act) and want.action.tool in changing:
            attempts.over = at + 1
            outcome = result.outcome if isinstance(result, Result) else None
            # Its effect is unknown, so after a new check it may be proposed again.
            if outcome not in (Outcome.CANCELLED, Outcome.UNKNOWN):
                attempts.tried.append(want)
            if isinstance(result, Result) and result.ok and want.action not in undos:
                attempts.unproven.append(step)
                if suspect is not None:
                    acted[want.action.target] = suspect
            if isinstance(result, Result) and outcome is Outcome.RAN and not result.ok:
                attempts.failed.append((suspect[0] if suspect is not None else "", want))
                printed = f"{result.stderr}\n{result.stdout}".strip()
                if word := meaning(printed):
                    attempts.complaints[word, want.action.target] = None
                if printed:
                    attempts.outputs.append(_read_output(want, printed, step.seq))
    return attempts


def _list_causes(briefing: Briefing) -> list[Cause]:
    """The causes of the subject, and the generic ones that it does not redefine."""
    hidden = {cause.name for cause in briefing.causes}
    hidden |= VAGUE if hidden else frozenset()
    causes: list[Cause] = []
    for cause in GENERIC:
        if cause.name in hidden:
            continue
        models = [each for each in briefing.causes if each.name == LIKE.get(cause.name)]
        if cause.name in ENDING | NAMED_IN_LOGS:
            dead = [each for each in briefing.causes if each.name == DEAD]
            models = [Cause("", "", 0.0, kinds=each.kinds) for each in dead]
        causes += [
            replace(cause, kinds=each.kinds, breaks=each.breaks, shows=each.shows)
            for each in models
        ] or [cause]
    return [*causes, *briefing.causes]


def _learn_from_failures(
    belief: Belief,
    briefing: Briefing,
    failed: Sequence[tuple[str, Act]],
    blamed: Sequence[tuple[str, str]],
) -> Belief:
    """A cause whose remedies have all failed is improbable, and causes of failed starts appear."""
    given = {spec.name for spec in briefing.tools}
    tools: dict[tuple[str, str], set[str]] = {}
    for cause, act in failed:
        tools.setdefault((cause, act.action.target), set()).add(act.action.tool)
    starts = {target for cause, target in (*tools, *blamed) if cause == DEAD}
    spent: list[tuple[str, str]] = []
    possible: dict[Suspect, float] = {}
    for suspect, weight in belief.weights.items():
        here = suspect.cause.name, suspect.target
        if suspect.cause.name in NEEDS_FAILURE and suspect.target not in starts:
            continue
        possible[suspect] = weight * (STARTS_FAILED if suspect.cause.name in NEEDS_FAILURE else 1.0)
        left = {remedy.tool for remedy in suspect.cause.remedies} & given
        if here in tools and left <= tools[here]:
            spent.append(here)
    return normalise(possible).without(spent, chance=FAILED)


def _read_output(act: Act, printed: str, seq: int | None) -> Reading:
    """What a failed action printed, as evidence."""
    outcome, _ = read_log(printed)
    text = " / ".join(line.strip() for line in printed.splitlines() if line.strip())
    sentence = f"{act.action.tool} failed: {text[:OUTPUT_CHARS_MAX]}"
    return Reading("log", act.action.target, outcome, sentence, seq)


def _find_symptoms(briefing: Briefing, violations: Sequence[Violation]) -> Symptoms:
    """All broken invariants of the targets in the ticket, including those within their grace."""
    subject = briefing.ticket.subject
    known = {invariant for cause in briefing.causes for invariant in cause.breaks}
    broken: dict[str, set[str]] = {}
    for violation in violations:
        broken.setdefault(violation.target, set()).add(violation.invariant)
    for target, names in broken.items():
        names |= {name for name in known if key_of(subject, target, name) in briefing.broken}
    return Symptoms(
        {target: frozenset(names) for target, names in broken.items()},
        {seen.target: seen.readings for seen in briefing.observation.seen},
    )


def _find_words(briefing: Briefing, violations: Sequence[Violation]) -> list[tuple[str, str]]:
    """The troubles that the violations name, each once, because they are one observation."""
    words: dict[str, str] = {}
    for violation in violations:
        # The current error counts: the ticket has the first one.
        errors: list[str] = []
        stated = [] if violation.trouble is None else [violation.trouble.value]
        for seen in briefing.observation.seen:
            if seen.target == violation.target:
                named = sorted(filter(_is_error, seen.readings))
                texts = [seen.readings[name] for name in named]
                if seen.trouble is None:
                    texts.append(seen.problem)
                else:
                    stated.append(seen.trouble.value)
                errors += [text for text in texts if isinstance(text, str) and text]
        text = " ".join(errors)
        if violation.trouble is None:
            # A plug-in states no trouble, nor does a ticket of an earlier version.
            text = f"{violation.invariant.replace('_', ' ')}: {text or violation.detail}"
        named_troubles = {meaning(text), *stated}
        word = next((name for name in TROUBLES if name in named_troubles), "nothing")
        words.setdefault(word, violation.target)
    telling = {word: target for word, target in words.items() if word != "nothing"}
    return list((telling or words).items())


def is_made(change: Change) -> bool:
    """Whether someone made it: what only a check noticed is often a consequence."""
    if change.name == LISTENS_ON and not change.after:  # it has exited
        return False
    return change.source != OBSERVED or change.name.startswith(SET)


def _find_moved(briefing: Briefing) -> list[str]:
    """The targets whose process used to listen on other ports, or was set to other ones."""

    def is_move(change: Change) -> bool:
        if not change.before or not change.after:
            return False
        if change.name == LISTENS_ON:
            return not set(change.after.split(", ")) <= set(change.before.split(", "))
        return change.source == "settings" and bool(_PORT.search(change.name))

    return sorted({change.target for change in briefing.changes if is_move(change)})


def _read_steps(briefing: Briefing, steps: Sequence[Step]) -> tuple[Reading, ...]:
    """What the probes found. A process that was replaced since then says nothing of the new one."""
    processes = {each.name: each.process for each in briefing.targets if not each.runs_at}
    readings: list[Reading] = []
    for step in steps:
        if (reading := _read_step(briefing, step)) is None or not isinstance(step.want, Act):
            continue
        process, command = processes.get(reading.target), step.want.action.command
        is_same = process is None or re.search(rf"\b{process.pid}\b", command)
        if reading.probe in OF_PROCESS and not is_same:
            readings = [each for each in readings if each.target != reading.target]
        else:
            readings.append(reading)
    return tuple(readings)


def _is_error(name: str) -> bool:
    """Whether a reading is what a target or its clients reported as an error."""
    return name.endswith("error")


def _read_step(briefing: Briefing, step: Step) -> Reading | None:
    if not isinstance(step.want, Act) or not isinstance(step.result, Result):
        return None
    action = step.want.action
    for probe in PROBES:
        if probe.mine(action):
            outcome, sentence = probe.read(step.result, _set_scene(briefing, action.target))
            return Reading(probe.name, action.target, outcome, sentence, step.seq)
    return None


def _set_scene(briefing: Briefing, name: str) -> Scene:
    """What the ticket and its observation tell of a target."""
    ticket = briefing.ticket
    port = next((target.port for target in briefing.targets if target.name == name), None)
    troubles = {violation.trouble for violation in ticket.violations if violation.target == name}
    seen = [seen for seen in briefing.observation.seen if seen.target == name]
    texts = [each.problem for each in seen]
    texts += [
        str(value) for each in seen for name, value in each.readings.items() if _is_error(name)
    ]
    texts += [violation.detail for violation in ticket.violations if violation.target == name]
    refused = Trouble.REFUSED in {*troubles, *(each.trouble for each in seen)}
    refused = refused or any(meaning(text) == "refused" for text in texts)
    since = min((violation.since for violation in ticket.violations), default=ticket.opened_at)
    return Scene(port, refused, since)
