"""Commands that people begin and leave running: judged and permitted as always, then followed."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from operator_protocols.domain.permit import Approval
from operator_protocols.errors import AuthorityError, ConflictError, NotFoundError, OperatorError
from operator_sre.app.approvals import signed_in
from operator_sre.app.executing import (
    Executed,
    Wanted,
    begun_at,
    execute_command,
    hands_for,
)
from operator_sre.app.wiring import App

__all__ = ["Job", "Jobs"]

RUNNING_MAX = 16
KEPT_MAX = 64


@dataclass(slots=True)
class Job:
    """One command: who began it, who is asked about it, and what became of it."""

    id: str
    wanted: Wanted
    by: str
    at: datetime
    head: int
    approval: str = ""
    permit: str = ""
    executed: Executed | None = None
    problem: str = ""
    seq: int = 0
    task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        """Nothing more becomes of it."""
        return self.executed is not None or bool(self.problem)

    @property
    def state(self) -> str:
        """Where it is, in a word or two."""
        if self.problem:
            return self.problem
        if self.executed is not None:
            return self.executed.explanation if not self.executed.ran else "over"
        if self.permit:
            return "runs"
        return "waits for an answer" if self.approval else "is judged"


@dataclass(slots=True)
class Jobs:
    """The commands of one process; they end with it, as a command in a terminal does."""

    app: App
    _known: OrderedDict[str, Job] = field(default_factory=OrderedDict, init=False)

    def begin(self, wanted: Wanted) -> Job:
        """Begin it in the name of whoever asks. Whatever is wrong with what is wanted is raised."""
        hands_for(self.app, wanted)
        if sum(not one.over for one in self._known.values()) >= RUNNING_MAX:
            raise ConflictError(
                f"{RUNNING_MAX} commands run from here already.", next_step="Wait, or cancel one."
            )
        newest = self.app.store.entries.newest(limit=1)
        head = newest[0].seq if newest else 0
        job = Job(self.app.new_id()[:12], wanted, signed_in(), self.app.clock.now(), head)
        self._known[job.id] = job
        while len(self._known) > KEPT_MAX:
            oldest = next((one.id for one in self._known.values() if one.over), "")
            if not oldest:
                break
            del self._known[oldest]
        job.task = asyncio.get_running_loop().create_task(self._run(job))
        return job

    def newest(self, *, limit: int) -> Sequence[Job]:
        """Those that were begun last, the newest first, each with its entry where it has one."""
        found = list(reversed(self._known.values()))[:limit]
        for one in found:
            if one.permit and not one.seq:
                one.seq = begun_at(self.app, one.permit, after=one.head)
        return found

    def cancel(self, job: str, *, admin: bool) -> Job:
        """End it, or take back what people are asked; for whoever began it, and for an admin."""
        known = self._known.get(job)
        if known is None:
            raise NotFoundError(f"There is no command {job!r} here.", next_step="See the history.")
        if known.by != signed_in() and not admin:
            raise AuthorityError(f"{known.by!r} began it.", next_step="Ask an admin to cancel it.")
        if known.over or known.task is None:
            raise ConflictError("It is over already.", next_step="See what became of it.")
        known.task.cancel()
        return known

    async def end(self) -> None:
        """End all that run."""
        tasks = [one.task for one in self._known.values() if one.task and not one.over]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: Job) -> None:
        def asked(approval: Approval) -> None:
            job.approval = approval.id

        def began(permit: str) -> None:
            job.permit = permit

        try:
            executed = await execute_command(self.app, job.wanted, asked=asked, began=began)
            job.seq = executed.command or executed.seq
            job.executed = executed
        except asyncio.CancelledError:
            job.problem = "cancelled"
            raise
        except OperatorError as error:
            job.problem = f"{error.message} {error.next_step}".strip()
