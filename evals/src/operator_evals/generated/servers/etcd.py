"""etcd: flags of its help text, members, accounts and alarms, over its HTTP interface."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from operator_evals.generated.servers.server import ASK_S_MAX, Seat, Undo, nothing_to_undo
from operator_evals.generated.surface import AdminCommand, Setting, file_settings
from operator_protocols.errors import RigError

__all__ = ["EtcdServer", "flags_in"]

HELP_S_MAX = 10.0
_FLAG = re.compile(r"^\s+--([a-z][a-z0-9-]+) '([^']*)'", re.MULTILINE)
# No server listens there.
NOWHERE = "http://127.0.0.1:1"


class EtcdServer:
    """One member, asked at its own port."""

    def __init__(self, seat: Seat, kin: Sequence[Seat], *, program: str) -> None:
        self._seat = seat
        self._peers = [each for each in kin if each.kind == seat.kind]
        self._program = program

    async def settings(self) -> Sequence[Setting]:
        """The flags of its program, each with the type of its default; all need a restart."""
        process = await asyncio.create_subprocess_exec(
            self._program,
            "--help",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            text, _ = await asyncio.wait_for(process.communicate(), HELP_S_MAX)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise RigError(f"{self._program} does not print its flags.") from None
        return flags_in(text.decode("utf-8", "replace"))

    async def change(self, name: str, value: str) -> Undo:
        """It has no setting that can be changed at run time."""
        raise RigError(f"{name!r} can only be changed before a start.")

    async def commands(self) -> Sequence[AdminCommand]:
        """Members, the leader, accounts and alarms."""
        names = [peer.name for peer in self._peers]
        return (
            *(AdminCommand("member_remove", name) for name in names),
            *(AdminCommand("member_wrong_address", name, reversible=True) for name in names),
            *(AdminCommand("move_leader", name) for name in names),
            AdminCommand("member_add", reversible=True),
            AdminCommand("learner_add", reversible=True),
            AdminCommand("require_accounts", reversible=True),
            AdminCommand("alarm_nospace", reversible=True),
            AdminCommand("compact"),
            AdminCommand("defragment"),
        )

    async def execute(self, command: str, about: str) -> Undo:
        """One request."""
        match command:
            case "member_add" | "learner_add":
                body = {"peerURLs": [NOWHERE], "isLearner": command == "learner_add"}
                added = await self._ask("cluster/member/add", body)
                ghost = {"ID": added["member"]["ID"]}
                return self._later("cluster/member/remove", ghost)
            case "member_remove":
                await self._ask("cluster/member/remove", {"ID": (await self._member(about))["ID"]})
            case "member_wrong_address":
                member = await self._member(about)
                wrong = {"ID": member["ID"], "peerURLs": [NOWHERE]}
                await self._ask("cluster/member/update", wrong)
                return self._later(
                    "cluster/member/update", {**wrong, "peerURLs": member["peerURLs"]}
                )
            case "move_leader":
                heir = (await self._member(about))["ID"]
                await self._ask("maintenance/transfer-leadership", {"targetID": heir})
            case "alarm_nospace":
                body = {"action": "ACTIVATE", "memberID": "0", "alarm": "NOSPACE"}
                await self._ask("maintenance/alarm", body)
                return self._later("maintenance/alarm", {**body, "action": "DEACTIVATE"})
            case "compact":
                status = await self._ask("maintenance/status", {})
                revision = status["header"]["revision"]
                await self._ask("kv/compaction", {"revision": revision, "physical": True})
            case "defragment":
                await self._ask("maintenance/defragment", {})
            case _:
                return await self._require_accounts()
        return nothing_to_undo

    async def takes_writes(self) -> bool | None:
        """Whether it says that it leads."""
        try:
            status = await self._ask("maintenance/status", {})
        except RigError:
            return None
        member = status.get("header", {}).get("member_id")
        return member is not None and member == status.get("leader")

    async def _require_accounts(self) -> Undo:
        user, password = "root", secrets.token_hex(8)
        await self._ask("auth/user/add", {"name": user, "password": password})
        await self._ask("auth/role/add", {"name": user})
        await self._ask("auth/user/grant", {"user": user, "role": user})
        await self._ask("auth/enable", {})

        async def undo() -> None:
            given = await self._ask("auth/authenticate", {"name": user, "password": password})
            await self._ask("auth/disable", {}, token=str(given["token"]))
            await self._ask("auth/user/delete", {"name": user})
            await self._ask("auth/role/delete", {"role": user})

        return undo

    async def _member(self, name: str) -> Mapping[str, Any]:
        listed = await self._ask("cluster/member/list", {})
        for member in listed.get("members", []):
            if member.get("name") == name:
                found: Mapping[str, Any] = member
                return found
        raise RigError(f"There is no member {name!r}.")

    def _later(self, path: str, body: Mapping[str, object]) -> Undo:
        async def undo() -> None:
            await self._ask(path, body)

        return undo

    async def _ask(
        self, path: str, body: Mapping[str, object], *, token: str = ""
    ) -> dict[str, Any]:
        def post() -> tuple[int, bytes]:
            line = http.client.HTTPConnection("127.0.0.1", self._seat.own_port, timeout=ASK_S_MAX)
            try:
                head = {"Content-Type": "application/json"}
                head |= {"Authorization": token} if token else {}
                line.request("POST", f"/v3/{path}", json.dumps(body), head)
                answer = line.getresponse()
                return answer.status, answer.read()
            finally:
                line.close()

        try:
            status, content = await asyncio.to_thread(post)
            found: dict[str, Any] = json.loads(content)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RigError(f"{self._seat.name} did not answer: {type(error).__name__}.") from None
        if status != 200:
            why = str(found.get("message") or found.get("error") or status)[:200]
            raise RigError(f"{self._seat.name} refused: {why}.")
        return found


def flags_in(text: str) -> list[Setting]:
    """The flags of a help text with their defaults."""
    lines = {name: value for name, value in _FLAG.findall(text) if name != "config-file"}
    settings = file_settings(
        "flags.yaml", "".join(f"{k}: {v or 'none'}\n" for k, v in lines.items())
    )
    return sorted(settings, key=lambda setting: setting.name)
