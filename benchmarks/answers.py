"""How fast the questions of the contract are answered over a large ledger.

    .venv/bin/python benchmarks/answers.py [--entries 1000000] [--times 20]

The ledger is filled once into a home under the temporary directory and kept there: runs of twenty
entries with verdicts, denials and ends, chained and projected, and one run of two thousand behind
them, which is longer than any budget lets a run become.

Promises over 1,000,000 entries: every question under 50 ms in a process that is warm, and under
400 ms as a command that is started for it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Draft, Kind
from operator_sre.app import answers
from operator_sre.app.wiring import App, open_app
from operator_sre.clock import SystemClock
from operator_sre.codec import to_json
from operator_sre.config import load_config
from operator_sre.contract import messages
from operator_sre.contract.schemas import check_document
from operator_sre.gate import Policy, judge
from operator_sre.store.store import database_at
from operator_sre.store.transaction import Rules, Transaction

RUN_ENTRIES = 20
LONG_RUN, LONG_ENTRIES = "run-long", 2000
GROUP_RUNS = 500
GOAL_MS, COLD_GOAL_MS = 50.0, 400.0
ABOUT_RUNS = ("summarize", "explain-failure", "explain-denial", "timeline", "next-action")
COMMANDS = ("rm -rf /", "systemctl restart web", "mkfs /dev/sda", "true")


def story(
    number: int, verdicts: list[dict[str, object]], run: str = "", entries: int = RUN_ENTRIES
) -> Iterator[Draft]:
    """The entries of one run that was denied and failed."""
    run, ticket = run or f"run-{number:08x}", number + 1
    yield Draft(Kind.RUN_STARTED, {"model": "reasoner", "worker": "w"}, ticket, run)
    for place in range(entries // 3):
        verdict = verdicts[(number + place) % len(verdicts)]
        refused = to_json(Result(Outcome.REFUSED, stderr="Blocked: it never runs."))
        told = {"action": verdict["action"], "level": "blocked", "risk": "high", "permit": ""}
        yield Draft(Kind.REASONING, {"reasoning": "It is down.", "calls": []}, ticket, run)
        yield Draft(Kind.VERDICT, verdict, ticket, run)
        yield Draft(Kind.REFUSED, {**told, "result": refused}, ticket, run)
    end = {"state": "failed", "summary": "It is forbidden.", "category": "policy_denied"}
    yield Draft(Kind.RUN_FINISHED, end, ticket, run)


def fill(home: Path, entries: int) -> None:
    """Runs until there are so many entries; it can be broken off and gone on with."""
    home.mkdir(parents=True, exist_ok=True)
    database = database_at(home / "operator.db")
    database.prepare()
    connection = database.session()
    connection.execute("PRAGMA synchronous = OFF")
    held = connection.execute("SELECT count(*) FROM entries").fetchone()[0]
    verdicts = [to_json(judge(Action.shell(one), Policy())) for one in COMMANDS]
    runs = entries // RUN_ENTRIES

    def write(drafts: Iterable[Draft]) -> None:
        database.begin(connection)
        transaction = Transaction(connection, Rules(SystemClock()))
        for draft in drafts:
            transaction.append(draft)
        transaction.flush()
        connection.execute("COMMIT")

    for first in range(held // RUN_ENTRIES, runs, GROUP_RUNS):
        group = range(first, min(first + GROUP_RUNS, runs))
        write(draft for number in group for draft in story(number, verdicts))
    if not connection.execute("SELECT 1 FROM runs WHERE id = ?", (LONG_RUN,)).fetchone():
        write(story(runs, verdicts, LONG_RUN, LONG_ENTRIES))
    connection.close()


def questions(app: App, run: str, project: Path) -> dict[str, Callable[[], messages.Message]]:
    """Every question, as it is asked."""
    patch = messages.RecommendPolicyPatchRequest(request="allow host api.example.com")
    return {
        "validate": lambda: answers.validate_project(
            app, messages.ValidateAgentProjectRequest(project_dir=str(project))
        ),
        "summarize": lambda: answers.summarize_run(app, messages.SummarizeRunRequest(run_id=run)),
        "explain-failure": lambda: answers.explain_failure(
            app, messages.ExplainFailureRequest(run_id=run)
        ),
        "explain-denial": lambda: answers.explain_denial(
            app, messages.ExplainPolicyDenialRequest(run_id=run)
        ),
        "recommend-patch": lambda: asyncio.run(answers.recommend_patch(app, patch)),
        "timeline": lambda: answers.run_timeline(app, messages.GetRunTimelineRequest(run_id=run)),
        "next-action": lambda: answers.next_action(app, messages.NextActionRequest(run_id=run)),
        "next-action (no run)": lambda: answers.next_action(app, messages.NextActionRequest()),
    }


def warm_ms(times: int, ask: Callable[[], messages.Message]) -> tuple[float, float]:
    """Median and worst of several answers with their documents, after one that warms up."""
    spent = []
    for _ in range(times + 1):
        started = time.perf_counter()
        check_document(ask())
        spent.append((time.perf_counter() - started) * 1000)
    return statistics.median(spent[1:]), max(spent[1:])


def cold_ms(times: int, home: Path, *words: str) -> float:
    """The median of several commands, each started anew."""
    operator = str(Path(sys.executable).with_name("operator"))
    spent = []
    for _ in range(times):
        started = time.perf_counter()
        line = [operator, *words, "--json", "--home", str(home)]
        subprocess.run(line, cwd=home, check=False, capture_output=True)
        spent.append((time.perf_counter() - started) * 1000)
    return statistics.median(spent)


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Measure, print a table, and fail when a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=20)
    wanted = parser.parse_args()
    home = Path(tempfile.gettempdir()) / f"operator-benchmark-answers-{wanted.entries}"
    fill(home, wanted.entries)
    (home / "operator.toml").write_text('mode = "approve"\n')
    (home / "policy.yaml").write_text("version: 1\n")
    run = f"run-{wanted.entries // RUN_ENTRIES // 2:08x}"
    config = load_config(flags={"home": str(home)}, environ={}, cwd=home)
    words = {"validate": [str(home)], "recommend-patch": ["allow host api.example.com"]}
    slow = []
    say(f"{'question':32} {'median ms':>10} {'worst ms':>10} {'cold ms':>10}")
    with open_app(config) as app:
        asked = {name: (run, ask) for name, ask in questions(app, run, home).items()}
        about_long = questions(app, LONG_RUN, home)
        asked |= {
            f"{name} ({LONG_ENTRIES} entries)": (LONG_RUN, about_long[name]) for name in ABOUT_RUNS
        }
        for name, (of, ask) in asked.items():
            median, worst = warm_ms(wanted.times, ask)
            verb = name.split()[0]
            cold = cold_ms(5, home, verb, *([] if "no run" in name else words.get(verb, [of])))
            say(f"{name:32} {median:10.2f} {worst:10.2f} {cold:10.0f}")
            slow += [name] if median > GOAL_MS or cold > COLD_GOAL_MS else []
    if slow:
        sys.exit(f"slower than promised: {', '.join(slow)}")


if __name__ == "__main__":
    main()
