"""The output of commands in a panel, while they run and afterwards."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import TYPE_CHECKING

from operator_protocols.errors import OperatorError, StoreError
from operator_sre.faces.tui.console.frame import Page
from operator_sre.faces.tui.console.table import Table
from operator_sre.faces.tui.lines import Lines

if TYPE_CHECKING:
    from operator_protocols.domain.command import Command
    from operator_sre.app.history import RunningOutput
    from operator_sre.app.wiring import App
    from operator_sre.faces.tui.console.application import Console

__all__ = ["CommandsPage", "Decoded", "Shown"]

# The console shows this much of a whole output; the command line prints all of it.
WHOLE_BYTES_MAX = 4_000_000
STEPS_MAX = 4
FOLLOW_S = 0.2


class Decoded:
    """Writes the bytes of two streams into a panel as text, wherever they are cut."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        made = codecs.getincrementaldecoder("utf-8")
        self._decoders = {number: made("backslashreplace") for number in (1, 2)}
        self.bytes = 0

    def feed(self, number: int, data: bytes) -> bool:
        """Show the next bytes of stdout (1) or stderr (2)."""
        self.bytes += len(data)
        self._lines.feed(self._decoders[number].decode(data))
        return True

    def feed_limited(self, number: int, data: bytes) -> bool:
        """Do the same up to WHOLE_BYTES_MAX; False when that is reached."""
        if self.bytes < WHOLE_BYTES_MAX:
            self.feed(number, data)
        return self.bytes < WHOLE_BYTES_MAX


class Shown:
    """Shows the output of one command in a panel, and follows it while it runs."""

    def __init__(self, console: Console, lines: Lines) -> None:
        self._console = console
        self._lines = lines
        self._seq = 0
        self._following: RunningOutput | None = None
        self._is_over = False

    async def show(self, command: Command | None) -> None:
        """Show this command from the start, or continue where it is already shown."""
        if command is None:
            self._begin(0, "")
            return
        if command.seq != self._seq:
            self._begin(command.seq, f"Output of command {command.seq}")
        if not command.outcome:
            if self._following is None:
                output = Decoded(self._lines)

                def begin(app: App) -> RunningOutput | None:
                    from operator_sre.app.history import running_output

                    return running_output(app, command.seq, output.feed)

                self._following = await self._console.read(begin)
            if (following := self._following) is None:
                return
            self._lines.border_title = f"Output of command {command.seq}, running"

            def advance(app: App) -> None:
                # The rest is read at the next call.
                for _ in range(STEPS_MAX):
                    if not following.advance():
                        return

            await self._console.read(advance)
        elif not self._is_over:
            self._is_over = True
            self._end(command)

    async def whole(self, command: Command) -> None:
        """Show the whole output, while it is stored on this machine."""
        from operator_sre.app.history import show_output

        self._begin(command.seq, f"Whole output of command {command.seq}")
        self._is_over = True
        output = Decoded(self._lines)
        try:
            await self._console.read(lambda app: show_output(app, command.seq, output.feed_limited))
        except OperatorError as error:
            self._end(command)
            self._console.say(str(error), bad=True)
            return
        if output.bytes >= WHOLE_BYTES_MAX:
            more = f"operator history show {command.seq} --output"
            self._lines.feed(f"\n(the first {WHOLE_BYTES_MAX // 1_000_000} MB; all: {more})\n")

    def _begin(self, seq: int, title: str) -> None:
        self._seq, self._following, self._is_over = seq, None, False
        self._lines.clear()
        self._lines.border_title = title

    def _end(self, command: Command) -> None:
        """Show the recorded output."""
        self._lines.clear()
        ends = [command.head, "[...]\n", command.tail] if command.tail else [command.head]
        for part in ends:
            self._lines.feed(part if part.endswith("\n") or not part else f"{part}\n")
        if not command.head:
            self._lines.feed("(no output)\n")
        code = f"exit {command.exit_code}" if command.outcome == "ran" else command.outcome
        category = f", {command.category}" if command.category else ""
        title = f"Output of command {command.seq}: {code}{category}, {command.duration_s:.2f} s"
        self._lines.border_title = title.replace("[", "(").replace("_", " ")


class CommandsPage(Page):
    """A page with a table of commands and the output of the one under the cursor."""

    def __init__(self) -> None:
        super().__init__()
        self._commands: Sequence[Command] = ()
        self._shown: Shown | None = None
        self._is_following = False

    def on_mount(self) -> None:
        """Follow a running command more closely than the rest of the page."""
        super().on_mount()
        self._shown = Shown(self.console_app, self.query_one(Lines))
        self.set_interval(FOLLOW_S, self._follow)

    def on_table_chosen(self, event: Table.Chosen) -> None:
        """Focus the output."""
        self.query_one(Lines).focus()

    def action_whole(self) -> None:
        """Show the whole output of the command under the cursor."""
        if (command := self._read_choice()) is not None and self._shown is not None:
            self.work(self._shown.whole(command), group="output", exclusive=True)

    def shows_output(self) -> bool:
        """Whether the output is on the screen now."""
        return self.is_current

    def _read_choice(self) -> Command | None:
        key = self.query_one(Table).key
        return next((command for command in self._commands if str(command.seq) == key), None)

    def _follow(self, *, moved: bool = False) -> None:
        """A running command is read repeatedly, a finished one once."""
        command, shown = self._read_choice(), self._shown
        runs = command is not None and not command.outcome
        if shown is None or self._is_following or not (moved or runs) or not self.shows_output():
            return

        async def follow() -> None:
            try:
                await shown.show(self._read_choice())
                # The cursor may have moved meanwhile.
                await shown.show(self._read_choice())
            except StoreError:
                pass  # the head of the page says so
            finally:
                self._is_following = False

        self._is_following = True
        self.work(follow(), group="follows")
