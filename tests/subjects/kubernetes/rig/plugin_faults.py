"""A fault of the plug-in on the real rig: seen with its cause, judged by its oracle, and healed."""

from __future__ import annotations

import random

from operator_lab import faults
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Fault, Scene
from operator_sre.subjects.kubernetes.faults import TRUTHS
from tests.subjects.kubernetes.rig.trial import CLOCK, POLL_S, SEEN_S_MAX, Trial

__all__ = ["break_and_heal"]

HEALED_S_MAX = 150.0


async def break_and_heal(trial: Trial, fault: Fault) -> tuple[str, bool]:
    """A row of the table, and whether all of it went right."""
    rig, truths = trial.rig, TRUTHS[fault.name]
    began, seen, named, still, healed = CLOCK.monotonic(), "no", "", "", "no"
    try:
        await faults.inject(rig, fault, target=None, rng=random.Random(fault.name))
        while (seen == "no" or named not in truths) and CLOCK.monotonic() - began < SEEN_S_MAX:
            await CLOCK.sleep(POLL_S)
            observation, ripe = await trial.observe()
            if seen == "no" and any(name == fault.breaks[0] for name, _ in ripe):
                seen = f"{CLOCK.monotonic() - began:.1f} s"
            found = {
                f"{each.readings['cause']}@{each.target}"
                for each in observation.seen
                if "cause" in each.readings
            }
            right = [truth for truth in truths if truth in found]
            named = right[0] if right else ", ".join(sorted(found))
        still = await faults.is_over(rig, fault)
    except OperatorError as problem:
        named = f"failed: {problem.message}"
    began = CLOCK.monotonic()
    try:
        notes = faults.broken(rig)[-1].notes
        customers = next(each for each in rig.targets() if each.kind == fault.kind)
        scene = Scene(customers, rig.targets(), rig, notes)
        await faults.heal(rig, fault)
        left = "not checked"
        while left and CLOCK.monotonic() - began < HEALED_S_MAX:
            await CLOCK.sleep(POLL_S)
            _, ripe = await trial.observe()
            left = ", ".join(f"{name} at {target}" for name, target in sorted(ripe))
            left = left or await fault.oracle(scene)
        healed = f"no: {left[:160]}" if left else f"{CLOCK.monotonic() - began:.0f} s"
    except OperatorError as problem:
        healed = f"no: {problem.message}"
    is_right = seen != "no" and named in truths and bool(still) and not healed.startswith("no")
    return f"| {fault.name} | {seen} | {named or '-'} | {still[:90] or '-'} | {healed} |", is_right
