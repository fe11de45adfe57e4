"""`operator demo tikv` to its end: on the stand-ins, and on the real PD where it was built."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.census import processes_of
from tests.e2e.home import OPERATOR, Json
from tests.engines.tikv.real import real_programs
from tests.engines.tikv.standin import install

DEMO_S_MAX = 300.0
STEPS = ["rig", "watch", "fault", "file", "think", "decide", "act", "prove", "close"]


@pytest.fixture(params=["stand-ins", "real PD"])
def programs(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with `pd-server` and `tikv-server`."""
    if request.param == "stand-ins":
        return install(tmp_path / "bin")
    found = real_programs()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.mark.slow
@pytest.mark.timeout(DEMO_S_MAX + 60)
def test_the_tikv_demo_repairs_a_killed_store(programs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    (folder / "tmp").mkdir(parents=True)
    places = {"TMPDIR": str(folder / "tmp"), "XDG_STATE_HOME": str(folder / "state")}
    done = subprocess.run(
        [str(OPERATOR), "demo", "tikv", "--json"],
        cwd=folder,
        env={**os.environ, **places, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=DEMO_S_MAX,
        check=False,
    )
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr)
    events: list[Json] = [json.loads(line) for line in done.stdout.splitlines()]
    told = [event for event in events if event["event"] != "end"]
    assert list(dict.fromkeys(event["step"] for event in told)) == STEPS
    end = events[-1]
    assert (end["event"], end["proven"], end["ending"]["chain_whole"]) == ("end", True, True)
    assert end["ending"]["target"].startswith("store-")
    # One repair, of the store that was killed, and nothing else was changed.
    judged = [event["payload"] for event in told if event["event"] == "verdict"]
    changes = [each["action"] for each in judged if each["level"] != "safe"]
    assert [each["arguments"]["target"] for each in changes] == [end["ending"]["target"]]
    # The traffic went to the stores all the time, and most of it was answered.
    load = end["ending"]["load"]
    assert load["ok"] > 50
    assert load["ok"] / load["total"] > 0.5
    texts = " ".join(event["text"] for event in told)
    for word in ("Three PD members", "elect one", "PD calls it Disconnected", "PD must report"):
        assert word in texts
    assert processes_of(folder) == {}
