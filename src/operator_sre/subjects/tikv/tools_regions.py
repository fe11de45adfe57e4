"""What can be done to one region: who leads it, where its copies lie, where it begins and ends."""

from __future__ import annotations

from operator_protocols.domain.action import Action, Argument
from operator_protocols.domain.category import FailureCategory
from operator_protocols.kit.tool import Done, RefusedCall
from operator_protocols.kit.units import format_duration
from operator_sre.subjects.tikv.call import GRANT_LEADER, UP, Live, PdCall
from operator_sre.subjects.tikv.facts import HOT, hottest_from
from operator_sre.subjects.tikv.state import Operator, Region, Store

__all__ = [
    "cancel_operator",
    "merge_region",
    "require_store",
    "split_region",
    "transfer_leader",
    "transfer_peer",
]

# Below this PD itself gives a store no more regions.
FREE_RATIO_MIN = 0.2
MERGED_MB_MAX = 144  # larger ones are split again at once
BRIEF_MAX = 120
_NOT_FOUND = FailureCategory.NOT_FOUND
_RESOURCE = FailureCategory.RESOURCE
_TIMEOUT = FailureCategory.TIMEOUT


async def transfer_leader(call: PdCall) -> Done:
    """Only to a copy that has all that the others have, and that PD would leave there."""
    live = await call.read_live()
    region = await _require_region(call, call.integer("region") or await _find_hottest(call))
    named = call.text("to")
    if named:
        store = require_store(live, named)
    else:
        sound = {peer.store for peer in region.peers if peer.sound and peer.store != region.leader}
        heirs = [heir for heir in live.heirs() if heir.id in sound]
        if not heirs:
            raise RefusedCall(f"No other store could lead region {region.id}.", _RESOURCE)
        store = min(heirs, key=lambda heir: heir.leader_count)
    name = live.name_of(store.id)
    if region.leader == store.id:
        sentence = f"Region {region.id} is led by {name} already."
        return Done(sentence, {"changed": False, "leader": store.id})
    _require_idle(live, region.id)
    _require_up(live, store)
    if store.id in live.evicting:
        raise RefusedCall(
            f"{name} is being drained, so it gets no leader; undrain_store ends that."
        )
    if region.leader in live.granting:
        raise RefusedCall(f"{GRANT_LEADER}-{region.leader} would move the leader back immediately.")
    peer = region.peer_on(store.id)
    if peer is None or not peer.voter:
        copies = _list_copies(live, region)
        raise RefusedCall(
            f"Region {region.id} has no replica on {name} that could lead it; {copies}."
        )
    if not peer.sound:
        raise RefusedCall(
            f"The replica of region {region.id} on {name} lags behind, so it must not lead."
        )
    was = region.leader
    body = {"name": "transfer-leader", "region_id": region.id, "to_store_id": store.id}
    await call.ask("operators", method="POST", body=body)
    while await call.wait():
        now = await call.region(region.id)
        if now is not None and now.leader == store.id:
            back: dict[str, Argument] = {"region": region.id, "to": str(was)}
            return Done(
                f"Region {region.id} is led by {name}, it was {live.name_of(was)}.",
                {"changed": True, "leader": store.id, "was": was},
                Action("transfer_leader", back) if was else None,
            )
    raise await _report_unfinished(call, region.id, f"{name} does not lead region {region.id}")


async def transfer_peer(call: PdCall) -> Done:
    """The new copy is whole before the old one goes, and every other copy is sound meanwhile."""
    live = await call.read_live()
    region = await _require_region(call, call.integer("region"))
    source, store = (require_store(live, call.text(name)) for name in ("source", "to"))
    old, new = live.name_of(source.id), live.name_of(store.id)
    copies = _list_copies(live, region)
    if region.peer_on(source.id) is None:
        raise RefusedCall(
            f"Region {region.id} has no replica on {old}; {copies}.",
            _NOT_FOUND,
        )
    if region.peer_on(store.id) is not None:
        raise RefusedCall(f"Region {region.id} has a replica on {new} already; {copies}.")
    _require_idle(live, region.id)
    _require_up(live, store)
    if unsound := region.unsound(but=source.id):
        raise RefusedCall(
            f"The replica of region {region.id} on {live.name_of(unsound[0])} is unhealthy. If one"
            " more moves, too few are left. Let it recover first.",
            _RESOURCE,
        )
    if store.capacity_bytes and store.available_bytes < FREE_RATIO_MIN * store.capacity_bytes:
        why = f"{new} has too little disk space: PD does not place regions there either."
        raise RefusedCall(why, _RESOURCE)
    body = {
        "name": "transfer-peer",
        "region_id": region.id,
        "from_store_id": source.id,
        "to_store_id": store.id,
    }
    await call.ask("operators", method="POST", body=body)
    while await call.wait():
        now = await call.region(region.id)
        peer = now.peer_on(store.id) if now is not None else None
        if now is not None and peer is not None and peer.sound and now.peer_on(source.id) is None:
            back: dict[str, Argument] = {"region": region.id}
            back |= {"source": str(store.id), "to": str(source.id)}
            return Done(
                f"The replica of region {region.id} moved from {old} to {new}.",
                {"changed": True, "source": source.id, "to": store.id},
                Action("transfer_peer", back),
            )
    raise await _report_unfinished(
        call, region.id, f"the replica of region {region.id} is not on {new} yet"
    )


async def split_region(call: PdCall) -> Done:
    """In the middle, as its leader finds it; refused for what has nothing to split."""
    live = await call.read_live()
    region = await _require_region(call, call.integer("region") or await _find_hottest(call))
    _require_idle(live, region.id)
    if not region.leader:
        raise RefusedCall(f"Region {region.id} has no leader that could split it.", _RESOURCE)
    body = {"name": "split-region", "region_id": region.id, "policy": call.text("policy")}
    await call.ask("operators", method="POST", body=body)
    while await call.wait():
        now = await call.region(region.id)
        if now is None or now.version <= region.version:
            continue
        # The region that holds what the split took away begins, or ends, with this key.
        key = now.end_key if now.end_key != region.end_key else region.start_key
        beside = (await call.pd.ask(f"region/key/{key}?format=hex")).body if key else None
        other = beside.get("id") if isinstance(beside, dict) else None
        data = {"changed": True, "region": region.id, "other": None}
        if not isinstance(other, int) or other == now.id:
            sentence = f"Region {region.id} is split; the rest of its keys is in another region."
            return Done(sentence, data)
        return Done(
            f"Region {region.id} is split; the rest of its keys is in region {other}.",
            {**data, "other": other},
            Action("merge_region", {"source": other, "into": region.id}),
        )
    raise await _report_unfinished(
        call, region.id, f"region {region.id} is not split: it may hold a single key"
    )


async def merge_region(call: PdCall) -> Done:
    """Only of neighbours that are sound, and together no larger than what would be split again."""
    live = await call.read_live()
    gone = await _require_region(call, call.integer("source"))
    stays = await _require_region(call, call.integer("into"))
    if gone.id == stays.id or not gone.touches(stays):
        raise RefusedCall(f"Regions {gone.id} and {stays.id} are not adjacent.")
    for region in (gone, stays):
        _require_idle(live, region.id)
        if unsound := region.unsound():
            where = live.name_of(unsound[0])
            raise RefusedCall(
                f"The replica of region {region.id} on {where} is unhealthy.", _RESOURCE
            )
    size_mb = gone.size_mb + stays.size_mb
    if size_mb > MERGED_MB_MAX:
        raise RefusedCall(f"Together they hold {size_mb} MB, and would be split again immediately.")
    body = {
        "name": "merge-region",
        "source_region_id": gone.id,
        "target_region_id": stays.id,
    }
    await call.ask("operators", method="POST", body=body)
    while await call.wait():
        if await call.region(gone.id) is None:
            now = await call.region(stays.id)
            if now is not None and now.version > stays.version:
                sentence = f"Region {gone.id} is merged into region {stays.id}."
                return Done(sentence, {"changed": True, "region": stays.id})
    raise await _report_unfinished(call, gone.id, f"region {gone.id} is not merged yet")


async def cancel_operator(call: PdCall) -> Done:
    """Only what has been under way for longer than an operator should."""
    live, now = await call.read_live(), call.settings.clock.now()
    oldest = max(live.operators, key=lambda operator: operator.age_s(now) or 0.0, default=None)
    named = call.integer("region")
    running = live.operator_on(named) if named else oldest
    if running is None:
        why = f"PD has no operator for region {named}." if named else "PD has no operators."
        return Done(why, {"changed": False, "region": named})
    id_, age_s = running.region, running.age_s(now)
    if age_s is not None and age_s < call.options.operator_s_max:
        raise RefusedCall(
            f"The operator of region {id_} ({_describe(running)}) is {age_s:.0f} s old and has"
            f" {call.options.operator_s_max:g} s; let it end."
        )
    await call.ask(f"operators/{id_}", method="DELETE")
    while await call.wait():
        after = (await call.read_live()).operator_on(id_)
        if after is None or after.created != running.created:
            age = format_duration(age_s or 0)
            sentence = f"Cancelled the operator of region {id_} after {age}: {_describe(running)}."
            return Done(sentence, {"changed": True, "region": id_, "age_s": round(age_s or 0.0, 1)})
    raise RefusedCall(f"PD still has the same operator for region {id_}.", _TIMEOUT)


def require_store(live: Live, named: str) -> Store:
    """A store that PD knows, by name or id; RefusedCall for none."""
    store = live.find(named)
    if store is None:
        known = ", ".join(f"{name} ({known.id})" for name, known in live.stores.items())
        raise RefusedCall(f"PD knows no store {named[:60]!r}; there are: {known}.", _NOT_FOUND)
    return store


def _require_up(live: Live, store: Store) -> None:
    if store.state != UP:
        raise RefusedCall(
            f"{live.name_of(store.id)} is {store.state}, so it gets no replica.", _RESOURCE
        )


async def _require_region(call: PdCall, id_: int) -> Region:
    region = await call.region(id_)
    if region is None:
        raise RefusedCall(f"PD knows no region {id_}.", _NOT_FOUND)
    return region


async def _find_hottest(call: PdCall) -> int:
    """The region that does most of the work now; RefusedCall where none does."""
    answers = {kind: await call.read(f"hotspot/regions/{kind}") for kind in HOT}
    limits = {"ratio_max": call.options.hot_ratio_max, "bytes_min": call.options.hot_bytes_min}
    hottest = [hottest_from(answer.body, kind) for kind, answer in answers.items() if answer.ok]
    hot = [region for region in hottest if region is not None and region.beyond(**limits)]
    if not hot:
        raise RefusedCall("PD reports no hot region; name a region.", _NOT_FOUND)
    return max(hot, key=lambda region: region.ratio).region


def _require_idle(live: Live, region: int) -> None:
    """Refuse while PD has the region do something: the two would undo each other."""
    running = live.operator_on(region)
    if running is not None:
        raise RefusedCall(
            f"Region {region} already has an operator ({_describe(running)}); let it end, or use"
            " cancel_operator if it is stuck."
        )


async def _report_unfinished(call: PdCall, region: int, problem: str) -> RefusedCall:
    """What to say when time is up: whether PD still executes it."""
    operators = await call.pd.ask("operators")
    works = operators.ok and f"region:{region}(" in str(operators.body)
    after = f"after {call.job.timeout_s:g} s"
    rest = "PD still executes it" if works else "PD cancelled the operator"
    return RefusedCall(f"{problem[:1].upper()}{problem[1:]} {after}; {rest}.", _TIMEOUT)


def _list_copies(live: Live, region: Region) -> str:
    places = ", ".join(live.name_of(peer.store) for peer in region.peers)
    return f"its replicas are on {places}"


def _describe(operator: Operator) -> str:
    return " ".join(f"{operator.desc}: {operator.brief}".split())[:BRIEF_MAX]
