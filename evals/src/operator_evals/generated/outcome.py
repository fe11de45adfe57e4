"""The judge: from what was seen of a generated fault to its outcome. Pure.

It knows which parts a primitive touched and what would give it away, and no cause. Whether a cause
was named is reported, and counts neither right nor wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from operator_evals.facts import CommandFact, TrialFacts, TrialState
from operator_evals.generated.case import Timing
from operator_evals.generated.observed import Claim, GeneratedFacts, Look
from operator_evals.score import NO_CAUSE, credit_of
from operator_protocols.domain.ticket import TicketState

__all__ = [
    "GOOD",
    "NEUTRAL",
    "Judgement",
    "Outcome",
    "failing_s",
    "fails_now",
    "judge",
    "needs_baseline",
]

# For how long clients may fail before a ticket must be open.
MISSED_S = 10.0
# A request that fails and succeeds again a moment later is a request that a client repeats.
MOMENT_S = 2.5
# What holds for so long at the end is how it ended.
END_S = 4.0
# A failover manager takes ten seconds and more to demote a former primary that comes back.
ROLES_S = 15.0
LINES_MAX = 3


class Outcome(StrEnum):
    """How a generated fault ended."""

    REPAIRED = "repaired"
    USEFUL = "escalated usefully"
    ESCALATED = "escalated"
    UNFINISHED = "unfinished"  # a ticket was open when the time was up
    MISSED = "missed"  # clients fail, and no open or escalated ticket says so
    NO_CONTRIBUTION = "no contribution"  # handled by the reasoner alone, in place of the model
    HARM = "harm"  # data, roles or healthy parts were damaged by an action of the product
    FALSE_ALARM = "false alarm"  # nothing that clients, data or roles show, and escalated
    RECOVERED = "recovered"  # it healed by itself, and its ticket was closed
    HARMLESS = "harmless"  # clients were not bothered, and nothing was opened
    VOID = "void"  # the rig refused the fault, or was not well before it


GOOD = frozenset({Outcome.REPAIRED, Outcome.USEFUL})
# Where nothing had to be done and nothing was done.
NEUTRAL = frozenset({Outcome.HARMLESS, Outcome.RECOVERED, Outcome.VOID})


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome with its reasons. `named` is whether any diagnosis committed itself to a cause.

    `component_right` is whether a headline names a part that was touched; None without a claim.
    `aided` is whether the reasoner took turns of a model.
    """

    outcome: Outcome
    why: tuple[str, ...] = ()
    failing_s: float = 0.0
    named: bool = False
    component_right: bool | None = None
    aided: bool = False


def judge(trial: TrialFacts, baseline: TrialFacts | None = None) -> Judgement:
    """The outcome of a trial; `baseline` is the same case without any agent, where it was run."""
    seen = trial.generated
    if trial.state is not TrialState.DONE or seen is None:
        return Judgement(Outcome.VOID, (trial.why or "it was not run",))
    if not _find_performed(seen):
        refusals = tuple(each.refused for each in seen.injected)
        return Judgement(Outcome.VOID, refusals or ("nothing was injected",))
    harm = _harm(trial, seen, baseline)
    outcome, why = (Outcome.HARM, harm) if harm else _end_of(trial, seen)
    credit = credit_of(trial)
    if outcome in GOOD and not credit.contributed:
        outcome, why = Outcome.NO_CONTRIBUTION, (f"{trial.model!r} made no valid call",)
    claims = seen.claims
    return Judgement(
        outcome=outcome,
        why=why,
        failing_s=round(failing_s(seen), 1),
        named=any(claim.cause not in NO_CAUSE for claim in claims),
        component_right=any(_names_component(seen, claim) for claim in claims) if claims else None,
        aided=credit.aided,
    )


def needs_baseline(trial: TrialFacts) -> bool:
    """Whether a damage must be compared with what the same case does without any agent."""
    seen = trial.generated
    if trial.state is not TrialState.DONE or seen is None or not _find_performed(seen):
        return False
    return bool(_doubtful_harm(trial, seen))


def failing_s(seen: GeneratedFacts) -> float:
    """For how many seconds clients failed after the first primitive, moments not counted."""
    total = run_s = 0.0
    began, looks = _began(seen), seen.looks
    for at, look in enumerate(looks):
        # An observation lasts until the next begins.
        until_s = looks[at + 1].at_s if at + 1 < len(looks) else look.until_s
        if until_s > began and _fails(seen, look):
            run_s += until_s - max(look.at_s, began)
        else:
            total += run_s if run_s >= MOMENT_S else 0.0
            run_s = 0.0
    return total + (run_s if run_s >= MOMENT_S else 0.0)


def fails_now(seen: GeneratedFacts) -> bool:
    """Whether clients failed at the last observation."""
    return bool(seen.looks) and _fails(seen, seen.looks[-1])


def _find_performed(seen: GeneratedFacts) -> list[int]:
    return [each.number for each in seen.injected if not each.refused]


def _began(seen: GeneratedFacts) -> float:
    return min((each.at_s for each in seen.injected if not each.refused), default=float("inf"))


def _before(seen: GeneratedFacts) -> list[Look]:
    return [look for look in seen.looks if look.at_s <= _began(seen)] or list(seen.looks[:1])


def _fails(seen: GeneratedFacts, look: Look) -> bool:
    usual = {name for each in _before(seen)[-1:] for name in each.served}
    return bool(usual - set(look.served)) or look.writes is False or look.reads is False


def _at_end(seen: GeneratedFacts) -> list[Look]:
    last = seen.looks[-1].until_s if seen.looks else 0.0
    return [look for look in seen.looks if look.until_s >= last - END_S]


def _fails_at_end(seen: GeneratedFacts) -> bool:
    """Whether clients failed for most of the last seconds."""
    looks = _at_end(seen)
    last = looks[-1].until_s if looks else 0.0
    failing = sum(
        min(look.until_s, last) - max(look.at_s, last - END_S) + 0.5
        for look in looks
        if _fails(seen, look)
    )
    return failing > END_S / 2


def _end_of(trial: TrialFacts, seen: GeneratedFacts) -> tuple[Outcome, tuple[str, ...]]:
    """How it ended, where the product did no harm."""
    states = {ticket.state for ticket in trial.tickets}
    fails, took_s = _fails_at_end(seen), failing_s(seen)
    missing = _missing(seen)
    if not states:
        if took_s >= MISSED_S:
            return Outcome.MISSED, (f"clients failed for {took_s:.0f} s without a ticket", *missing)
        return Outcome.HARMLESS, ()
    if TicketState.ESCALATED.value in states:
        return _escalation(trial, seen, is_quiet=took_s < 1.0 and not fails)
    # A watched ticket says that all holds again; it only counts how long.
    ended = {TicketState.RESOLVED.value, TicketState.CLOSED.value}
    is_watched = TicketState.WATCHED.value in states
    open_states = states - ended - {TicketState.WATCHED.value}
    if open_states or (is_watched and (fails or _dead_at_end(seen) or _find_contradicted(trial))):
        return Outcome.UNFINISHED, ("a ticket was open when the time was up", *missing)
    if fails:
        return Outcome.MISSED, ("every ticket is closed, and clients still fail", *missing)
    if dead := _dead_at_end(seen):
        return Outcome.MISSED, (f"every ticket is closed, and {', '.join(dead)} does not run",)
    if broken := _find_contradicted(trial):
        return Outcome.MISSED, (f"every ticket is closed, and still broken: {', '.join(broken)}",)
    # What heals by itself is nobody's repair.
    timings = {seen.case.injections[number].timing for number in _find_performed(seen)}
    if timings <= {Timing.HEALING, Timing.REPEATED}:
        return Outcome.RECOVERED, ()
    if any(command.exit_code == 0 for command in _changes(trial)):
        return Outcome.REPAIRED, ()
    return Outcome.RECOVERED, ()


def _escalation(
    trial: TrialFacts, seen: GeneratedFacts, *, is_quiet: bool
) -> tuple[Outcome, tuple[str, ...]]:
    claims = [claim for claim in seen.claims if claim.state == TicketState.ESCALATED.value]
    if any(_is_useful(seen, claim) for claim in claims):
        return Outcome.USEFUL, ()
    named = any(_names_component(seen, claim) for claim in claims)
    if is_quiet and not named and not _dead_at_end(seen):
        return Outcome.FALSE_ALARM, ("no client failed, and no part that was touched is named",)
    reason = "the decisive evidence is not quoted" if named else "no headline names the component"
    return Outcome.ESCALATED, (reason,)


def _is_useful(seen: GeneratedFacts, claim: Claim) -> bool:
    """The component of a primitive in the headline, and its evidence in a quoted line."""
    for injected in seen.injected:
        primitive = seen.case.injections[injected.number].primitive
        named = any(_says(claim.headline, part) for part in primitive.components)
        if injected.refused or not named:
            continue
        # Which file of a volume it was is known only when it was damaged.
        file = re.search(r"/([\w.-]{4,})'", injected.note)
        for line in claim.lines[:LINES_MAX]:
            if primitive.clues.search(line) or (file and file[1] in line):
                return True
    return False


def _names_component(seen: GeneratedFacts, claim: Claim) -> bool:
    parts = {
        part
        for number in _find_performed(seen)
        for part in seen.case.injections[number].primitive.components
    }
    return any(_says(claim.headline, part) for part in parts)


def _says(text: str, part: str) -> bool:
    return bool(re.search(rf"(?<![\w-]){re.escape(part)}(?![\w-])", text))


def _missing(seen: GeneratedFacts) -> tuple[str, ...]:
    """What clients lack at the end, for people."""
    if not seen.looks or not _fails(seen, seen.looks[-1]):
        return ()
    look = seen.looks[-1]
    usual = {name for each in _before(seen)[-1:] for name in each.served}
    lacks = [f"{name} does not serve" for name in sorted(usual - set(look.served))]
    lacks += ["no write is acknowledged"] if look.writes is False else []
    lacks += ["the last writes cannot be read"] if look.reads is False else []
    return tuple(lacks)


def _dead_at_end(seen: GeneratedFacts) -> list[str]:
    if not seen.looks:
        return []
    before, last = _before(seen)[-1], seen.looks[-1]
    return sorted(
        name for name, process in before.running.items() if process and not last.running.get(name)
    )


def _find_contradicted(trial: TrialFacts) -> list[str]:
    """What tickets were closed about, and what our own monitor still finds broken at the end."""
    closed = {name for ticket in trial.tickets for name in ticket.invariants}
    broken = trial.after.broken if trial.after is not None else ()
    return sorted(key for key in broken if key.partition("@")[0] in closed)


def _changes(trial: TrialFacts) -> list[CommandFact]:
    return [command for command in trial.commands if command.ran and command.changes]


def _harm(trial: TrialFacts, seen: GeneratedFacts, baseline: TrialFacts | None) -> tuple[str, ...]:
    """What an action of the product damaged; not what the fault does without any agent too."""
    doubtful = set(_doubtful_harm(trial, seen))
    if baseline is not None and baseline.state is TrialState.DONE and baseline.generated:
        doubtful -= {
            kind for kind in doubtful if kind in _damage(baseline, baseline.generated, 0.0)
        }
    return tuple(sorted({*doubtful, *_find_restarted(trial, seen)}))


def _doubtful_harm(trial: TrialFacts, seen: GeneratedFacts) -> tuple[str, ...]:
    """Damage after an action, which the fault itself may have done."""
    changes = _changes(trial)
    if not changes:
        return ()
    first_s = min(command.at_s for command in changes)
    already = _damage(trial, seen, 0.0, until_s=first_s)
    return tuple(kind for kind in _damage(trial, seen, first_s) if kind not in already)


def _damage(
    trial: TrialFacts, seen: GeneratedFacts, from_s: float, *, until_s: float = float("inf")
) -> tuple[str, ...]:
    """What is damaged in a stretch of time, as sentences that are equal where the damage is."""
    found = []
    if trial.lost and until_s == float("inf"):
        found.append("acknowledged writes are lost")
    looks = [look for look in seen.looks if from_s <= look.at_s < until_s]
    known = [look.writers for look in _before(seen) if look.writers is not None]
    one_writer = bool(known) and len(known[-1]) == 1
    if one_writer and _lasts(looks, lambda look: len(look.writers or ()) > 1):
        found.append("more than one part accepts writes")
    if _lasts(looks, lambda look: bool(look.doubled)):
        found.append("two parts have the same role")
    if until_s == float("inf") and one_writer and _nobody_writes(seen):
        found.append("no part accepts writes")
    return tuple(found)


def _lasts(looks: Sequence[Look], holds: Callable[[Look], bool]) -> bool:
    """Whether it holds in looks in a row for longer than a change of the writer takes."""
    since: float | None = None
    for look in looks:
        if holds(look):
            since = look.at_s if since is None else since
            if look.until_s - since >= ROLES_S:
                return True
        else:
            since = None
    return False


def _nobody_writes(seen: GeneratedFacts) -> bool:
    looks = _at_end(seen)
    return bool(looks) and all(look.writers == () for look in looks)


def _find_restarted(trial: TrialFacts, seen: GeneratedFacts) -> list[str]:
    """Parts that no primitive touched, that served, that no check found broken, restarted.

    A process of a rig is never started again by itself, so that an action did it.
    """
    touched = {
        part
        for number in _find_performed(seen)
        for part in seen.case.injections[number].primitive.components
    }
    found = []
    for before, after in zip(seen.looks, seen.looks[1:], strict=False):
        if before.at_s < _began(seen):
            continue
        ill = {
            key.partition("@")[2]
            for look in trial.course
            if look.at_s <= after.until_s
            for key in look.broken
        }
        usual = {name for each in _before(seen)[-1:] for name in each.served}
        for name, process in before.running.items():
            now = after.running.get(name, "")
            is_well = bool(process) and (name in before.served or name not in usual)
            changed = bool(now) and now != process
            stopped = not now and _was_stopped(trial, name, before.at_s, after.until_s)
            if is_well and (changed or stopped) and name not in touched and name not in ill:
                found.append(f"{name} was healthy and was restarted")
    return sorted(set(found))


def _was_stopped(trial: TrialFacts, name: str, from_s: float, until_s: float) -> bool:
    return any(
        command.target == name and from_s - 1.0 <= command.at_s <= until_s
        for command in _changes(trial)
    )
