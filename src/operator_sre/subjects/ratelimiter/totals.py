"""What only all reports together show: differences, totals, and the primary. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from operator_protocols.domain.observation import Value
from operator_sre.subjects.ratelimiter.nodes import NodeReport
from operator_sre.subjects.ratelimiter.stores import DRIFT_MAX, SETTINGS, StoreReport

__all__ = [
    "COMMON",
    "alone_of",
    "common_of",
    "counted_by",
    "differences",
    "drift_of",
    "ghosts_of",
    "hot_key_of",
    "limits_of",
    "over_limit_of",
    "primary_among",
    "settings_of",
]

# What all nodes of one limiter have to agree on.
COMMON = ("default_limit", "window_s", "key_prefix", "on_store_loss")
# Nodes and store are not asked at the same instant: so much of a count may be on its way.
ON_ITS_WAY_SHARE = 0.02
HOT_ASKED_MIN = 100

Readings = dict[str, Value]


def common_of(nodes: Sequence[NodeReport]) -> dict[str, Value]:
    """What more than half of the nodes that answer have in common, by name."""
    found: dict[str, Value] = {}
    for name in COMMON:
        values = [node.reading(name) for node in nodes if node.answers]
        values = [value for value in values if value is not None]
        if values:
            value, votes = Counter(values).most_common(1)[0]
            if votes * 2 > len(values):
                found[name] = value
    return found


def differences(node: NodeReport, common: Mapping[str, Value], voters: int) -> Readings:
    """Where one node differs from the others; without a majority everybody does."""
    if not node.answers or voters < 2:
        return {}
    found: Readings = {}
    for name in COMMON:
        value = node.reading(name)
        if value is None:
            continue
        found[f"differs_{name}"] = value != common.get(name)
        if name in common:
            found[f"common_{name}"] = common[name]
    found["differs"] = any(found.get(f"differs_{name}") for name in COMMON)
    return found


def alone_of(node: NodeReport, nodes: Sequence[NodeReport], report: StoreReport | None) -> Readings:
    """Whether one node has lost a store that is well, and that another one still reaches."""
    if not node.answers or node.reading("store_connected"):
        return {}
    well = report is not None and report.reading("refuses_writes") is False
    others = [other for other in nodes if other is not node and other.answers]
    reached = any(other.reading("store_connected") for other in others)
    return {"alone_without_store": well and reached}


def counted_by(nodes: Sequence[NodeReport]) -> dict[str, int] | None:
    """By key, how many requests nodes say the store allowed through them; None when one is mute.

    A key that a node with a long list might have and does not name is left out.
    """
    speaking = [node for node in nodes if node.answers]
    if not speaking or any(node.tally is None for node in speaking):
        return None
    found: dict[str, int] = {}
    for key in {key for node in speaking for key in node.tally or {}}:
        if all(node.complete or key in (node.tally or {}) for node in speaking):
            rows = [node.tally[key] for node in speaking if node.tally and key in node.tally]
            found[key] = sum(row.allowed - row.uncounted for row in rows)
    # The busiest first: they are looked up in the store by name.
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def drift_of(
    report: StoreReport, nodes: Sequence[NodeReport], counted: Mapping[str, int] | None
) -> Readings:
    """Where the count by the API of the nodes and the count in the store differ most."""
    if counted is None or not report.counted:
        return {}
    worst: Readings = {"drift": 0, "drift_key": "", "drift_api": 0, "drift_stored": 0}
    whole = all(node.complete for node in nodes if node.answers)
    for key, stored in report.counts.items():
        if key not in counted and not whole:
            continue
        api = counted.get(key, 0)
        if abs(api - stored) > DRIFT_MAX:
            if key not in report.members:
                continue  # not examined, and one examined window is enough
            api += _of_earlier_processes(report, key, nodes)
        drift = abs(api - stored)
        if drift > DRIFT_MAX + int(stored * ON_ITS_WAY_SHARE) and drift > int(str(worst["drift"])):
            worst = {"drift": drift, "drift_key": key, "drift_api": api, "drift_stored": stored}
    return {**worst, "drifted": bool(worst["drift"])}


def _of_earlier_processes(report: StoreReport, key: str, nodes: Sequence[NodeReport]) -> int:
    """How many requests were allowed by nodes that are gone now, or by an earlier process of a
    node.

    Only the store remembers them, so they are no difference.
    """
    living = {node.reading("process") for node in nodes if node.answers}
    answering = {node.name: node for node in nodes if node.answers}
    silent = {node.seen.target for node in nodes if not node.answers}
    found = 0
    for member, at_us in report.members[key]:
        name, _, rest = member.partition(":")
        if rest.partition(":")[0] in living:
            continue
        node = answering.get(name)
        if node is None:
            found += name in silent or name in report.registered
        else:
            uptime = node.reading("uptime_s")
            started_us = report.now_us - int(float(uptime or 0) * 1_000_000)
            found += at_us < started_us
    return found


def over_limit_of(report: StoreReport, common: Mapping[str, Value]) -> Readings:
    """The key whose stored count is furthest beyond its limit."""
    default = common.get("default_limit")
    if not report.counted or not isinstance(default, int):
        return {}
    beyond = {
        key: stored - _limit(report, key, default)
        for key, stored in report.counts.items()
        if stored > _limit(report, key, default)
    }
    worst = max(beyond, key=lambda key: (beyond[key], key), default="")
    return {
        "over_limit_keys": len(beyond),
        "over_limit_key": worst,
        "over_limit_count": report.counts.get(worst, 0),
        "over_limit_limit": _limit(report, worst, default),
    }


def limits_of(report: StoreReport) -> Readings:
    """Limits of keys that are not what a manager gave them."""
    if not report.counted:
        return {}
    odd = sorted(
        key
        for key in report.limits.keys() | report.declared.keys()
        if report.limits.get(key) != report.declared.get(key)
    )
    key = odd[0] if odd else ""
    readings: Readings = {
        "limits_odd": bool(odd),
        "limits_strange": len(odd),
        "limit_strange_key": key,
        "limit_strange": report.limits.get(key, ""),
    }
    declared = report.declared.get(key, "")
    if declared.isdigit():
        readings["limit_declared"] = int(declared)
    return readings


def ghosts_of(
    nodes: Sequence[NodeReport], report: StoreReport | None, common: Mapping[str, Value]
) -> tuple[Readings, frozenset[str]]:
    """What was allowed beyond the limit of its window by all nodes together, and who let it pass.

    The second is empty where every node counted in the shared store: then the store forgot.
    """
    default = common.get("default_limit")
    speaking = [node for node in nodes if node.answers and node.tally is not None]
    if not speaking or not isinstance(default, int):
        return {}, frozenset()
    worst: Readings = {"ghost_allowed": 0, "ghost_key": "", "ghost_limit": 0}
    culprits = frozenset[str]()
    for key in {key for node in speaking for key in node.tally or {}}:
        rows = {
            node.seen.target: node.tally[key]
            for node in speaking
            if node.tally is not None and key in node.tally
        }
        limits = [
            row.limit
            for node in speaking
            if (row := rows.get(node.seen.target)) is not None
            and row.limit is not None
            and node.reading("key_prefix") == common.get("key_prefix")
            and node.reading("default_limit") == default
        ]
        # A limit that was lowered a moment ago does not make a ghost of what came before.
        limit = max(limits, default=_limit(report, key, default))
        beyond = sum(row.allowed for row in rows.values()) - limit
        if beyond > int(limit * ON_ITS_WAY_SHARE) and beyond > int(str(worst["ghost_allowed"])):
            worst = {"ghost_allowed": beyond, "ghost_key": key, "ghost_limit": limit}
            culprits = frozenset(
                node.seen.target
                for node in speaking
                if (row := rows.get(node.seen.target)) is not None
                and (row.uncounted or node.reading("key_prefix") != common.get("key_prefix"))
            )
    return worst, culprits


def hot_key_of(nodes: Sequence[NodeReport]) -> Readings:
    """The key with the most checks, and its share of all checks."""
    speaking = [node for node in nodes if node.answers and node.tally is not None]
    requests: Counter[str] = Counter()
    for node in speaking:
        requests.update({key: row.requests for key, row in (node.tally or {}).items()})
    total = sum(node.requests for node in speaking)
    if not speaking:
        return {}
    if total < HOT_ASKED_MIN or not requests:
        return {"hot_key": "", "hot_key_share": 0.0}
    key, most = requests.most_common(1)[0]
    return {"hot_key": key, "hot_key_share": round(most / total, 3)}


def settings_of(report: StoreReport, others: Sequence[StoreReport]) -> Readings:
    """A setting in which a store and another one of the same limiter differ."""
    known = [other for other in others if other.reading("setting_maxmemory") is not None]
    if report.reading("setting_maxmemory") is None or not known:
        return {}
    found: Readings = {"settings_differ": False, "differs_setting": ""}
    for setting in SETTINGS:
        name = setting.replace("-", "_")
        mine = report.reading(f"setting_{name}")
        others_have = {str(other.reading(f"setting_{name}")) for other in known} - {str(mine)}
        if not others_have:
            continue
        theirs = sorted(others_have)[0]
        if not found["differs_setting"]:
            found |= {"settings_differ": True, "differs_setting": setting}
            found |= {"differs_value": mine, "common_value": theirs}
        found[f"common_{name}"] = theirs
    return found


def wrong_upstream(
    store: StoreReport, stores: Sequence[StoreReport], where: Mapping[str, str]
) -> str:
    """The store that a replica follows although it is no primary, itself among them; else ""."""
    upstream = store.reading("primary") if store.reading("role") == "replica" else None
    known = (each for each in stores if where.get(each.seen.target) == upstream)
    return next((each.seen.target for each in known if each.reading("role") == "replica"), "")


def primary_among(
    stores: Sequence[StoreReport],
    places: Mapping[str, str],
    nodes: Sequence[NodeReport],
    sentinels: Sequence[StoreReport],
) -> str:
    """The store that counts: the only primary, or the one of several that is in use; "" for none.

    `places` says where each store answers.
    """
    primaries = [report.seen.target for report in stores if report.reading("role") == "primary"]
    if len(primaries) == 1:
        return primaries[0]
    addresses = [
        str(node.reading("store_address")).partition("/")[0] for node in nodes if node.answers
    ]
    addresses += [
        str(sentinel.reading("primary")) for sentinel in sentinels if sentinel.reading("primary")
    ]
    votes = Counter(name for place in addresses for name in primaries if places.get(name) == place)
    return votes.most_common(1)[0][0] if votes else ""


def _limit(report: StoreReport | None, key: str, default: int) -> int:
    own = report.limits.get(key, "") if report is not None else ""
    return int(own) if own.isascii() and own.isdigit() else default
