"""What can be done to one member of PD."""

from __future__ import annotations

import asyncio

from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_sre.subjects.tikv.client import Answer
from operator_sre.subjects.tikv.deed import Deed, Done, Refusal
from operator_sre.subjects.tikv.kinds import PD
from operator_sre.subjects.tikv.state import leader_from
from operator_sre.subjects.tikv.tools_stores import restarter

__all__ = ["restart_pd"]

HAND_OVER_S = 20.0


async def restart_pd(deed: Deed) -> Done:
    """One that answers only while the others are a majority without it; a leader hands over."""
    target = deed.target(deed.text("target"), PD)
    members = [one for one in deed.settings.targets() if one.kind == PD]
    said = dict(zip([one.name for one in members], await _asked(deed, members), strict=True))
    if said[target.name].reached:
        others = sum(answer.ok and one != target.name for one, answer in said.items())
        if others < len(members) // 2 + 1:
            raise Refusal(
                f"Without {target.name} PD would have no majority, so it is not restarted.",
                FailureCategory.RESOURCE,
            )
    start = restarter(deed, target)
    deed.begin()
    leads = said[target.name].reached and await _hand_over(deed, target)
    await start()
    while await deed.again():
        answer = await deed.pd.at(target, "leader", itself=True)
        leader = leader_from(answer.body) if answer.ok else None
        if leader is not None:
            first = "handed over and was restarted" if leads else "was restarted"
            told = f"{target.name} {first}; {leader.name} leads."
            return Done(told, {"changed": True, "handed_over": leads, "leader": leader.name})
    why = f"{target.name} was restarted, and follows nobody after {deed.timeout_s:g} s."
    raise Refusal(why, FailureCategory.TIMEOUT)


async def _asked(deed: Deed, members: list[Target]) -> list[Answer]:
    asked = (deed.pd.at(one, "leader", itself=True) for one in members)
    return list(await asyncio.gather(*asked))


async def _hand_over(deed: Deed, target: Target) -> bool:
    """Another one leads when this returns; whether that had to be asked for."""
    if not await _leads(deed, target):
        return False
    await deed.ask("leader/resign", method="POST", body={})
    begun = deed.left_s
    while await deed.again() and begun - deed.left_s < HAND_OVER_S:
        answer = await deed.pd.ask("leader")
        if leader_from(answer.body) is not None and not await _leads(deed, target):
            return True
    why = f"{target.name} still leads after {HAND_OVER_S:g} s, so it was not restarted."
    raise Refusal(why, FailureCategory.TIMEOUT)


async def _leads(deed: Deed, target: Target) -> bool:
    """Whether it is itself the leader that it names."""
    named = leader_from((await deed.pd.at(target, "leader", itself=True)).body)
    if named is None:
        return False
    own = {f"{target.host}:{target.port}", *target.endpoints}
    return named.name == target.name or bool(own & set(named.addresses))
