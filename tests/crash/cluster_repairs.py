"""An operator that is killed while it repairs a cluster, and the one that comes after it.

`python -m tests.crash.cluster_repairs FOLDER CASE:STEP...` prints a line of JSON for each round:
the requests that the API server kept, how the next operator settled the call, and what came of the
same call made once more. Server and operators are processes of their own, forked from one that has
loaded everything. A step is a label of STEPS; `sent-2` dies after the second request that is kept.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.permit import Approval, ApprovalState, Permit
from operator_protocols.ports import Job
from operator_sre.app.audit import verify_ledger
from operator_sre.app.commands import settle_abandoned
from operator_sre.app.wiring import App, open_app
from operator_sre.config import Config, load_config
from operator_sre.gate import warm
from operator_sre.store.intents import StoredIntents
from operator_sre.subjects.kubernetes.connection import HttpApi
from tests.crash.executing import ROUND_S_MAX, _around, die, forked
from tests.subjects.kubernetes.api_server import ApiServer
from tests.subjects.kubernetes.tool_bench import CASES, Case, cluster

STEPS = ("judge", "permit", "intent", "tried", "send", "sent", "outcome", "ledger")
SUBJECT = "cluster"


@dataclass
class Repair:
    """One call of a tool by an operator that dies at a step."""

    config: Config
    case: Case
    step: str
    count: int = 0

    def at(self, step: str) -> None:
        """Die here, if this is the place."""
        if step == self.step:
            die()

    async def execute(self) -> None:
        """Propose it, have it approved, and do it."""
        self._arm()
        with open_app(self.config) as app:
            controls = app.controls(SUBJECT)
            await controls.subject.observe()  # its parts are what it has seen
            action = Action(
                self.case.tool, dict(self.case.arguments), target=str(self.case.arguments["target"])
            )
            proposed = await controls.complete(action)
            assert isinstance(proposed, Action), proposed
            verdict = controls.gate.judge(proposed)
            self.at("judge")
            approving = asyncio.ensure_future(_approve(app))
            me = Actor("ada", "user", "ada@here:1")
            permit = await controls.gate.permit(verdict, None, me, subject=SUBJECT)
            approving.cancel()
            assert isinstance(permit, Permit), permit
            self.at("permit")
            await controls.executor.execute(permit)
            self.at("ledger")

    def _arm(self) -> None:
        """Die between the requests of a call; proposals have no `begin` before them."""
        _around(StoredIntents, "begin", after=lambda: self.at("intent"))
        _around(StoredIntents, "end", before=lambda: self.at("outcome"))
        change = HttpApi.change

        async def changed(api: HttpApi, method: str, path: str, body: Any, **more: Any) -> bytes:
            dry = more.get("query", {}).get("dryRun") or (
                isinstance(body, dict) and body.get("dryRun")
            )
            if not dry:
                self.at("send")
            answer = await change(api, method, path, body, **more)
            if dry:
                self.at("tried")
            else:
                self.count += 1
                self.at("sent" if self.count == 1 else f"sent-{self.count}")
            return answer

        setattr(HttpApi, "change", changed)  # noqa: B010  its type is not that of a function


async def _approve(app: App) -> None:
    """A person who approves whatever is asked for."""
    while True:
        await asyncio.sleep(0.001)
        found: Sequence[Approval] = app.store.approvals.find(states=(ApprovalState.PENDING,))
        for each in found:
            await app.answering.answer(each, ApprovalState.APPROVED, by="bob", reason="")


async def follow(config: Config, report: Path) -> None:
    """The next operator settles what was left open, and makes the very same call once more."""
    with open_app(config) as app:
        await settle_abandoned(app, wait_s=ROUND_S_MAX)
        controls = app.controls(SUBJECT)
        entries = app.store.entries.after(0, limit=100_000)
        calls = [each for each in entries if each.kind is Kind.TOOL_CALL]
        results = [each for each in entries if each.kind is Kind.TOOL_RESULT]
        again = ""
        for call in calls[:1]:
            arguments = dict(call.payload["action"]["arguments"])
            tool = next(
                each for each in controls.executor.tools if each.spec.name == _tool_of(call.payload)
            )
            done = await tool.call(arguments, Job(timeout_s=20.0))
            again = done.stderr or done.stdout
        told = {
            "outcomes": [each.payload["result"]["outcome"] for each in results],
            "calls": len(calls),
            "open": len(app.store.intents.open()),
            "whole": verify_ledger(app, progress=lambda seq: None).whole,
            "again": again,
        }
    report.write_text(json.dumps(told))


def _tool_of(payload: Any) -> str:
    return str(payload["action"]["tool"])


@contextmanager
def serving(folder: Path) -> Any:
    """A cluster in a process of its own; it writes down what it kept when it is ended."""
    kept, address = folder / "kept.json", folder / "address"
    for each in (kept, address):
        each.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        asyncio.run(_serve(cluster(), address, kept))
        os._exit(0)
    while not address.exists():
        os.sched_yield()
    try:
        yield address.read_text(), kept
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


async def _serve(server: ApiServer, address: Path, kept: Path) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    async with server.serve() as where:
        part = address.with_suffix(".part")
        part.write_text(where)
        part.rename(address)
        await over.wait()
    found = [[each.method, each.path] for each in server.done]
    kept.write_text(json.dumps(found))


def main(words: Sequence[str]) -> None:
    """Round after round, each with a cluster and a home of its own."""
    folder = Path(words[0])
    folder.mkdir(exist_ok=True)
    for number, word in enumerate(words[1:]):
        name, _, step = word.partition(":")
        home = folder / f"home-{number}"
        home.mkdir()
        case = next(each for each in CASES if each.id == name)
        with serving(folder) as (address, kept):
            kubeconfig = home / "kubeconfig"
            kubeconfig.write_text(_kubeconfig(address))
            (home / "operator.toml").write_text(
                f'[subjects.{SUBJECT}]\nplugin = "kubernetes"\n'
                f'options = {{ kubeconfig = "{kubeconfig}", good_after_s = 300.0 }}\n'
            )
            flags = {"home": str(home), "mode": "approve", "changes_per_hour": "10000"}
            config = load_config(flags=flags, environ={}, cwd=home)
            if number == 0:
                with open_app(config) as app:
                    warm(app.controls(SUBJECT).gate.policy())
            killed = forked(partial(Repair(config, case, step).execute))
            report = home / "report.json"
            forked(partial(follow, config, report))
        told = json.loads(report.read_text())
        told |= {"case": name, "step": step, "killed": killed, "kept": json.loads(kept.read_text())}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def _kubeconfig(address: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
    )


if __name__ == "__main__":
    main(sys.argv[1:])
