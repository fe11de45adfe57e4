"""What can be done to one region: who leads it, where its copies lie, where it begins and ends."""

from __future__ import annotations

from operator_protocols.domain.action import Action, Argument
from operator_protocols.domain.category import FailureCategory
from operator_sre.subjects.tikv.deed import Deed, Done, Refusal
from operator_sre.subjects.tikv.heat import hottest_from
from operator_sre.subjects.tikv.live import GRANT_LEADER, UP, Live
from operator_sre.subjects.tikv.region import Region
from operator_sre.subjects.tikv.state import Operator, Store

__all__ = [
    "cancel_operator",
    "merge_region",
    "split_region",
    "store_named",
    "transfer_leader",
    "transfer_peer",
]

# Below this PD itself gives a store no more regions.
FREE_RATIO_MIN = 0.2
MERGED_MB_MAX = 144  # larger ones are split again at once
BRIEF_MAX = 120
HOT = ("write", "read")


async def transfer_leader(deed: Deed) -> Done:
    """Only to a copy that has all that the others have, and that PD would leave there."""
    live = await deed.look()
    region = await _region(deed, deed.integer("region") or await _hottest(deed))
    named = deed.text("to")
    store = store_named(live, named) if named else _heir(live, region)
    name = live.name_of(store.id)
    if region.leader == store.id:
        told = f"Region {region.id} is led by {name} already."
        return Done(told, {"changed": False, "leader": store.id})
    _free(live, region.id)
    _up(live, store)
    if store.id in live.evicting:
        raise Refusal(f"{name} is being drained, so it gets no leader; undrain_store ends that.")
    if region.leader in live.granting:
        raise Refusal(f"{GRANT_LEADER}-{region.leader} would take the leader back at once.")
    peer = region.peer_on(store.id)
    if peer is None or not peer.voter:
        raise Refusal(
            f"Region {region.id} has no copy on {name} that could lead it; {_on(live, region)}."
        )
    if not peer.sound:
        raise Refusal(f"The copy of region {region.id} on {name} lags behind; it must not lead.")
    was = region.leader
    body = {"name": "transfer-leader", "region_id": region.id, "to_store_id": store.id}
    await deed.ask("operators", method="POST", body=body)
    while await deed.again():
        now = await deed.region(region.id)
        if now is not None and now.leader == store.id:
            back: dict[str, Argument] = {"region": region.id, "to": str(was)}
            return Done(
                f"Region {region.id} is led by {name}, it was {live.name_of(was)}.",
                {"changed": True, "leader": store.id, "was": was},
                Action("transfer_leader", back) if was else None,
            )
    raise await _unfinished(deed, region.id, f"{name} does not lead region {region.id}")


async def transfer_peer(deed: Deed) -> Done:
    """The new copy is whole before the old one goes, and every other copy is sound meanwhile."""
    live = await deed.look()
    region = await _region(deed, deed.integer("region"))
    source, store = (store_named(live, deed.text(name)) for name in ("source", "to"))
    old, new = live.name_of(source.id), live.name_of(store.id)
    if region.peer_on(source.id) is None:
        raise Refusal(f"Region {region.id} has no copy on {old}; {_on(live, region)}.", _NOT_FOUND)
    if region.peer_on(store.id) is not None:
        raise Refusal(f"Region {region.id} has a copy on {new} already; {_on(live, region)}.")
    _free(live, region.id)
    _up(live, store)
    if unsound := region.unsound(but=source.id):
        raise Refusal(
            f"The copy of region {region.id} on {live.name_of(unsound[0])} is not sound; with one"
            " more under way too few would be left. Let it recover first.",
            FailureCategory.RESOURCE,
        )
    if store.capacity_bytes and store.available_bytes < FREE_RATIO_MIN * store.capacity_bytes:
        why = f"{new} has too little room: PD gives it no more regions either."
        raise Refusal(why, FailureCategory.RESOURCE)
    body = {
        "name": "transfer-peer",
        "region_id": region.id,
        "from_store_id": source.id,
        "to_store_id": store.id,
    }
    await deed.ask("operators", method="POST", body=body)
    while await deed.again():
        now = await deed.region(region.id)
        peer = now.peer_on(store.id) if now is not None else None
        if now is not None and peer is not None and peer.sound and now.peer_on(source.id) is None:
            back: dict[str, Argument] = {"region": region.id}
            back |= {"source": str(store.id), "to": str(source.id)}
            return Done(
                f"The copy of region {region.id} moved from {old} to {new}.",
                {"changed": True, "source": source.id, "to": store.id},
                Action("transfer_peer", back),
            )
    raise await _unfinished(deed, region.id, f"the copy of region {region.id} is not on {new} yet")


async def split_region(deed: Deed) -> Done:
    """In the middle, as its leader finds it; refused for what has nothing to split."""
    live = await deed.look()
    region = await _region(deed, deed.integer("region") or await _hottest(deed))
    _free(live, region.id)
    if not region.leader:
        raise Refusal(f"Region {region.id} has no leader that could split it.", _RESOURCE)
    body = {"name": "split-region", "region_id": region.id, "policy": deed.text("policy")}
    await deed.ask("operators", method="POST", body=body)
    while await deed.again():
        now = await deed.region(region.id)
        if now is None or now.version <= region.version:
            continue
        other = await _beside(deed, region, now)
        undo = None
        if other is not None:
            undo = Action("merge_region", {"source": other, "into": region.id})
        beside = f"region {other}" if other is not None else "another region"
        return Done(
            f"Region {region.id} is split; the rest of its keys is in {beside}.",
            {"changed": True, "region": region.id, "other": other},
            undo,
        )
    raise await _unfinished(
        deed, region.id, f"region {region.id} is not split: it may hold a single key"
    )


async def merge_region(deed: Deed) -> Done:
    """Only of neighbours that are sound, and together no larger than what would be split again."""
    live = await deed.look()
    gone = await _region(deed, deed.integer("source"))
    stays = await _region(deed, deed.integer("into"))
    if gone.id == stays.id or not gone.touches(stays):
        raise Refusal(f"Regions {gone.id} and {stays.id} do not lie beside each other.")
    for region in (gone, stays):
        _free(live, region.id)
        if unsound := region.unsound():
            where = live.name_of(unsound[0])
            raise Refusal(f"The copy of region {region.id} on {where} is not sound.", _RESOURCE)
    size_mb = gone.size_mb + stays.size_mb
    if size_mb > MERGED_MB_MAX:
        raise Refusal(f"Together they hold {size_mb} MB, and would be split again at once.")
    body = {
        "name": "merge-region",
        "source_region_id": gone.id,
        "target_region_id": stays.id,
    }
    await deed.ask("operators", method="POST", body=body)
    while await deed.again():
        if await deed.region(gone.id) is None:
            now = await deed.region(stays.id)
            if now is not None and now.version > stays.version:
                told = f"Region {gone.id} is merged into region {stays.id}."
                return Done(told, {"changed": True, "region": stays.id})
    raise await _unfinished(deed, gone.id, f"region {gone.id} is not merged yet")


async def cancel_operator(deed: Deed) -> Done:
    """Only what has been under way for longer than an operator should."""
    live, now = await deed.look(), deed.settings.clock.now()
    oldest = max(live.operators, key=lambda one: one.age_s(now) or 0.0, default=None)
    named = deed.integer("region")
    running = live.operator_on(named) if named else oldest
    if running is None:
        told = f"PD has region {named} do nothing." if named else "PD has no region do anything."
        return Done(told, {"changed": False, "region": named})
    id_, age_s = running.region, running.age_s(now)
    if age_s is not None and age_s < deed.options.operator_s_max:
        raise Refusal(
            f"What region {id_} does ({_said(running)}) is {age_s:.0f} s old, and may take"
            f" {deed.options.operator_s_max:g} s; let it end."
        )
    await deed.ask(f"operators/{id_}", method="DELETE")
    while await deed.again():
        after = (await deed.look()).operator_on(id_)
        if after is None or after.created != running.created:
            told = f"PD gave up what region {id_} did for {age_s or 0:.0f} s: {_said(running)}."
            return Done(told, {"changed": True, "region": id_, "age_s": round(age_s or 0.0, 1)})
    raise Refusal(f"PD still has region {id_} do the same.", FailureCategory.TIMEOUT)


_NOT_FOUND = FailureCategory.NOT_FOUND
_RESOURCE = FailureCategory.RESOURCE


def store_named(live: Live, named: str) -> Store:
    """A store that PD knows, by name or id; Refusal for none."""
    store = live.find(named)
    if store is None:
        known = ", ".join(f"{name} ({one.id})" for name, one in live.stores.items())
        raise Refusal(f"PD knows no store {named[:60]!r}; there are: {known}.", _NOT_FOUND)
    return store


def _up(live: Live, store: Store) -> None:
    if store.state != UP:
        raise Refusal(f"{live.name_of(store.id)} is {store.state}, so it gets nothing.", _RESOURCE)


async def _region(deed: Deed, id_: int) -> Region:
    region = await deed.region(id_)
    if region is None:
        raise Refusal(f"PD knows no region {id_}.", _NOT_FOUND)
    return region


async def _hottest(deed: Deed) -> int:
    """The region that does most of the work now; Refusal where none does."""
    answers = {kind: await deed.told(f"hotspot/regions/{kind}") for kind in HOT}
    found = [hottest_from(one.body, kind) for kind, one in answers.items() if one.ok]
    limits = deed.options
    ranked = sorted(
        (one for one in found if one is not None), key=lambda one: one.ratio, reverse=True
    )
    for one in ranked:
        if one.beyond(ratio_max=limits.hot_ratio_max, bytes_min=limits.hot_bytes_min):
            return one.region
    raise Refusal("PD calls no region hot now; name the one that is meant.", _NOT_FOUND)


def _heir(live: Live, region: Region) -> Store:
    """The store with the fewest leaders that could lead it; Refusal where there is none."""
    sound = {peer.store for peer in region.peers if peer.sound and peer.store != region.leader}
    fit = [
        one
        for one in live.stores.values()
        if one.id in sound and one.state == UP and one.leads and one.id not in live.evicting
    ]
    if not fit:
        raise Refusal(f"No other store could lead region {region.id}.", _RESOURCE)
    return min(fit, key=lambda one: one.leader_count)


def _free(live: Live, region: int) -> None:
    """Refuse while PD has the region do something: the two would undo each other."""
    running = live.operator_on(region)
    if running is not None:
        raise Refusal(
            f"PD has region {region} do something already ({_said(running)}); let it end, or use"
            " cancel_operator where it is stuck."
        )


async def _unfinished(deed: Deed, region: int, what: str) -> Refusal:
    """What to say when time is up: whether PD still works on it."""
    operators = await deed.pd.ask("operators")
    works = operators.ok and f"region:{region}(" in str(operators.body)
    after = f"after {deed.timeout_s:g} s"
    rest = "PD still works on it" if works else "PD gave it up"
    return Refusal(f"{what[:1].upper()}{what[1:]} {after}; {rest}.", FailureCategory.TIMEOUT)


async def _beside(deed: Deed, before: Region, now: Region) -> int | None:
    """The id of the region that holds what the split took away."""
    key = now.end_key if now.end_key != before.end_key else before.start_key
    if not key:
        return None
    answer = await deed.pd.ask(f"region/key/{key}?format=hex")
    found = answer.body.get("id") if isinstance(answer.body, dict) else None
    return found if isinstance(found, int) and found != now.id else None


def _on(live: Live, region: Region) -> str:
    places = ", ".join(live.name_of(peer.store) for peer in region.peers)
    return f"its copies are on {places}"


def _said(operator: Operator) -> str:
    return " ".join(f"{operator.desc}: {operator.brief}".split())[:BRIEF_MAX]
