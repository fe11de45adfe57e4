"""Run tests in several processes that are forked after everything has been collected.

pytest-xdist starts each worker as a new Python that imports and collects everything for itself,
25 CPU seconds each time. Here one process collects, and its forks share what it has loaded.

The tests of one file, or of one `group` mark, run in one worker, one after the other. A worker
takes the next file when it is done with the one before. Reports go to the first process by a pipe,
so that plug-ins, summaries and exit codes are those of a run without workers.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pytest
from _pytest._io import TerminalWriter

__all__ = ["WorkersPlugin", "pytest_addoption", "pytest_configure"]

_INDEX_BYTES = 4
_LENGTH_BYTES = 8
_READ_BYTES = 1 << 16
_PIPE_BYTES = 1 << 16
# Folders whose single files take longest.
_LONG = ("tests/tidy/", "tests/subjects/", "tests/e2e/")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=1, help="run tests in N processes")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "group(name): runs in one worker with all of that name")
    if config.option.workers > 1:
        config.pluginmanager.register(WorkersPlugin(config.option.workers), "operator-workers")


def _groups(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """What has to stay together, in the order of collection, the longest first.

    A long file that is taken last is waited for by all other workers.
    """
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("group")
        key = f"group {mark.args[0]}" if mark else item.nodeid.partition("::")[0]
        groups.setdefault(key, []).append(item)
    return [groups[key] for key in sorted(groups, key=lambda key: not key.startswith(_LONG))]


def _queue(length: int) -> int:
    """A pipe from which every reader takes whole numbers, each of them once."""
    if length * _INDEX_BYTES > _PIPE_BYTES:
        raise pytest.UsageError(f"{length} groups of tests do not fit into a pipe")
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as numbers:
        numbers.writelines(number.to_bytes(_INDEX_BYTES, "big") for number in range(length))
    return reading


class _Reporter:
    """Inside a worker: sends what its tests report to the first process."""

    def __init__(self, config: pytest.Config, pipe: int) -> None:
        self._config = config
        self._pipe = os.fdopen(pipe, "wb", buffering=0)

    @property
    def _tw(self) -> TerminalWriter:
        """Where a time limit writes the stacks of its test, which are captured with the test."""
        return TerminalWriter(sys.stderr)

    def send(self, kind: str, content: object) -> None:
        body = json.dumps([kind, content], default=str).encode()
        view = memoryview(len(body).to_bytes(_LENGTH_BYTES, "big") + body)
        while view:
            view = view[self._pipe.write(view) :]

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook.pytest_report_to_serializable
        self.send("report", hook(config=self._config, report=report))

    @pytest.hookimpl
    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str
    ) -> None:
        where = [warning_message.filename, warning_message.lineno]
        what = [warning_message.category.__name__, str(warning_message.message)]
        self.send("warning", [*what, *where, when, nodeid])


def _run_worker(
    session: pytest.Session, number: int, groups: list[list[pytest.Item]], queue: int, pipe: int
) -> NoReturn:
    """Run groups until there are no more, and end without what belongs to the first process."""
    config = session.config
    reporter = _Reporter(config, pipe)
    for name in ("terminalreporter", "operator-skips", "operator-workers"):
        config.pluginmanager.unregister(name=name)
    config.pluginmanager.register(reporter, "terminalreporter")
    # The files behind pytest's capture are shared with all other forks: each needs its own.
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.stop_global_capturing()
        capture.start_global_capturing()
    config._cleanup_stack = cleanup = ExitStack()
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    own = factory.getbasetemp() / f"worker-{number}"
    own.mkdir(mode=0o700)
    factory._basetemp = own

    def items() -> Iterator[pytest.Item]:
        while index := os.read(queue, _INDEX_BYTES):
            reporter.send("group", int.from_bytes(index, "big"))
            yield from groups[int.from_bytes(index, "big")]

    code = 0
    try:
        coming = items()
        item = next(coming, None)
        while item is not None:
            following = next(coming, None)
            reporter.send("start", item.nodeid)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            reporter.send("finish", item.nodeid)
            item = following
    except KeyboardInterrupt:
        session._setupstate.teardown_exact(None)
        code = 130
    except BaseException as error:  # noqa: BLE001 - a fork must never run on as its parent
        reporter.send("broken", repr(error))
        code = 1
    finally:
        with suppress(OSError):
            cleanup.close()
        if capture is not None:
            with suppress(OSError):
                capture.stop_global_capturing()
        os._exit(code)


@dataclass
class _Worker:
    """A fork, as the first process sees it."""

    pid: int
    pipe: int
    buffer: bytearray = field(default_factory=bytearray)
    unfinished: list[pytest.Item] = field(default_factory=list)

    def messages(self) -> Iterator[tuple[str, Any]]:
        """What has arrived in whole."""
        while len(self.buffer) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(self.buffer[:_LENGTH_BYTES], "big")
            if len(self.buffer) < end:
                return
            kind, content = json.loads(bytes(self.buffer[_LENGTH_BYTES:end]))
            del self.buffer[:end]
            yield kind, content


class WorkersPlugin:
    """Replaces pytest's loop over the tests by forks that share them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._started = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.config.option.collectonly or session.testsfailed:
            return None
        threads = [thread.name for thread in threading.enumerate()]
        if len(threads) > 1:
            raise pytest.UsageError(f"an import started threads, which no fork has: {threads}")
        reporter = session.config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter.showfspath = False
        groups = _groups(session.items)
        queue = _queue(len(groups))
        selector = selectors.DefaultSelector()
        for _ in range(min(self._count, len(groups))):
            self._fork(session, groups, queue, selector)
        try:
            while selector.get_map():
                for key, _ in selector.select():
                    self._read(session, groups, queue, selector, key.data)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
        finally:
            for key in list(selector.get_map().values()):
                self._end(key.data)
            selector.close()
            os.close(queue)
        return True

    def _fork(
        self,
        session: pytest.Session,
        groups: list[list[pytest.Item]],
        queue: int,
        selector: selectors.BaseSelector,
    ) -> None:
        reading, writing = os.pipe()
        number = self._started
        self._started += 1
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            for key in list(selector.get_map().values()):
                os.close(key.data.pipe)
            selector.close()
            _run_worker(session, number, groups, queue, writing)
        os.close(writing)
        selector.register(reading, selectors.EVENT_READ, _Worker(pid, reading))

    def _read(
        self,
        session: pytest.Session,
        groups: list[list[pytest.Item]],
        queue: int,
        selector: selectors.BaseSelector,
        worker: _Worker,
    ) -> None:
        """Pass on what a worker reports. One that dies fails its tests, and is replaced."""
        config = session.config
        received = os.read(worker.pipe, _READ_BYTES)
        worker.buffer += received
        for kind, content in worker.messages():
            if kind == "group":
                worker.unfinished += groups[content]
            elif kind == "start":
                item = worker.unfinished[0]
                config.hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            elif kind == "report":
                if isinstance(content["longrepr"], list):  # of a skip; JSON knows no tuples
                    content["longrepr"] = tuple(content["longrepr"])
                report = config.hook.pytest_report_from_serializable(config=config, data=content)
                config.hook.pytest_runtest_logreport(report=report)
            elif kind == "finish":
                item = worker.unfinished.pop(0)
                config.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            elif kind == "warning":
                _repeat_warning(config, content)
            else:
                raise RuntimeError(f"a worker broke: {content}")
        if received:
            return
        selector.unregister(worker.pipe)
        os.close(worker.pipe)
        _, status = os.waitpid(worker.pid, 0)
        if not worker.unfinished:
            return
        code = os.waitstatus_to_exitcode(status)
        running, *waiting = worker.unfinished
        reasons = [(running, f"the worker died in this test (exit {code})")]
        reasons += [(item, f"not run: the worker died in {running.nodeid}") for item in waiting]
        for item, reason in reasons:
            report = pytest.TestReport(
                item.nodeid, item.location, {}, "failed", reason, "call", duration=0.0
            )
            config.hook.pytest_runtest_logreport(report=report)
            config.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        self._fork(session, groups, queue, selector)

    def _end(self, worker: _Worker) -> None:
        """Interrupt a worker that is not needed any more; its fixtures are torn down."""
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGINT)
        os.close(worker.pipe)
        os.waitpid(worker.pid, 0)


def _repeat_warning(config: pytest.Config, content: list[Any]) -> None:
    name, text, filename, lineno, when, nodeid = content
    category = type(name, (Warning,), {})
    message = warnings.WarningMessage(category(text), category, filename, lineno)
    config.hook.pytest_warning_recorded.call_historic(
        kwargs={"warning_message": message, "nodeid": nodeid, "when": when, "location": None}
    )
