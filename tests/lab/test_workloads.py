"""The load of the TiKV lab: the workloads of YCSB, as its script asks go-ycsb for them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from operator_sre.subjects.tikv.rig import stack
from tests.every import every

LOAD = Path(stack().folder) / "load"
SHARES = {"a": (0.5, 0.5), "b": (0.95, 0.05), "c": (1.0, 0.0), "mixed": (0.8, 0.2), "": (0.8, 0.2)}


def _run(folder: Path, workload: str) -> tuple[list[list[str]], subprocess.CompletedProcess[str]]:
    """What the script calls go-ycsb with; its second run ends it."""
    calls = folder / "calls"
    program = folder / "go-ycsb"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {calls}\ncase "$1" in run) kill -TERM $PPID;; esac\n'
    )
    program.chmod(0o755)
    done = subprocess.run(
        ["sh", str(LOAD / "run.sh")],
        env={
            "PATH": f"{folder}:{os.environ['PATH']}",
            "THREADS": "8",
            "TARGET_PER_S": "200",
            "WORKLOAD": workload,
        },
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    lines = calls.read_text().splitlines() if calls.exists() else []
    return [line.split() for line in lines], done


def _properties(words: list[str]) -> dict[str, str]:
    pairs = [words[at + 1] for at, word in enumerate(words) if word == "-p"]
    return dict(pair.split("=", 1) for pair in pairs)


def _file() -> dict[str, str]:
    return dict(line.split("=") for line in (LOAD / "workload").read_text().split())


@every("workload", SHARES)
def test_half_of_the_operations_are_reads(
    tmp_path_factory: pytest.TempPathFactory, workload: str
) -> None:
    (load, run), done = _run(tmp_path_factory.mktemp("load"), workload)
    assert done.returncode == 0
    assert (load[:2], run[:2]) == (["load", "tikv"], ["run", "tikv"])
    # What is given beside the file counts; the file alone says nothing else of it.
    asked = _file() | _properties(run)
    shares = (float(asked["readproportion"]), float(asked["updateproportion"]))
    assert shares == SHARES[workload]
    assert (asked["scanproportion"], asked["insertproportion"]) == ("0", "0")
    assert (asked["requestdistribution"], asked["recordcount"]) == ("zipfian", "10000")
    assert (asked["operationcount"], asked["target"]) == ("100000", "200")


def test_another_workload_is_refused(tmp_path: Path) -> None:
    calls, done = _run(tmp_path, "z")
    assert (calls, done.returncode) == ([], 2)
    assert done.stderr == "WORKLOAD is 'z'; use a, b, c or mixed.\n"


def test_the_workload_is_a_setting_of_the_stack() -> None:
    spec = stack()
    assert spec.settings["LOAD_WORKLOAD"] == "mixed"
    text = (LOAD.parent / "compose.yaml").read_text()
    assert "WORKLOAD: ${LOAD_WORKLOAD:-mixed}" in text
