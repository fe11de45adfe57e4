"""A Command is one attempt to do something, run or refused; a Query is a search for some."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["OUTCOMES", "Attempt", "Command", "CommandFilter", "Query", "Term"]

# What can be asked for: how a Result may end, and three words for what follows from it.
OUTCOMES = (
    *("cancelled", "failed", "ran", "refused", "running", "succeeded", "timed_out", "unknown"),
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What statistics and patterns go by: one command once, run or refused.

    `seq` is the entry it began with, `context` why it was wanted; `outcome` is '' while it runs.
    """

    seq: int
    at: datetime
    command: str
    command_hash: str
    tool: str
    target: str
    cwd: str
    venv: str
    context: str
    level: str
    outcome: str
    exit_code: int | None
    duration_s: float
    category: str
    ticket: int | None
    run: str

    @property
    def succeeded(self) -> bool:
        """The command ended by itself and its exit code is known."""
        return self.outcome == "ran" and self.exit_code == 0

    @property
    def failed(self) -> bool:
        """It ran and did not end well; what was refused or interrupted is not a failure of it."""
        return self.outcome == "timed_out" or (self.outcome == "ran" and self.exit_code != 0)


@dataclass(frozen=True, slots=True)
class Command(Attempt):
    """An Attempt with everything known of it: who requested it, who allowed it, what it printed.

    `head` and `tail` are the ends of the output, `output_hash` is that of all that was recorded;
    the streams' own hashes name the spool files where the whole output lies for a while.
    """

    agent: str
    agent_type: str
    workflow: str
    risk: str
    approver: str
    head: str
    tail: str
    output_hash: str
    stdout_sha256: str
    stderr_sha256: str


@dataclass(frozen=True, slots=True)
class CommandFilter:
    """A filter for commands; a field without a value matches every command."""

    ticket: int | None = None
    run: str = ""
    target: str = ""
    level: str = ""
    outcome: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Term:
    """What was typed as one. The words of a `phrase` follow each other; a `prefix` may go on."""

    text: str
    phrase: bool = False
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """Terms that must all be there; `text` is what was typed, for when no term can be looked up."""

    text: str
    terms: tuple[Term, ...]
