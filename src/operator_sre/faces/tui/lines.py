"""A panel of output with a bounded number of lines and a bounded paint rate, and its driver."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import IO, Any, ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.drivers.linux_driver import LinuxDriver
from textual.events import MouseScrollDown, MouseScrollUp
from textual.strip import Strip
from textual.widget import Widget

from operator_sre.faces.terminal_text import clean

__all__ = ["LINES_MAX", "LINE_CHARS_MAX", "Lines", "SteadyDriver"]


class _Steady:
    """A file that drops output once its reader is gone."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()


class SteadyDriver(LinuxDriver):
    """Stops on request even when its terminal was closed.

    Otherwise the writing thread would die of the first error, and its callers would block forever.
    A SIGCONT without a preceding stop is ignored: it would save the terminal settings that we have
    changed as the original ones.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file: Any = _Steady(self._file)

    def _sigcont_application(self, *_: object) -> None:
        if self._must_signal_resume:
            super()._sigcont_application()


LINES_MAX = 5_000
LINE_CHARS_MAX = 1_000
# Faster updates are unreadable, and keys must not wait for painting.
PAINT_S = 1 / 15
WHEEL_LINES = 3
_TAB_CHARS = 8
_CUT = " …"


class Lines(Widget, can_focus=True):
    """Shows the end of its text, or the part that the user scrolled to.

    `feed` costs a split and an append for any text, and may be called from any thread. Text is
    cleaned and laid out when it is painted.
    """

    DEFAULT_CSS = """
    Lines { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_lines(-1)", "Up", show=False),
        Binding("down", "scroll_lines(1)", "Down", show=False),
        Binding("pageup", "scroll_pages(-1)", "Page up", show=False),
        Binding("pagedown", "scroll_pages(1)", "Page down", show=False),
        Binding("home", "oldest", "Oldest", show=False),
        Binding("end", "newest", "Newest", show=False),
        Binding("left", "shift(-8)", "Left", show=False),
        Binding("right", "shift(8)", "Right", show=False),
    ]

    def __init__(
        self,
        *,
        lines_max: int = LINES_MAX,
        id: str | None = None,  # as every widget calls it
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._lock = threading.Lock()
        self._ring: deque[str] = deque(maxlen=lines_max)
        # The line that has not ended yet. Text beyond its limit is dropped.
        self._open = ""
        self._is_cut = False
        # The number of lines so far; older lines have left the ring.
        self._ended = 0
        # The number of the topmost line shown; None follows the end.
        self._top: int | None = None
        self._left = 0
        self._is_stale = False

    def on_mount(self) -> None:
        """Start painting."""
        self.set_interval(PAINT_S, self._paint)

    def feed(self, text: str) -> None:
        """Add raw text, which may end within a line and contain control characters."""
        first, *rest = text.replace("\r\n", "\n").split("\n")
        with self._lock:
            self._continue(first)
            if rest:
                self._end_line()
                for line in rest[-self._lines_max - 1 : -1]:
                    self._continue(line)
                    self._end_line()
                self._ended += max(0, len(rest) - 1 - self._lines_max)
                self._continue(rest[-1])
            self._is_stale = True

    def clear(self) -> None:
        """Forget everything, and follow the end again."""
        with self._lock:
            self._ring.clear()
            self._open, self._is_cut, self._ended = "", False, 0
            self._top, self._left = None, 0
            self._is_stale = True

    @property
    def text(self) -> str:
        """The kept lines, cleaned."""
        with self._lock:
            return "\n".join(map(_show, self._read_lines()))

    @property
    def dropped(self) -> int:
        """The number of lines that are no longer kept."""
        return self._ended - len(self._ring)

    @property
    def is_following(self) -> bool:
        """Whether the panel follows the end."""
        return self._top is None

    def render_line(self, y: int) -> Strip:
        """One row, cut at the edge of the panel."""
        style = self.rich_style
        width = self.size.width
        with self._lock:
            behind = self._first() + y - self.dropped
            line = next(islice(self._read_lines(), behind, None), None)
        if line is None:
            return Strip.blank(width, style)
        strip = Strip([Segment(_show(line), style)])
        return strip.crop(self._left, self._left + width).adjust_cell_length(width, style)

    def action_scroll_lines(self, by: int) -> None:
        """Scroll; at the end it follows again."""
        with self._lock:
            wanted = max(self._first() + by, self.dropped)
            self._top = wanted if wanted < self._last_top() else None
            self._is_stale = True

    def action_scroll_pages(self, by: int) -> None:
        """A panel's height up or down."""
        self.action_scroll_lines(by * max(1, self.size.height - 1))

    def action_oldest(self) -> None:
        """To the oldest line that is kept."""
        self.action_scroll_lines(-self._count())

    def action_newest(self) -> None:
        """To the end, and follow it."""
        self.action_scroll_lines(self._count())

    def action_shift(self, by: int) -> None:
        """Show more of what is cut on the right, or go back to the left."""
        self._left = min(max(0, self._left + by), LINE_CHARS_MAX)
        self._is_stale = True

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """The wheel, towards older lines."""
        event.stop()
        self.action_scroll_lines(-WHEEL_LINES)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """The wheel, towards newer lines."""
        event.stop()
        self.action_scroll_lines(WHEEL_LINES)

    @property
    def _lines_max(self) -> int:
        return self._ring.maxlen or LINES_MAX

    def _continue(self, text: str) -> None:
        room = LINE_CHARS_MAX - len(self._open)
        self._open += text[:room]
        self._is_cut = self._is_cut or len(text) > room

    def _end_line(self) -> None:
        self._ring.append(self._open + (_CUT if self._is_cut else ""))
        self._open, self._is_cut = "", False
        self._ended += 1

    def _read_lines(self) -> Iterator[str]:
        yield from self._ring
        if self._open:
            yield self._open + (_CUT if self._is_cut else "")

    def _count(self) -> int:
        """The number of lines so far, including an unfinished one."""
        return self._ended + (1 if self._open else 0)

    def _last_top(self) -> int:
        return max(self._count() - self.size.height, self.dropped)

    def _first(self) -> int:
        return self._last_top() if self._top is None else max(self._top, self.dropped)

    def _paint(self) -> None:
        if not self._is_stale:
            return
        self._is_stale = False
        below = 0 if self._top is None else self._last_top() - self._first()
        self.border_subtitle = f"{below} more below; press End to follow" if below > 0 else ""
        self.refresh()


def _show(line: str) -> str:
    return clean(line).expandtabs(_TAB_CHARS)
