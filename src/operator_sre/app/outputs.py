"""What a command says, for whoever looks at it: while it runs, and afterwards."""

from __future__ import annotations

from collections.abc import Callable

from operator_protocols.domain.entry import Kind
from operator_sre.app.redaction import LiveOutput, open_redactor
from operator_sre.app.wiring import App
from operator_sre.executor.growing import Growing

__all__ = ["RunningOutput", "running_output"]


class RunningOutput:
    """The output of a command that another process has started, as it comes, without secrets."""

    def __init__(self, growing: Growing, live: LiveOutput) -> None:
        self._growing = growing
        self._live = live

    @property
    def is_there(self) -> bool:
        """False before its first word, and for what says nothing on this machine."""
        return self._growing.is_there

    def advance(self) -> bool:
        """Pass on some of what is new; False when that was all for now."""
        return self._growing.advance()

    def end(self) -> None:
        """Pass on what still waits for the rest of its line."""
        self._live.end()


def running_output(
    app: App, seq: int, show: Callable[[int, bytes], bool | None]
) -> RunningOutput | None:
    """Follow the command that began with this entry; None when none did."""
    entry = app.store.entries.get(seq)
    if entry is None or entry.kind is not Kind.TOOL_CALL:
        return None
    live = LiveOutput(open_redactor(app.config), show)
    growing = Growing(app.running.folder, str(entry.payload["permit"]), live.feed)
    return RunningOutput(growing, live)
