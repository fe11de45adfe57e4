"""What holds for every test: a clean environment, loopback only, and an honest list of skips."""

import gc
import logging
import os
import shutil
import signal
import socket
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from getpass import getuser
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from operator_lab.ports import reserve_ports
from operator_sre.processes.runner import launcher as _launching
from tests.audit import watch
from tests.e2e import warm
from tests.leaks import LeaksPlugin

pytest_plugins = ["tests.workers"]

# How long an example takes says more about the machine than about what is tested.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

# A runner of a test does not wait for the next command of its home.
_launching.IDLE_S = 2.0
_start_runner = _launching._start

_FORBID_SKIPS = "OPERATOR_FORBID_SKIPS"
_GARBAGE_MAX = 20_000
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 4 * 1024**3
_WRITTEN = pytest.StashKey[Path]()
_LEFT_TO = {
    "slow": "`make test-slow`: they take long",
    "system": "`make test-system`: they need more than Python, like a Docker engine or a browser",
}
# Their tests start modules of the tests as processes of their own.
_WITH_MODULES = ("tests/app/test_hub.py", "tests/contract/", "tests/crash/", "tests/e2e/test_crash")
_LEFT_OUT = pytest.StashKey[dict[str, int]]()

# A user's settings and keys must not decide a test, and no test may spend a user's money.
for _name in [name for name in os.environ if name.startswith(("OPERATOR_", "ANTHROPIC_"))]:
    if _name != _FORBID_SKIPS:
        del os.environ[_name]

# A shell that starts us in the background has us ignore these, and what we start would as well.
# With a handler of our own, each program that is started hears them again.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda number, frame: None)


def _is_roomy(memory: Path, free_bytes: int) -> bool:
    """Whether all that the tests write fits there, and may be run there."""
    try:
        disk = os.statvfs(memory)
    except OSError:
        return False
    is_fit = os.access(memory, os.W_OK | os.X_OK) and not disk.f_flag & os.ST_NOEXEC
    return is_fit and min(disk.f_bavail * disk.f_frsize, free_bytes) >= _MEMORY_BYTES_MIN


def _free_bytes() -> int:
    """What the machine could still give; nothing where it does not tell."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


# Thousands of tests make a store of their own, and every write to one waits for the disk.
# What runs that were killed left there is memory that nobody else can have.
for _lock in _MEMORY.glob(f"pytest-of-{getuser()}/pytest-*/.lock"):
    with suppress(OSError, ValueError):
        if not Path(f"/proc/{int(_lock.read_text())}").exists():
            shutil.rmtree(_lock.parent, ignore_errors=True)
if _is_roomy(_MEMORY, _free_bytes()):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


class _Skips:
    """Collects why tests were skipped; the reports of all workers arrive here."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self.reasons[str(text).removeprefix("Skipped: ")] += 1

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.reasons and os.environ.get(_FORBID_SKIPS) == "1" and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.reasons:
            terminalreporter.write_line("nothing skipped")
            return
        terminalreporter.section("skipped, and why")
        for reason, count in sorted(self.reasons.items()):
            terminalreporter.write_line(f"{count:5}  {reason}")
        if os.environ.get(_FORBID_SKIPS) == "1":
            terminalreporter.write_line(f"{_FORBID_SKIPS}=1: a skip is a failure", red=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # What is collected stays until the end. To look for garbage in it takes as long as to collect
    # it, and would be done again and again in every test.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # Each test that opens anything ends with a collection; in between few are needed.
        gc.set_threshold(_GARBAGE_MAX)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Some of the longest files are there. Workers take files in this order, and no worker should be
    # alone with one of them at the end.
    items.sort(key=lambda item: not item.nodeid.startswith("tests/tidy/"))
    # Whoever asks for the ones with `-m`, or for all but them, has chosen already.
    if "slow" in config.option.markexpr or "system" in config.option.markexpr:
        return
    left_out: dict[str, list[pytest.Item]] = {mark: [] for mark in _LEFT_TO}
    chosen: list[pytest.Item] = []
    for item in items:
        system = item.get_closest_marker("system")
        if item.get_closest_marker("slow"):
            left_out["slow"].append(item)
        elif system and not system.kwargs.get("smoke"):
            left_out["system"].append(item)
        else:
            chosen.append(item)
    config.stash[_LEFT_OUT] = {mark: len(found) for mark, found in left_out.items() if found}
    if config.stash[_LEFT_OUT]:
        config.hook.pytest_deselected(items=[item for found in left_out.values() for item in found])
        items[:] = chosen


class _LeftOut:
    """Says how many tests are run by other commands."""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        left_out = terminalreporter.config.stash.get(_LEFT_OUT, {})
        for mark, count in left_out.items():
            terminalreporter.write_line(f"{count:5}  left to {_LEFT_TO[mark]}")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start what all workers can share before they are forked."""
    if session.config.option.workers > 1 and not session.config.option.collectonly:
        # Hundreds of tests have a home with a runner of its own. Those with `real_runner`, and
        # commands that are not forked themselves, start theirs as users do.
        runner = warm.shared_warm(session.config, warm.RUNNER)
        if any(item.nodeid.startswith(_WITH_MODULES) for item in session.items):
            warm.shared_warm(session.config, warm.MODULE)
        wanted = {name for item in session.items for name in getattr(item, "fixturenames", ())}
        for fixture, program in (("warm", warm.COMMAND), ("warm_node", warm.NODE)):
            if fixture in wanted:
                warm.shared_warm(session.config, program)
        _launching._start = partial(warm.fork_runner, runner)


@pytest.fixture
def free_port() -> Iterator[Callable[[], int]]:
    """Ports for servers that a test starts itself: no other test and no rig is given them."""
    with ExitStack() as reserved:
        yield lambda: reserved.enter_context(reserve_ports(["server"])).ports["server"]


@pytest.fixture
def real_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runners are started as users have them, so that they are known by their command line."""
    monkeypatch.setattr(_launching, "_start", _start_runner)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes minutes; runs with `-m slow` only")
    config.addinivalue_line(
        "markers",
        "system: needs more than Python, like a Docker engine or a browser; runs with `-m system`,"
        " and where it is marked `system(smoke=True)` always",
    )
    config.pluginmanager.register(_Skips(), "operator-skips")
    config.pluginmanager.register(_LeftOut(), "operator-left-out")
    config.pluginmanager.register(LeaksPlugin(), "operator-leaks")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """What all processes have written goes when all is well: it may lie in memory."""
    written: Path | None = config.stash.get(_WRITTEN, None)
    if written is not None:
        shutil.rmtree(written, ignore_errors=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    if exitstatus == 0 and config.option.basetemp is None:
        factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
        config.stash[_WRITTEN] = factory.getbasetemp()


def _is_loopback(host: object) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


class _Guard:
    """Sees where sockets lead to while a test runs."""

    def __init__(self) -> None:
        self.is_on = False
        self.reached: list[str] = []

    def see(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.is_on:
            return
        endpoint, address = arguments
        if not isinstance(endpoint, socket.socket) or not isinstance(address, tuple):
            return
        if endpoint.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            self.reached.append(f"{event} {address!r}")
            raise PermissionError(f"tests stay on loopback: {event} {address!r}")


_guard = _Guard()
watch(("socket.connect", "socket.bind"), _guard.see)


@pytest.fixture(autouse=True)
def loopback_only() -> Iterator[None]:
    """Fail a test that connects to, or listens on, anything but loopback in this process."""
    _guard.reached.clear()
    _guard.is_on = True
    yield
    _guard.is_on = False
    if _guard.reached:
        tried = ", ".join(_guard.reached)
        pytest.fail(f"tests stay on loopback, this one tried: {tried}", pytrace=False)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A command that a test runs in this process sets logging up for itself only."""
    ours = logging.getLogger("operator_sre")
    before = ours.propagate, ours.level, ours.handlers[:], logging.root.manager.disable
    yield
    ours.propagate, ours.level, ours.handlers[:], logging.root.manager.disable = before


@pytest.fixture(autouse=True, scope="session")
def state_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Send whatever looks for the user's own state to a folder of the tests."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder
