"""Who of the PD members leads: votes, a lease, and a document that a majority has to keep.

What PD gets from etcd, as little of it as its callers can tell apart: at most one member leads, a
leader that cannot reach a majority stops leading, and what a majority has said yes to is kept.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.engines.tikv.unified import Log, write_whole
from tests.engines.tikv.wire import Reply, Request, ask

__all__ = ["Consensus", "NoMajorityError"]

FILE = "member.json"


class NoMajorityError(Exception):
    """Too few members said yes."""


class Consensus:
    """One member among `peers` (name -> peer URL), itself among them."""

    def __init__(
        self, name: str, peers: Mapping[str, str], place: Path, log: Log, *, lease_s: float
    ) -> None:
        self.name, self._log = name, log
        self._others = {each: url for each, url in peers.items() if each != name}
        self._majority = len(peers) // 2 + 1
        self._file = place / FILE
        self._lease_s, self._beat_s = lease_s, lease_s / 5
        self._term, self._voted = 0, ""
        self._position = [0, 0]  # the term and the number of the last change
        self._heard = self._led_until = 0.0
        self._patience_s = self._patience()
        self._leads, self._confirmed = False, 0.0
        self._acked: dict[str, list[int]] = {}
        self._seen: dict[str, int] = {}
        self._asked = asyncio.Event()
        self.leader = ""
        self.document: dict[str, Any] = {}
        # What the leader tells the others without asking for their consent, and its number.
        self.hearsay: dict[str, Any] = {}
        self.hearsay_number = 0
        self._load()

    @property
    def leads(self) -> bool:
        """Whether it leads, by the word of a majority that is not older than its lease."""
        return self._leads and time.monotonic() - self._confirmed < self._lease_s

    @property
    def term(self) -> int:
        """How many elections there were."""
        return self._term

    @property
    def known_leader(self) -> str:
        """Who leads as far as it knows: itself, or whoever it heard from not long ago."""
        if self.leads:
            return self.name
        fresh = time.monotonic() < self._led_until
        return self.leader if fresh and self.leader != self.name else ""

    async def resign(self, follower: str = "") -> bool:
        """Stop leading; the follower, or any other who can, leads from now on."""
        await self._tell()  # who follows has everything
        self._leads, self.leader = False, ""
        self._heard = time.monotonic()
        heirs = [follower] if follower else sorted(self._others)
        for heir in heirs:
            if (await self._ask(heir, "stand", {})).get("yes"):
                return True
        return False

    def _patience(self) -> float:
        return self._lease_s * random.uniform(1.0, 1.6)

    def _load(self) -> None:
        if self._file.exists():
            record = json.loads(self._file.read_text(encoding="utf-8"))
            self._term, self._voted = record["term"], record["voted"]
            self._position, self.document = record["position"], record["document"]

    def _save(self) -> None:
        record = {"term": self._term, "voted": self._voted, "position": self._position}
        write_whole(self._file, {**record, "document": self.document})

    async def run(self) -> None:
        """Lead, follow and stand for election, for ever."""
        # Whoever starts asks soon: where somebody leads, nobody votes for it.
        self._heard, self._patience_s = time.monotonic(), random.uniform(0.1, 0.5)
        while True:
            if self._leads:
                await self._tell()
            elif time.monotonic() - self._heard > self._patience_s:
                await self._stand()
            try:
                async with asyncio.timeout(self._beat_s if self._leads else self._beat_s / 2):
                    await self._asked.wait()
            except TimeoutError:
                continue
            self._asked.clear()

    async def _stand(self, *, handed: bool = False) -> None:
        self._heard, self._patience_s = time.monotonic(), self._patience()
        if not handed and not await self._votes(self._term + 1, real=False):
            return
        self._term, self._voted, self.leader = self._term + 1, self.name, ""
        self._save()
        term = self._term
        if await self._votes(term, real=True, handed=handed) and term == self._term:
            self._leads, self.leader = True, self.name
            self._confirmed = time.monotonic()
            self._acked, self._seen = {}, {}
            self._position = [term, self._position[1] + 1]
            self._save()
            self._log.info("server.go:1708", "PD leader is ready to serve", leader=self.name)
            await self._tell()

    async def _votes(self, term: int, *, real: bool, handed: bool = False) -> bool:
        question = {"term": term, "from": self.name, "position": self._position}
        question |= {"real": real, "handed": handed}
        answers = await asyncio.gather(*(self._ask(one, "vote", question) for one in self._others))
        self._step_down_for(answers)
        return 1 + sum(bool(one.get("yes")) for one in answers) >= self._majority

    async def _tell(self) -> None:
        began, term = time.monotonic(), self._term
        answers = await asyncio.gather(*(self._tell_one(one) for one in self._others))
        self._step_down_for(answers)
        agreed = 1 + sum(bool(one.get("yes")) for one in answers)
        if agreed >= self._majority and self._leads and term == self._term:
            self._confirmed = began
        elif self._leads and time.monotonic() - self._confirmed > self._lease_s:
            self._leads, self.leader = False, ""
            self._heard = time.monotonic()
            self._log.warn("server.go:1650", "lost the majority, leader steps down", name=self.name)

    async def _tell_one(self, other: str) -> dict[str, Any]:
        position, number = list(self._position), self.hearsay_number
        message = {"term": self._term, "from": self.name, "position": position}
        if self._acked.get(other) != position:
            message["document"] = self.document
        if self._seen.get(other) != number:
            message["hearsay"] = self.hearsay
        answer = await self._ask(other, "append", message)
        if answer.get("yes"):
            self._acked[other], self._seen[other] = position, number
        else:
            self._acked.pop(other, None)
            self._seen.pop(other, None)
        return answer

    async def change(self) -> None:
        """Keep the document as it is now. NoMajorityError when too few keep it."""
        if not self.leads:
            raise NoMajorityError
        self._position = [self._term, self._position[1] + 1]
        mine = list(self._position)
        self._save()
        for _ in range(3):
            await self._tell()
            if 1 + sum(one >= mine for one in self._acked.values()) >= self._majority:
                return
            await asyncio.sleep(self._beat_s)
        raise NoMajorityError

    def _step_down_for(self, answers: list[dict[str, Any]]) -> None:
        newest = max((one.get("term", 0) for one in answers), default=0)
        if newest > self._term:
            self._follow(newest, "")

    def _follow(self, term: int, leader: str) -> None:
        if term > self._term:
            self._term, self._voted = term, ""
            self._save()
        if leader and leader != self.leader:
            self._log.info("server.go:1610", "start to watch pd leader", leader=leader, term=term)
        self._leads, self.leader = False, leader
        self._heard, self._patience_s = time.monotonic(), self._patience()
        self._led_until = self._heard + self._lease_s if leader else 0.0

    async def _ask(self, other: str, verb: str, message: dict[str, Any]) -> dict[str, Any]:
        url = f"{self._others[other]}/stand-in/{verb}"
        try:
            found = (await ask(url, message, timeout_s=self._lease_s / 2)).json()
        except (OSError, TimeoutError):
            return {}
        return found if isinstance(found, dict) else {}

    async def answer(self, request: Request) -> Reply:
        """What another member asks of this one."""
        message, verb = request.json(), request.path.rpartition("/")[2]
        match verb:
            case "vote":
                yes = self._vote(message)
            case "append":
                yes = self._append(message)
            case "stand":
                await self._stand(handed=True)
                yes = self.leads
            case _:
                return Reply(404, b"404 page not found\n")
        return Reply.of({"yes": yes, "term": self._term})

    def _vote(self, message: dict[str, Any]) -> bool:
        term, who = message["term"], message["from"]
        led = not message.get("handed") and bool(self.known_leader)
        if led or term < self._term or message["position"] < self._position:
            return False
        if not message["real"]:
            return bool(term > self._term)
        if term > self._term:
            self._term, self._voted = term, ""
        if self._voted not in ("", who):
            return False
        self._voted, self._heard, self._leads = who, time.monotonic(), False
        self._save()
        return True

    def _append(self, message: dict[str, Any]) -> bool:
        if message["term"] < self._term:
            return False
        self._follow(message["term"], message["from"])
        if "hearsay" in message:
            self.hearsay = message["hearsay"]
        if "document" in message:
            self.document, self._position = message["document"], message["position"]
            self._save()
        return bool(self._position == message["position"])
