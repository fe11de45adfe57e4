"""A Workflow is several actions in an order; a WorkflowRecord is one of them under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.observation import Value

__all__ = [
    "PREFIX",
    "Origin",
    "Passed",
    "StepNote",
    "StepRecord",
    "Workflow",
    "WorkflowRecord",
    "WorkflowState",
    "WorkflowStep",
    "run_of",
    "undo_run_of",
    "workflow_of",
]

# The prefix of every workflow's id, which distinguishes its runs from runs of tickets.
PREFIX = "workflow-"


class WorkflowState(StrEnum):
    """Where a workflow, or one step of it, stands."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Nothing more comes of it."""
        return self not in {WorkflowState.PENDING, WorkflowState.IN_PROGRESS}


class Origin(StrEnum):
    """Who asked for it: a definition, one command of a person, or an agent at the hub."""

    WORKFLOW = "workflow"
    COMMAND = "command"
    HUB = "hub"


@dataclass(frozen=True, slots=True)
class WorkflowStep:
    """One action of a workflow. Its arguments may refer to the output of an earlier step.

    `attempts_max` is 0 where the number is not set: then only an idempotent action is repeated.
    `undo` rolls it back, in place of the rollback that its result names.
    """

    id: str
    action: Action
    depends_on: tuple[str, ...] = ()
    attempts_max: int = 0
    undo: Action | None = None


@dataclass(frozen=True, slots=True)
class Workflow:
    """A definition: steps that wait for those they depend on. `subject` is what it is about."""

    name: str
    steps: tuple[WorkflowStep, ...]
    subject: str = ""

    def step(self, name: str) -> WorkflowStep:
        """One of its steps. KeyError when there is none of that id."""
        for step in self.steps:
            if step.id == name:
                return step
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Passed:
    """What a step passes on to those behind it, whole, as far as they ask for it."""

    stdout: str | None = None
    stderr: str | None = None
    exit_code: int | None = None
    data: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepNote:
    """One change of a step, as it is written down. `run` names the attempt in the ledger.

    `passed` and `undo` come with its completion, and `digest` tells whether they are whole;
    `not_before` comes with one more attempt. `undoes` says that it is about taking the step back.
    """

    step: str
    state: WorkflowState
    attempt: int
    run: str
    outcome: Outcome | None = None
    exit_code: int | None = None
    seq: int | None = None
    reason: str = ""
    not_before: datetime | None = None
    passed: Passed | None = None
    undo: Action | None = None
    digest: str = ""
    undoes: bool = False


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step as the ledger tells it. `undone` is where taking it back stands, if that was tried."""

    id: str
    state: WorkflowState = WorkflowState.PENDING
    attempts: int = 0
    outcome: Outcome | None = None
    exit_code: int | None = None
    seq: int | None = None
    reason: str = ""
    undone: WorkflowState | None = None


@dataclass(frozen=True, slots=True)
class WorkflowRecord:
    """A workflow as the ledger records it; secrets in its definition are redacted.

    `digest` is that of the definition as it was given. It may begin at `due_at`, and is `missed`
    when no worker started it in time. `epoch` tells one claim from the next; `cancelled_by` is who
    cancelled it, and `undoes` whether its completed steps are rolled back then.
    """

    id: str
    workflow: Workflow
    state: WorkflowState
    requester: Actor
    requested_at: datetime
    due_at: datetime
    digest: str
    origin: Origin = Origin.WORKFLOW
    scheduled: bool = False
    steps: tuple[StepRecord, ...] = ()
    worker: str = ""
    epoch: int = 0
    ended_at: datetime | None = None
    reason: str = ""
    missed: bool = False
    cancelled_by: str = ""
    undoes: bool = False

    def step(self, name: str) -> StepRecord:
        """Where one of its steps stands."""
        return next((step for step in self.steps if step.id == name), StepRecord(name))


def run_of(workflow: str, step: str, attempt: int) -> str:
    """The name that one attempt of a step has in the ledger, before it begins and for ever."""
    return f"{workflow}/{step}/{attempt}"


def undo_run_of(workflow: str, step: str) -> str:
    """The name that taking a step back has in the ledger."""
    return f"{workflow}/{step}/undo"


def workflow_of(run: str) -> str:
    """The workflow that a run belongs to; "" for the run of a ticket."""
    return run.partition("/")[0] if run.startswith(PREFIX) else ""
