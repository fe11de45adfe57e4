"""Faults of members that run: another setting than the rest, and nobody who is let in."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import replace

from operator_protocols.domain.target import Access
from operator_protocols.errors import OperatorError, RigError
from operator_protocols.ports import Fault, RightEnd, Scene
from operator_sre.subjects.etcd.client import Etcd
from operator_sre.subjects.etcd.members import KIND
from operator_sre.subjects.etcd.place import config_file, setting, with_setting
from operator_sre.subjects.etcd.witness import Witness, settings_of, witness

__all__ = ["CONFIGURATION_DRIFT", "WRONG_CREDENTIAL"]

SETTING = "quota-backend-bytes"
LESS = 0.75  # of the quota of the others: it refuses what they still take
ROOT = "root"
TRIES_MAX = 50
POLL_S = 0.2


async def _set_otherwise(scene: Scene) -> Mapping[str, str]:
    """Another quota in the file of one member, which is started with it."""
    before = setting(_config(scene), SETTING)
    await _restart_with(scene, str(int(int(before) * LESS)))
    return {"before": before}


async def _set_back(scene: Scene) -> None:
    if await _differs(scene):
        await _restart_with(scene, scene.notes["before"])


async def _restart_with(scene: Scene, value: str) -> None:
    file = config_file(scene.target)
    if file is None:
        raise RigError(f"{scene.target.name} has no file of settings.")
    await asyncio.to_thread(file.write_text, with_setting(_config(scene), SETTING, value))
    with contextlib.suppress(OperatorError):  # somebody else may start it just now as well
        await scene.rig.restart(scene.target.name)
    async with witness(scene) as sees:
        for _ in range(TRIES_MAX):
            if str(await sees.quota(scene.target)) == value:
                return
            await asyncio.sleep(POLL_S)
    raise RigError(f"{scene.target.name} does not run with {SETTING} {value}.")


def _config(scene: Scene) -> str:
    file = config_file(scene.target)
    return file.read_text(encoding="utf-8") if file is not None else ""


async def _differs(scene: Scene) -> str:
    """All members run with one quota, by their own word, and the file of this one says so too."""
    async with witness(scene) as sees:
        quotas = {target.name: await sees.quota(target) for target in sees.members}
    if len(set(quotas.values())) != 1:
        return f"the quotas differ: {quotas}"
    written = setting(_config(scene), SETTING)
    running = str(quotas[scene.target.name])
    return "" if written == running else f"its file says {written}, and it runs with {running}"


async def _demand_password(scene: Scene) -> Mapping[str, str]:
    """Whoever does not know a password that was chosen just now is refused by everybody."""
    password = secrets.token_hex(16)
    async with witness(scene) as sees:
        first = sees.members[0]
        await sees.do(first, "auth/user/add", name=ROOT, password=password)
        await sees.do(first, "auth/role/add", name=ROOT)
        await sees.do(first, "auth/user/grant", user=ROOT, role=ROOT)
        await sees.do(first, "auth/enable")
        await _until_refused(sees)
    return {"said": password}


async def _until_refused(sees: Witness) -> None:
    for _ in range(TRIES_MAX):
        refusals = [await sees.put(one, "shop/open", b"yes") for one in sees.members]
        if all(refusals):
            return
        await asyncio.sleep(POLL_S)
    raise RigError("The members still let everybody in.")


async def _demand_none(scene: Scene) -> None:
    """As before: nobody has to say who they are, and there is no such user."""
    if not await _refuses(scene):
        return
    settings = replace(settings_of(scene), secret=lambda _: scene.notes["said"])
    async with witness(scene) as sees, Etcd(settings) as etcd:
        first = sees.members[0]
        root = replace(first, access=Access(user=ROOT, password_file=ROOT))
        answer = await etcd.ask(root, "auth/disable")
        if not answer.ok:
            raise RigError(f"{first.name} goes on asking for a password: {answer.error}.")
        await sees.do(first, "auth/user/delete", name=ROOT)
        await sees.do(first, "auth/role/delete", role=ROOT)


async def _refuses(scene: Scene) -> str:
    """Whoever came in before is let in, to read and to write, at every member."""
    async with witness(scene) as sees:
        if silent := await sees.silent():
            return silent
        for target in sees.members:
            if problem := await sees.put(target, "shop/open", b"yes"):
                return f"{target.name} refuses a write: {problem}"
    return ""


CONFIGURATION_DRIFT = Fault(
    name="configuration_drift",
    sentence="One member was started with another quota than the others.",
    kind=KIND,
    breaks=("settings_agree",),
    inject=_set_otherwise,
    heal=_set_back,
    oracle=_differs,
)
WRONG_CREDENTIAL = Fault(
    name="wrong_credential",
    sentence="The cluster wants a user and a password that nobody was given.",
    kind=KIND,
    breaks=("not_let_in",),
    inject=_demand_password,
    heal=_demand_none,
    oracle=_refuses,
    end=RightEnd.ESCALATED,
)
