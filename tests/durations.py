"""A plug-in of pytest that records how long each test file took: `make quick` chooses by that."""

from __future__ import annotations

from collections import defaultdict

import pytest

__all__ = ["RECORD", "pytest_configure"]

# Where it lies in the cache of pytest.
RECORD = "operator/durations"


class _Durations:
    """Adds up the seconds of each file; the reports of all workers arrive here."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        config = session.config
        cache: pytest.Cache | None = getattr(config, "cache", None)
        chosen = [config.getoption(name, None) for name in ("keyword", "markexpr", "lf", "maxfail")]
        is_whole = not any(chosen) and not any("::" in word for word in config.args)
        if cache is None or not is_whole or exitstatus > pytest.ExitCode.TESTS_FAILED:
            return  # a part of a file would pass for the whole of it
        for place in [config.invocation_params.dir / word for word in config.args]:
            for file in [place] if place.is_file() else place.rglob("test_*.py"):
                # One without a report holds only slow tests, which run with `-m slow` only.
                self._seconds[file.relative_to(config.rootpath).as_posix()] += 0.0
        known: dict[str, float] = cache.get(RECORD, {})
        for path, seconds in self._seconds.items():
            # A busy machine makes every test look slow: what is shorter counts more.
            before = known.get(path, seconds)
            known[path] = round(min(seconds, (before + seconds) / 2), 3)
        cache.set(RECORD, known)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Durations(), "operator-durations")
