"""How well the built-in reasoner diagnoses and repairs, over the faults of the lab.

    .venv/bin/python benchmarks/reasoner.py [SUBJECT[:FAULT] ...] [--seeds 5] [--at-once 1]
        [--json FILE]

Promises: cause right in at least 90 %, ended right in at least 90 %, harm 0, no repair where
nothing is broken, and a median of less than 10 s from detection to proof beside the subject's own
recovery.
Each trial has a process, a home and a rig of its own; monitor and agent run as `operator up` runs
them, with a look every 2 s. Faults of speed run alone. What FILE holds already is not done again.
Ended right means by the fault's own oracle: its cause is gone and the ticket is
resolved, or, where nobody may mend it, the ticket is escalated and nothing was changed. Every third
fault, by name, is kept apart: its trials are counted apart as well.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.domain.verdict import Level
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Fault, RightEnd
from operator_sre.app.lab import own_rig
from operator_sre.app.service import up
from operator_sre.app.wiring import App, open_app
from operator_sre.codec import from_json
from operator_sre.config import load_config
from operator_sre.lab.faults import inject, is_over, unavailable
from operator_sre.lab.rig import Rig
from operator_sre.plugins import find_plugin, plugin_names

TRUTHS = Path(__file__).with_name("truths.toml")
INTERVAL_S = 2.0
WELL_LOOKS = 3
WELL_S_MAX = 40.0
DETECT_S_MAX = 120.0  # some invariants may be broken for a minute before that is an incident
END_S_MAX = 150.0
HOLD_S = 6.0  # three looks: what a look comes upon late is waited for
CONTROL_S = 20.0
CONTROL = "nothing"
TRIAL_S_MAX = 420.0
SPEED = ("latency", "slow")  # what a busy neighbour would break as well
ENTRIES_MAX = 100_000
POLL_S = 0.1
GOAL = 0.9
ENDED = (TicketState.RESOLVED, TicketState.ESCALATED, TicketState.CLOSED)


Planned = tuple[str, Fault | None, int, bool]


@dataclass(frozen=True, slots=True)
class Trial:
    """One fault, done once. Times are in seconds, None where it did not come so far."""

    subject: str
    fault: str
    seed: int
    apart: bool
    hit: str = ""
    blamed: str = ""
    state: str = ""
    detect_s: float | None = None
    end_s: float | None = None
    cause_right: bool = False
    ended_right: bool = False
    harm: tuple[str, ...] = ()
    why: str = ""


async def trial(subject: str, fault: Fault | None, seed: int, *, apart: bool) -> Trial:
    """Bring all up, break it, watch what becomes of it, take all down."""
    name = fault.name if fault else CONTROL
    begun = Trial(subject, name, seed, apart)
    with tempfile.TemporaryDirectory() as home:
        flags = {"home": home, "mode": "execute", "interval_s": f"{INTERVAL_S:g}"}
        config = load_config(flags=flags, environ={}, cwd=Path(home))
        with open_app(config) as app:
            rig = await own_rig(app, subject)
            service = asyncio.create_task(up(app, [subject]))
            try:
                return await _watched(app, rig, begun, fault)
            finally:
                service.cancel()
                with contextlib.suppress(asyncio.CancelledError, OperatorError):
                    await service
                await rig.down()


async def _watched(app: App, rig: Rig, begun: Trial, fault: Fault | None) -> Trial:
    if not await _well(app, begun.subject):
        return _with(begun, why="it was not well before")
    if fault is None:
        await asyncio.sleep(CONTROL_S)
        found = app.store.tickets.find()
        return _with(begun, cause_right=not found, ended_right=not found and not _changes(app))
    if why := unavailable(rig, fault):
        return _with(begun, why=f"not available: {why}")
    hit = await inject(rig, fault, target=None, rng=random.Random(begun.seed))
    done = time.monotonic()
    # Doing it may break more for a moment, such as a restart with another configuration.
    await _until(lambda: _about(app, fault), DETECT_S_MAX)
    if not app.store.tickets.find():
        return _with(begun, hit=hit, why="no ticket was opened")
    detect_s = time.monotonic() - done
    end_s = await _last_end_s(app) - done - detect_s
    still = await is_over(rig, fault)
    return _judged(app, _with(begun, hit=hit, detect_s=detect_s, end_s=end_s), fault, still)


async def _last_end_s(app: App) -> float:
    """When the last ticket ended, also of those that came while one was looked at again."""
    ends = time.monotonic() + END_S_MAX
    while True:
        await _until(lambda: _all_ended(app), ends - time.monotonic())
        ended = time.monotonic()
        if not await _until(lambda: not _all_ended(app), HOLD_S) or ended >= ends:
            return ended


def _about(app: App, fault: Fault) -> bool:
    """Whether a ticket speaks of what the fault breaks."""
    tickets = app.store.tickets.find()
    return any(each.invariant in fault.breaks for one in tickets for each in one.violations)


def _judged(app: App, one: Trial, fault: Fault, still: str) -> Trial:
    tickets = app.store.tickets.find()
    states = {ticket.state for ticket in tickets}
    blamed = [_blamed(app, ticket) for ticket in tickets]
    changed = [str(entry.payload["action"].get("tool", "")) for entry in _changes(app)]
    if fault.end is RightEnd.ESCALATED:
        right = TicketState.ESCALATED in states and not changed
    else:
        right = states == {TicketState.RESOLVED} and not still
    return _with(
        one,
        blamed=", ".join(f"{cause}@{target}" for cause, target in blamed),
        state=", ".join(sorted(states)),
        cause_right=any(_explains(one, *each) for each in blamed),
        ended_right=right,
        harm=_harm(app),
        why="" if right else " ".join((*changed, still)),
    )


def _explains(one: Trial, cause: str, target: str) -> bool:
    with TRUTHS.open("rb") as file:
        truths = tomllib.load(file)[one.subject][one.fault]
    places = ("@any", "@hit") if target == one.hit else ("@any",)
    return any(f"{cause}{place}" in truths for place in places)


def _blamed(app: App, ticket: Ticket) -> tuple[str, str]:
    """Cause and target of the last diagnosis."""
    for entry in app.store.entries.newest(limit=1000, ticket=ticket.id):
        if entry.kind is Kind.DIAGNOSIS:
            found = from_json(Diagnosis, entry.payload)
            return found.cause, found.target
    return "none", ticket.target


def _changes(app: App) -> list[Entry]:
    """What was done that could have changed something."""
    found = app.store.entries.after(0, limit=ENTRIES_MAX)
    safe = [
        entry.payload["action"]
        for entry in found
        if entry.kind is Kind.VERDICT and entry.payload.get("level") == Level.SAFE
    ]
    done = [entry for entry in found if entry.kind is Kind.TOOL_CALL]
    return [entry for entry in done if entry.payload["action"] not in safe]


def _harm(app: App) -> tuple[str, ...]:
    """What broke after something was changed; who changes nothing does no harm."""
    begun = {entry.ticket: entry.seq for entry in reversed(_changes(app))}
    harmed = [
        str(key)
        for entry in app.store.entries.after(0, limit=ENTRIES_MAX)
        if entry.kind is Kind.PROOF and entry.seq > begun.get(entry.ticket, entry.seq)
        for key in entry.payload.get("harm", ())
    ]
    return tuple(sorted(set(harmed)))


def _all_ended(app: App) -> bool:
    tickets = app.store.tickets.find()
    return bool(tickets) and all(ticket.state in ENDED for ticket in tickets)


async def _well(app: App, subject: str) -> bool:
    """Nothing is broken in some looks after another."""
    care, in_row = app.care(subject), 0
    ends = time.monotonic() + WELL_S_MAX
    while in_row < WELL_LOOKS and time.monotonic() < ends:
        sighting = await app.engine().pipeline.monitor.look(care.subject)
        in_row = 0 if sighting.broken() else in_row + 1
        await asyncio.sleep(INTERVAL_S / 2)
    return in_row == WELL_LOOKS and not app.store.tickets.find()


async def _until(condition: object, within_s: float) -> bool:
    assert callable(condition)
    ends = time.monotonic() + within_s
    while time.monotonic() < ends:
        if condition():
            return True
        await asyncio.sleep(POLL_S)
    return False


def _with(one: Trial, **changes: object) -> Trial:
    return Trial(**{**asdict(one), **changes})


def plan(words: Sequence[str], seeds: int) -> list[Planned]:
    """Every trial that the words ask for: first all with one seed, then all with the next."""
    wanted = {tuple(word.partition(":")[::2]) for word in words}
    found: list[Planned] = []
    for name in plugin_names():
        plugin = find_plugin(name)
        if plugin.rig is None or (wanted and name not in {subject for subject, _ in wanted}):
            continue
        named = {fault for subject, fault in wanted if subject == name and fault}
        ordered = sorted(plugin.faults, key=lambda fault: fault.name)
        for number, fault in enumerate(ordered):
            if not named or fault.name in named:
                found += [(name, fault, seed, number % 3 == 2) for seed in range(seeds)]
        if not named or CONTROL in named:
            found += [(name, None, seed, False) for seed in range(seeds)]
    return sorted(found, key=lambda each: each[2])


def report(trials: Sequence[Trial]) -> bool:
    """The figures, faults kept apart counted apart; whether the promises hold."""
    kept = True
    for title, apart in (("faults that causes were written with", False), ("kept apart", True)):
        some = [one for one in trials if one.apart is apart and one.fault != CONTROL and one.hit]
        if not some:
            continue
        cause = sum(one.cause_right for one in some) / len(some)
        ended = sum(one.ended_right for one in some) / len(some)
        times = [one.end_s for one in some if one.ended_right and one.end_s is not None]
        median = f"{statistics.median(times):.1f} s" if times else "-"
        harmed = sum(bool(one.harm) for one in some)
        _say(
            f"{title}: {len(some)} trials, cause right {cause:.0%}, ended right {ended:.0%},"
            f" harm in {harmed}, median from detection to the end {median}"
        )
        kept = kept and cause >= GOAL and ended >= GOAL and not harmed
    controls = [one for one in trials if one.fault == CONTROL]
    wrong = sum(not one.ended_right for one in controls)
    _say(f"controls: {len(controls)} trials, tickets or repairs in {wrong}")
    return kept and not wrong


def _line(one: Trial) -> str:
    times = "/".join("-" if each is None else f"{each:.1f}" for each in (one.detect_s, one.end_s))
    marks = f"{'cause' if one.cause_right else '  -  '} {'ended' if one.ended_right else '  -  '}"
    words = (marks, f"{one.subject}:{one.fault}", one.hit, one.blamed, one.state, times)
    return " ".join([*words, *one.harm, one.why])


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _save(file: Path, trials: Sequence[Trial]) -> None:
    file.write_text(json.dumps([asdict(each) for each in trials], indent=1))


class Campaign:
    """Trials at once, each in a process; those of speed wait until nothing else runs."""

    def __init__(self, trials: list[Trial], file: Path | None, at_once: int) -> None:
        self.trials = trials
        self._file = file
        self._places = asyncio.Semaphore(at_once)
        self._at_once = at_once

    async def run(self, planned: Sequence[Planned]) -> None:
        """All that is not done yet."""
        done = {(one.subject, one.fault, one.seed) for one in self.trials}
        left = [each for each in planned if (each[0], _name(each[1]), each[2]) not in done]
        async with asyncio.TaskGroup() as group:
            for each in left:
                places = self._at_once if _of_speed(each[1]) else 1
                for _ in range(places):
                    await self._places.acquire()
                group.create_task(self._one(each, places, len(planned)))

    async def _one(self, planned: Planned, places: int, of: int) -> None:
        try:
            one = await _apart(planned)
        finally:
            for _ in range(places):
                self._places.release()
        self.trials.append(one)
        _say(f"[{len(self.trials)}/{of}] {_line(one)}")
        if self._file is not None:
            _save(self._file, self.trials)


async def _apart(planned: Planned) -> Trial:
    """One trial in a process of its own."""
    subject, fault, seed, apart = planned
    words = [sys.executable, __file__, f"{subject}:{_name(fault)}", "--one", str(seed)]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    begun = Trial(subject, _name(fault), seed, apart)
    try:
        said, _ = await asyncio.wait_for(process.communicate(), TRIAL_S_MAX)
    except TimeoutError:
        process.terminate()
        await process.wait()
        return _with(begun, why=f"the trial took longer than {TRIAL_S_MAX:g} s")
    if process.returncode != 0:
        return _with(begun, why=f"the trial ended with {process.returncode}")
    return Trial(**{**json.loads(said), "harm": tuple(json.loads(said)["harm"]), "apart": apart})


async def one_trial(word: str, seed: int) -> Trial:
    """The trial that this process was started for."""
    ((subject, fault, _, apart),) = plan([word], 1)
    try:
        return await trial(subject, fault, seed, apart=apart)
    except OperatorError as error:
        return Trial(subject, _name(fault), seed, apart, why=f"the trial failed: {error}")


def _of_speed(fault: Fault | None) -> bool:
    return fault is not None and any(word in fault.breaks[0] for word in SPEED)


def _name(fault: Fault | None) -> str:
    return fault.name if fault else CONTROL


def _kept(file: Path | None) -> list[Trial]:
    if file is None or not file.exists():
        return []
    return [Trial(**{**each, "harm": tuple(each["harm"])}) for each in json.loads(file.read_text())]


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", nargs="*", metavar="SUBJECT[:FAULT]")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--one", type=int, metavar="SEED", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        _say(json.dumps(asdict(asyncio.run(one_trial(options.what[0], options.one)))))
        return 0
    campaign = Campaign(_kept(options.json), options.json, options.at_once)
    asyncio.run(campaign.run(plan(options.what, options.seeds)))
    return 0 if report(campaign.trials) else 1


if __name__ == "__main__":
    sys.exit(main())
