"""A ticket's story as `tickets show --json` tells it, and what must be true of every story."""

from __future__ import annotations

from typing import Any

from tests.e2e.home import Home, Json

__all__ = ["Story"]


class Story:
    """One ticket with everything that the ledger knows of it."""

    def __init__(self, home: Home, number: int) -> None:
        self._home = home
        shown = home.ask("tickets", "show", str(number))
        self.ticket: Json = shown["ticket"]
        self.entries: list[Json] = shown["entries"]

    def all(self, kind: str) -> list[Json]:
        """Every entry of a kind, in order."""
        return [entry for entry in self.entries if entry["kind"] == kind]

    def one(self, kind: str) -> Any:
        """The payload of the only entry of a kind."""
        (entry,) = self.all(kind)
        return entry["payload"]

    @property
    def intended(self) -> list[str]:
        """The tools that were about to run, in order."""
        return [entry["payload"]["action"]["tool"] for entry in self.all("tool_call")]

    def check_order(self) -> None:
        """Every command was judged, permitted, begun and ended, in this order and once."""
        intents = self.all("tool_call")
        used = [entry["payload"]["permit"] for entry in intents]
        assert len(used) == len(set(used)), "a permit was used twice"
        for intent in intents:
            permit, action = intent["payload"]["permit"], intent["payload"]["action"]
            (minted,) = self._about("permit_minted", permit)
            (outcome,) = self._about("tool_result", permit)
            judged = [
                verdict["seq"]
                for verdict in self.all("verdict")
                if verdict["payload"]["action"] == action and verdict["seq"] < minted["seq"]
            ]
            assert judged, f"{action} ran without a verdict before it"
            assert max(judged) < minted["seq"] < intent["seq"] < outcome["seq"]

    def check_diagnosis(self, *, cause: str, target: str) -> Json:
        """It names this cause with evidence that can be looked up, and what it is not."""
        diagnosis: Json = self.one("diagnosis")
        assert (diagnosis["cause"], diagnosis["target"]) == (cause, target)
        assert target in diagnosis["affected"]
        assert diagnosis["confidence"] > 0.9
        assert diagnosis["evidence"]
        own = {entry["seq"]: entry for entry in self.entries}
        cited = {evidence["seq"] for evidence in diagnosis["evidence"]}
        assert {own[seq]["kind"] for seq in cited} <= {"observed", "tool_result"}
        last = self._home.ask("audit", "show", "--seq", str(max(cited)))["entry"]
        assert last == own[max(cited)]
        assert len(diagnosis["alternatives"]) >= 2
        assert all(one["why_rejected"] for one in diagnosis["alternatives"])
        assert len(diagnosis["options"]) >= 2
        assert all(one["trade_off"] for one in diagnosis["options"])
        assert diagnosis["choice"] in [one["action"] for one in diagnosis["options"]]
        assert diagnosis["why"]
        return diagnosis

    def check_proof(self) -> None:
        """It was resolved by a proof from several looks after the last change."""
        proof = self.all("proof")[-1]
        assert proof["seq"] > self.all("tool_call")[-1]["seq"]
        assert proof["payload"]["held"] is True
        assert proof["payload"]["health"] == "healthy"
        assert proof["payload"]["looks"] >= 2
        assert proof["payload"]["stable_s"] >= 1
        assert proof["payload"]["harm"] == []
        told = {name: value for name, value in proof["payload"].items() if name != "covers"}
        assert self.one("ticket_resolved")["proof"] == told
        assert self.ticket["state"] == "resolved"

    def check_chain(self) -> None:
        """The ledger verifies, and the run is told the same by `audit show`."""
        verified = self._home.ask("audit", "verify")
        assert verified["whole"] is True
        assert verified["report"]["entries"] >= len(self.entries)
        shown = self._home.ask("audit", "show", self.ticket["run"])
        assert shown["run"]["state"] == "completed"
        assert [entry for entry in self.entries if entry["run"] == self.ticket["run"]] == (
            shown["entries"]
        )

    def _about(self, kind: str, permit: str) -> list[Json]:
        return [entry for entry in self.all(kind) if entry["payload"]["permit"] == permit]
