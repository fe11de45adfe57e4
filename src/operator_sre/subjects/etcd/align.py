"""Giving a member the settings back that all members have to share."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Parameter, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_sre.subjects.etcd.cluster import Cluster
from operator_sre.subjects.etcd.deed import Deed, Done, Refusal
from operator_sre.subjects.etcd.glimpse import Glimpse
from operator_sre.subjects.etcd.place import config_file, line_of, local_readings, with_line
from operator_sre.subjects.etcd.settings import Differing, differing, shared_in

__all__ = ["ALIGN_SETTINGS", "align_settings"]

ALIGN_SETTINGS = ToolSpec(
    name="align_settings",
    sentence="Write the settings that most members share into the file of one, and restart it.",
    parameters=(Parameter("target", "the member", infers="target"),),
    source=ToolSource.SUBJECT,
    risk=Risk.MEDIUM,
    changes=True,
    idempotent=True,
    expected="That it runs with the settings of the others; it is away for a moment.",
    verify="settings_agree holds at it.",
    timeout_s=60.0,
    ends=("settings_differ",),
)


async def align_settings(deed: Deed) -> Done:
    """Only what most others agree on, and only while they are a quorum without it."""
    name = deed.text("target")
    target = deed.up(name).target
    await deed.need_quorum()
    if not deed.survives_without(name):
        why = f"Without {name} the cluster would have no quorum, so it is not restarted."
        raise Refusal(why, FailureCategory.RESOURCE)
    file, life = config_file(target), deed.settings.life
    if file is None or life is None:
        raise Refusal(
            f"{name} cannot be set from here: its process and its file have to be within reach.",
            FailureCategory.PERMISSION,
        )
    differs = await _differing(deed.cluster, name)
    if not differs:
        return Done(f"{name} has the settings of the others.", {"changed": False})
    texts = await asyncio.to_thread(_texts, deed.cluster, name)
    text = file.read_text(encoding="utf-8")
    for setting, (_, most) in differs.items():
        if most is None:
            raise Refusal(f"The members do not agree on {setting}, so a person has to decide.")
        text = with_line(text, setting, _line(setting, most, texts))
    await asyncio.to_thread(_write, file, text)
    await life.restart(name)

    async def agrees(cluster: Cluster) -> bool:
        follows = any(one.target.name == name and one.leader for one in cluster.up)
        return follows and not await _differing(cluster, name)

    await deed.until(agrees)
    told = ", ".join(differs)
    return Done(f"{name} runs with the {told} of the others.", {"changed": True, "settings": told})


async def _differing(cluster: Cluster, name: str) -> Differing:
    found = await asyncio.gather(*(asyncio.to_thread(_shared, one) for one in cluster.up))
    settings = {one.target.name: own for one, own in zip(cluster.up, found, strict=True)}
    return differing(settings).get(name, {})


def _shared(one: Glimpse) -> dict[str, str]:
    quota = one.metrics.numbers.get("quota_bytes")
    return shared_in({**local_readings(one.target, down=False), "quota_bytes": quota})


def _texts(cluster: Cluster, name: str) -> list[str]:
    """The files of the others, where they are within reach."""
    others: list[Target] = [one.target for one in cluster.up if one.target.name != name]
    files = [file for target in others if (file := config_file(target)) is not None]
    return [file.read_text(encoding="utf-8") for file in files]


def _line(setting: str, value: str, texts: list[str]) -> str:
    """The line as another one has it, because how a value is written matters."""
    lines = [line for text in texts if value in (line := line_of(text, setting))]
    if lines and value:
        return lines[0]
    return f"{setting}: {value}" if value else ""


def _write(file: Path, text: str) -> None:
    draft = file.with_name(f".{file.name}.new")
    draft.write_text(text, encoding="utf-8")
    shutil.copymode(file, draft)
    draft.replace(file)
