"""How a command ended, in sentences for people."""

from __future__ import annotations

from collections.abc import Iterator

from operator_protocols.domain.action import Left, Outcome, Result
from operator_sre.app.executing import Executed
from operator_sre.executor.categories import named_exit

__all__ = ["ending_of"]

UNITS = ("bytes", "kB", "MB", "GB", "TB")
UNIT = 1000.0
NAMED_MAX = 10


def ending_of(executed: Executed, *, here: str = "") -> tuple[str, ...]:
    """What is to be said when it is over; nothing where it went well and left nothing behind.

    `here` is what a line of the operator needs to be about the same home.
    """
    return tuple(_sentences(executed, here))


def _sentences(executed: Executed, here: str) -> Iterator[str]:
    result = executed.result
    limit_s = executed.verdict.action.timeout_s
    if result.outcome is Outcome.TIMED_OUT:
        yield f"It took longer than {limit_s:g} s and was ended."
    elif result.outcome is Outcome.CANCELLED:
        yield f"It was ended from outside. See: operator kill-switch status{here}"
    elif result.outcome is Outcome.UNKNOWN:
        yield "Nobody knows what became of it: look before it is run again."
    elif not result.ok:
        category = f" [{result.category}]" if result.category else ""
        yield f"It failed: {named_exit(result.exit_code)}{category}."
    if result.truncated:
        yield (
            f"The record keeps the beginning and the end of {_sizes(result)}."
            f" All of it, for a day: operator history show {executed.command} --output{here}"
        )
    for ended in (False, True):
        if left := [one for one in result.left if one.ended is ended]:
            yield f"It left {'behind what was ended' if ended else 'running'}: {_names(left)}."


def _sizes(result: Result) -> str:
    sizes = {"stdout": result.stdout_bytes, "stderr": result.stderr_bytes}
    said = [f"{_size(size)} of {name}" for name, size in sizes.items() if size]
    return " and ".join(said) or "what it said"


def _size(size: float) -> str:
    for unit in UNITS:
        if size < UNIT or unit == UNITS[-1]:
            break
        size /= UNIT
    return f"{size:.3g} {unit}"


def _names(left: list[Left]) -> str:
    named = ", ".join(f"{one.name} (pid {one.process.pid})" for one in left[:NAMED_MAX])
    more = len(left) - NAMED_MAX
    return f"{named} and {more} more" if more > 0 else named
