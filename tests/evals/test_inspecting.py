"""Logs that inspect-ai reads: written by us alone, and opened by the real package."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from operator_evals.analysis import analyse, score_trials
from operator_evals.inspect_logs import documents, write_logs
from operator_protocols.errors import UsageError
from tests.evals.samples import CAMPAIGN, RECORDED, hostile, trials

KNOWN = score_trials(list(trials()), CAMPAIGN)
READ = """
import json, sys
from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample_summaries
found = {}
for log in sorted(list_eval_logs(sys.argv[1]), key=lambda one: one.name):
    whole = read_eval_log(log)
    found[whole.eval.model] = {
        "status": whole.status,
        "task": whole.eval.task,
        "summaries": len(read_eval_log_sample_summaries(log)),
        "shares": {one.name: one.metrics["share"].value for one in whole.results.scores},
        "samples": {
            f"{one.id} {one.epoch}": [
                [message.role for message in one.messages],
                {name: score.value for name, score in (one.scores or {}).items()},
                one.error.message if one.error else "",
            ]
            for one in whole.samples
        },
    }
print(json.dumps(found))
"""


def _python() -> str:
    """A Python that has the real package: this one, or that of the command `inspect`."""
    if importlib.util.find_spec("inspect_ai") is not None:
        return sys.executable
    command = shutil.which("inspect")
    python = Path(command).resolve().with_name("python") if command else None
    if python is None or not python.exists():
        pytest.skip("there is no inspect-ai: install it anywhere, its command `inspect` on PATH")
    return str(python)


@pytest.mark.slow
def test_the_real_package_reads_what_we_measured(tmp_path: Path) -> None:
    python = _python()
    write_logs(RECORDED, KNOWN, tmp_path)
    recorded, facts = hostile("<b>\x00\n../../../etc/passwd\u202e\"'")
    write_logs(recorded, score_trials([facts], recorded.campaign), tmp_path)
    done = subprocess.run(
        [python, "-c", READ, str(tmp_path)], capture_output=True, check=True, timeout=110
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == 5
    log = found["operator/reasoner"]
    analysis = analyse([one.facts for one in KNOWN], CAMPAIGN)
    (best,) = [one for one in analysis.summaries if (one.variant, one.slice) == ("reasoner", "all")]
    assert (log["status"], log["task"], log["summaries"]) == ("success", "reference", 28)
    for name in ("end_to_end", "ended_right", "cause_right", "mitigated", "detected"):
        assert log["shares"][name] == pytest.approx(getattr(best, name).value), name
    roles, scores, error = log["samples"]["shop:till_kill 1"]
    told = "user assistant assistant tool assistant tool assistant assistant tool user"
    assert roles == told.split()
    assert (set(scores.values()), error) == ({1}, "")
    _, scores, error = log["samples"]["shop:lock_left 4"]
    assert (scores, error) == ({}, "the rig was not well within 40 s")


def test_the_same_facts_are_the_same_files_and_no_name_leads_out_of_them(tmp_path: Path) -> None:
    first = write_logs(RECORDED, KNOWN, tmp_path / "a")
    again = write_logs(RECORDED, KNOWN, tmp_path / "b")
    assert [one.read_bytes() for one in first] == [one.read_bytes() for one in again]
    assert [one.suffix for one in first] == [".eval"] * 4
    recorded, facts = hostile("../../a/b\\c:\x00")
    (file,) = write_logs(recorded, score_trials([facts], recorded.campaign), tmp_path / "c")
    assert list((tmp_path / "c").iterdir()) == [file]
    with zipfile.ZipFile(file) as log:
        for name in log.namelist():
            assert name.count("/") <= 1
            assert not name.startswith(("/", "."))
            assert "\\" not in name
            json.loads(log.read(name))
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write_logs(RECORDED, KNOWN, tmp_path / "taken")


def test_a_log_has_every_part_and_counts_as_our_tables_do() -> None:
    some = [one for one in KNOWN if one.facts.variant == "none"]
    parts = documents(RECORDED, "none", some)
    assert {"header.json", "summaries.json", "_journal/start.json"} <= set(parts)
    assert sum(name.startswith("samples/") for name in parts) == len(some) == 14
    results = {one["name"]: one for one in parts["header.json"]["results"]["scores"]}
    assert results["end_to_end"]["scored_samples"] == 12  # controls are apart
    assert results["mitigated"]["scored_samples"] == 10  # lost quorum cannot be mitigated
    control = parts["samples/shop:nothing_epoch_1.json"]
    assert set(control["scores"]) == {"ended_right", "harmless"}
