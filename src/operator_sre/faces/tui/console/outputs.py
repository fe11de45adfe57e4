"""What a command says, in a panel: while it runs wherever it was started, and afterwards."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from operator_protocols.errors import OperatorError
from operator_sre.faces.tui.lines import Lines

if TYPE_CHECKING:
    from operator_protocols.domain.command import Command
    from operator_sre.app.history import RunningOutput
    from operator_sre.app.wiring import App
    from operator_sre.faces.tui.console.application import Console

__all__ = ["Decoded", "Shown"]

# Of a whole output that was asked for; all of it is what the command line gives.
WHOLE_BYTES_MAX = 4_000_000
STEPS_MAX = 4


class Decoded:
    """Bytes of two streams as text in a panel, whatever they are and wherever they are cut."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        made = codecs.getincrementaldecoder("utf-8")
        self._decoders = {number: made("backslashreplace") for number in (1, 2)}
        self.bytes = 0

    def feed(self, number: int, data: bytes) -> bool:
        """The next bytes of stdout (1) or stderr (2)."""
        self.bytes += len(data)
        self._lines.feed(self._decoders[number].decode(data))
        return True

    def limited(self, number: int, data: bytes) -> bool:
        """The same until there is enough of it."""
        if self.bytes < WHOLE_BYTES_MAX:
            self.feed(number, data)
        return self.bytes < WHOLE_BYTES_MAX


class Shown:
    """Which command a panel shows, and how far it has come with it."""

    def __init__(self, console: Console, lines: Lines) -> None:
        self._console = console
        self._lines = lines
        self._seq = 0
        self._following: RunningOutput | None = None
        self._is_over = False

    async def show(self, command: Command | None) -> None:
        """Show this command from its beginning, or more of it where it is shown already."""
        if command is None:
            self._begin(0, "")
            return
        if command.seq != self._seq:
            self._begin(command.seq, f"Output of command {command.seq}")
        if not command.outcome:
            await self._follow(command.seq)
        elif not self._is_over:
            self._is_over = True
            self._end(command)

    async def whole(self, command: Command) -> None:
        """All that it said, as long as it lies on this machine."""
        from operator_sre.app.history import show_output

        self._begin(command.seq, f"Whole output of command {command.seq}")
        self._is_over = True
        said = Decoded(self._lines)
        try:
            await self._console.read(lambda app: show_output(app, command.seq, said.limited))
        except OperatorError as error:
            self._end(command)
            self._console.say(str(error), bad=True)
            return
        if said.bytes >= WHOLE_BYTES_MAX:
            more = f"operator history show {command.seq} --output"
            self._lines.feed(f"\n(the first {WHOLE_BYTES_MAX // 1_000_000} MB; all: {more})\n")

    def _begin(self, seq: int, title: str) -> None:
        self._seq, self._following, self._is_over = seq, None, False
        self._lines.clear()
        self._lines.border_title = title

    async def _follow(self, seq: int) -> None:
        """Read on; the rest comes with the next look."""
        if self._following is None:
            said = Decoded(self._lines)

            def begin(app: App) -> RunningOutput | None:
                from operator_sre.app.history import running_output

                return running_output(app, seq, said.feed)

            self._following = await self._console.read(begin)
        if (following := self._following) is None:
            return
        self._lines.border_title = f"Output of command {seq}, running"

        def advance(app: App) -> None:
            for _ in range(STEPS_MAX):
                if not following.advance():
                    return

        await self._console.read(advance)

    def _end(self, command: Command) -> None:
        """What the record keeps, which is the truth of it."""
        self._lines.clear()
        ends = [command.head, "[...]\n", command.tail] if command.tail else [command.head]
        for part in ends:
            self._lines.feed(part if part.endswith("\n") or not part else f"{part}\n")
        if not command.head:
            self._lines.feed("(it said nothing)\n")
        code = f"exit {command.exit_code}" if command.outcome == "ran" else command.outcome
        category = f", {command.category}" if command.category else ""
        title = f"Output of command {command.seq}: {code}{category}, {command.duration_s:.2f} s"
        self._lines.border_title = title.replace("[", "(").replace("_", " ")
