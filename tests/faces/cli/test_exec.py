"""`operator exec`: a person's command goes the way of every other, and says what became of it."""

from __future__ import annotations

import getpass
import re
import signal
import socket
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.limits import Limits
from operator_protocols.domain.permit import Approval, ApprovalState
from operator_sre.clock import SystemClock
from tests.app.home import SUBJECTS
from tests.e2e.home import Home, Running
from tests.e2e.waiting import eventually
from tests.faces.cli.sentences import Bad, one_sentence

ME = getpass.getuser()
MEANT = ("--reason", "it was me", "--yes")
AUTO = "version: 1\napproval: {low: auto, medium: auto}\n"
FIELDS = {
    *("schema_version", "command", "level", "risk_level", "ran", "exit_code", "outcome"),
    *("stdout", "stderr", "truncated", "duration_s", "seq", "explanation", "timed_out"),
    *("error_category", "duration_ms", "usage", "stdout_bytes", "stderr_bytes", "left", "blocked"),
    "warnings",
}


def _policy(home: Home, text: str) -> None:
    home.path.mkdir(exist_ok=True)
    (home.path / "policy.yaml").write_text(text)


def _asking(home: Home) -> tuple[Running, Approval]:
    """A command that waits for a person, and its request."""
    running = home.fork(
        "exec", "mkdir zz", "--mode", "approve", "--reason", "it is full", "--wait", "60"
    )
    eventually(lambda: "Ctrl-C" in running.said, "it says what it waits for")
    (asked,) = home.store.approvals.find(states=[ApprovalState.PENDING])
    return running, asked


def _ended(running: Running) -> int:
    eventually(lambda: not running.runs, "it has ended")
    return running.end()


def test_what_only_looks_runs_at_once_and_is_on_record(home: Home) -> None:
    done = home.run("exec", "echo out; echo careful >&2; exit 7")
    failed = "operator: The command failed: exit code 7 [runtime].\n"
    assert (done.code, done.out, done.err) == (7, "out\n", f"careful\n{failed}")
    # A busy machine may leave it running for long enough to note that it has started.
    story = home.entries(*(set(Kind) - {Kind.TOOL_STARTED}))
    assert [entry.kind for entry in story] == [
        *(Kind.VERDICT, Kind.PERMIT_MINTED, Kind.TOOL_CALL, Kind.TOOL_RESULT),
    ]
    for entry in story:
        assert (entry.ticket, entry.run) == (None, "")
        assert (entry.actor.id, entry.actor.type) == (ME, "user")
        assert entry.actor.agent.startswith(f"{ME}@{socket.gethostname()}:")
    (kept,) = home.run("history", "list", "--json").json["commands"]
    assert (kept["command"], kept["exit_code"]) == ("echo out; echo careful >&2; exit 7", 7)
    assert home.run("audit", "verify").code == 0


def test_programs_are_told_everything_in_one_document(home: Home) -> None:
    done = home.run("exec", "pwd", "--cwd", "/usr", "--json")
    told = done.json
    assert (done.code, set(told)) == (0, FIELDS)
    assert (told["stdout"], told["level"], told["ran"], told["outcome"]) == (
        *("/usr\n", "safe", True, "ran"),
    )
    assert home.entries(Kind.TOOL_RESULT)[0].seq == told["seq"]
    assert (told["timed_out"], told["error_category"], told["left"]) == (False, None, [])
    assert told["duration_ms"] == pytest.approx(told["duration_s"] * 1000)
    assert set(told["usage"]) == {"user_s", "system_s", "memory_bytes"}
    assert (told["stdout_bytes"], told["stderr_bytes"], told["warnings"]) == (5, 0, [])
    refused = home.run("exec", "mkdir zz", "--json")
    told = refused.json
    assert (refused.code, set(told)) == (4, FIELDS)
    assert (told["ran"], told["exit_code"], told["outcome"]) == (False, None, "refused")
    assert home.entries(Kind.REFUSED)[0].seq == told["seq"]


def test_what_takes_too_long_is_ended(home: Home) -> None:
    done = home.run("exec", "sleep 60", "--timeout-s", "0.3")
    assert (done.code, done.out) == (124, "")
    assert done.err == "operator: The command was killed: it exceeded its timeout of 0.3 s.\n"
    told = home.run("exec", "sleep 60", "--timeout-s", "0.3", "--json").json
    assert (told["timed_out"], told["outcome"], told["error_category"]) == (
        *(True, "timed_out", "timeout"),
    )


@pytest.mark.parametrize(
    ("command", "code", "category"),
    [
        *(("no-such-command", 127, "not_found"), ("/etc", 126, "permission")),
        *(("cat nosuch", 1, "not_found"), ("exit 3", 3, "runtime")),
    ],
)
def test_why_it_failed_is_told_to_programs(
    home: Home, command: str, code: int, category: str
) -> None:
    _policy(home, AUTO)
    told = home.run("exec", command, "--json", "--mode", "execute").json
    assert (told["exit_code"], told["error_category"]) == (code, category)
    (kept,) = home.run("history", "list", "--json").json["commands"]
    assert kept["category"] == category


def test_all_that_was_said_can_be_had_again_without_its_secrets(home: Home) -> None:
    secret = "AKIA" + "Q3EGRZ7TYUPLMN4X"
    lines = [f"line {number} of many\n" for number in range(20_000)]
    (home.cwd / "many").write_text(f"{''.join(lines)}aws_access_key_id = {secret}\n")
    done = home.run("exec", "cat many nosuch")
    assert done.out.startswith("".join(lines)), "all of it is passed on, not only what is kept"
    (kept,) = home.run("history", "list", "--json").json["commands"]
    kilobytes = (home.cwd / "many").stat().st_size / 1000
    assert done.err.splitlines()[1:] == [
        "operator: The command failed: exit code 1 [not_found].",
        f"operator: The ledger keeps the beginning and the end of {kilobytes:.3g} kB of stdout and"
        " 39 bytes of stderr. Full output, for a day:"
        f" operator history show {kept['seq']} --output --home {home.path}",
    ]
    whole = home.run("history", "show", str(kept["seq"]), "--output")
    assert (whole.code, whole.out) == (0, done.out)
    assert secret not in whole.out
    assert whole.err == "cat: nosuch: No such file or directory\n"
    for file in (home.path / "spool").iterdir():
        file.unlink()
    both = home.run("history", "show", str(kept["seq"]), "--output", "--json")
    assert (both.code, "--output cannot be combined" in both.json["error"]["message"]) == (2, True)
    gone = home.run("history", "show", str(kept["seq"]), "--output")
    says = rf"full output of command {kept['seq']} is not on this machine.*history show"
    one_sentence(gone, Bad("", 2, says))


def test_in_observe_it_is_proposed_and_nothing_happens(home: Home) -> None:
    bad = Bad("exec", 4, r"Proposed only: the mode is observe\. .*run it with: --mode approve")
    one_sentence(home.run("exec", "mkdir zz"), bad)
    assert not (home.cwd / "zz").exists()
    (refused,) = home.entries(Kind.REFUSED)
    assert (refused.actor.id, refused.payload["level"]) == (ME, "review")
    assert home.entries(Kind.TOOL_CALL, Kind.PERMIT_MINTED) == []


@pytest.mark.parametrize("mode", ["observe", "approve", "execute"])
def test_what_is_blocked_never_runs(home: Home, mode: str) -> None:
    _policy(home, AUTO)
    says = r"Blocked: it never runs\."
    one_sentence(home.run("exec", "rm -rf /", "--mode", mode), Bad("exec", 3, says))
    assert home.entries(Kind.TOOL_CALL, Kind.APPROVAL_REQUESTED) == []


def test_a_yes_lets_it_run_once(home: Home) -> None:
    running, asked = _asking(home)
    assert (asked.requester.id, asked.ticket, asked.subject) == (ME, None, "machine")
    line = f"operator approvals approve {asked.id} --home {home.path}"
    assert line in running.said
    shown = home.run("approvals", "show", asked.id)
    for part in (
        *("command   mkdir zz", f"directory {home.cwd} on {socket.gethostname()}", "it is full"),
        *("limits    300 s", "outcome   it requires approval", "ticket -, run -"),
        *("HOME=/nonexistent", "changes   "),
    ):
        assert part in shown.out, part
    told = home.run("approvals", "show", asked.id, "--json").json["outlook"]
    assert (told["way"], told["environment"]["HOME"]) == ("asks", "/nonexistent")
    assert not (home.cwd / "zz").exists()
    assert home.run("approvals", "approve", asked.id).code == 0
    assert _ended(running) == 0
    assert (home.cwd / "zz").is_dir()
    (call,) = home.entries(Kind.TOOL_CALL)
    assert call.actor.id == ME


@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["text", "json"])
def test_without_a_terminal_nobody_is_waited_for_and_the_way_to_approve_is_told(
    home: Home, as_json: tuple[str, ...]
) -> None:
    done = home.run("exec", "mkdir zz", "--mode", "approve", *as_json)
    assert done.code == 4
    told = done.json["explanation"] if as_json else done.err
    assert "Approval required: nothing ran" in told
    assert "--wait 300" in told
    (asked,) = home.store.approvals.find()
    assert (asked.state, asked.decided_by) == (ApprovalState.WITHDRAWN, ME)
    assert not (home.cwd / "zz").exists()
    assert home.entries(Kind.TOOL_CALL) == []


def test_a_no_is_told_with_its_reason(home: Home) -> None:
    running, asked = _asking(home)
    assert home.run("approvals", "reject", asked.id, "--reason", "not today").code == 0
    assert _ended(running) == 4
    assert "The approval was rejected: not today." in running.said
    assert not (home.cwd / "zz").exists()


def test_ctrl_c_takes_the_request_back(home: Home) -> None:
    running, asked = _asking(home)
    assert running.end(signal.SIGINT) == 130
    kept = home.store.approvals.get(asked.id)
    assert kept is not None
    assert (kept.state, kept.decided_by) == (ApprovalState.WITHDRAWN, ME)
    late = home.run("approvals", "approve", asked.id)
    assert (late.code, "already withdrawn" in late.err) == (1, True)
    assert not (home.cwd / "zz").exists()


def test_ctrl_c_ends_what_runs_and_says_so_in_the_record(home: Home) -> None:
    running = home.fork("exec", "sleep 300")
    eventually(lambda: home.entries(Kind.TOOL_CALL), "it runs")
    assert running.end(signal.SIGINT) == 130
    (ended,) = home.entries(Kind.TOOL_RESULT)
    assert ended.payload["result"]["outcome"] == "cancelled"


def test_in_execute_the_policy_decides(home: Home) -> None:
    _policy(home, AUTO)
    assert home.run("exec", "mkdir zz", "--mode", "execute").code == 0
    assert (home.cwd / "zz").is_dir()
    _policy(home, "version: 1\napproval: {medium: deny}\n")
    denied = Bad("exec", 3, r"Denied: the policy refuses actions of medium risk\.")
    one_sentence(home.run("exec", "mkdir yy", "--mode", "execute"), denied)


def test_what_a_person_set_for_a_subject_holds_for_the_machine_too(home: Home) -> None:
    (home.cwd / "operator.toml").write_text(SUBJECTS)
    _policy(home, AUTO)
    assert home.run("mode", "set", "observe", "--subject", "shop").code == 0
    says = r"the mode is observe\. .*operator mode show"
    one_sentence(home.run("exec", "mkdir zz", "--mode", "execute"), Bad("exec", 4, says))


def test_the_kill_switch_holds_everything_back(home: Home) -> None:
    assert home.run("kill-switch", "on").code == 0
    one_sentence(home.run("exec", "uptime"), Bad("exec", 4, r"The kill switch is on"))
    says = r"Proposed only.*operator kill-switch status"
    one_sentence(home.run("exec", "mkdir zz", "--mode", "execute"), Bad("exec", 4, says))
    told = home.run("exec", "uptime", "--dry-run", "--json").json
    assert (told["way"], "kill switch" in told["why"]) == ("held", True)


def test_limits_and_sessions_count_what_people_do_and_can_be_reset(home: Home) -> None:
    _policy(home, AUTO)
    line = ("exec", "mkdir /proc/zz", "--mode", "execute")
    session = f"{ME}@{socket.gethostname()}"
    for times in range(1, 4):
        failed = home.run(*line)
        assert (failed.code, "/proc/zz" in failed.err) == (1, True), failed
        if times == 2:  # a third in such haste is asked about
            told = home.run(*line, "--dry-run", "--json").json
            assert (told["way"], f"session of '{session}' is high" in told["why"]) == ("asks", True)
            assert home.run("session", "reset", session, *MEANT).code == 0
    says = r"3 changes of 'machine' failed in a row.*operator limits reset machine"
    held = home.run("exec", "mkdir zz", "--mode", "execute")
    one_sentence(held, Bad("exec", 4, says))
    (shown,) = home.run("limits", "show", "--json").json["limits"]
    assert (shown["subject"], shown["usage"]["failures"]) == ("machine", 3)
    assert home.run("limits", "reset", "machine", *MEANT).code == 0
    assert home.run("exec", "uptime").code == 0


def test_a_command_of_a_subject_counts_for_the_subject(home: Home) -> None:
    (home.cwd / "operator.toml").write_text(SUBJECTS)
    _policy(home, AUTO)
    line = ("exec", "mkdir zz", "--target", "node-1", "--mode", "execute")
    told = home.run(*line, "--dry-run", "--json").json
    assert (told["subject"], told["identity"], told["way"]) == (
        *("shop", "node-1: 127.0.0.1:1", "runs"),
    )
    assert home.run(*line).code == 0
    usage = home.store.limit_usage.usage("shop", Limits(), now=SystemClock().now())
    assert (usage.changes, usage.targets) == (1, frozenset({"node-1"}))


def test_no_secret_leaves(home: Home, tmp_path: Path) -> None:
    secret = "AKIA" + "Q3EGRZ7TYUPLMN4X"
    (tmp_path / "settings").write_text(f"aws_access_key_id = {secret}\n")
    done = home.run("exec", "cat settings")
    assert done.code == 0
    assert secret not in done.out
    assert "[REDACTED:" in done.out


@pytest.mark.parametrize(
    ("mode", "command", "way", "says"),
    [
        ("observe", "cat /etc/hostname", "runs", "in mode observe it runs without approval"),
        ("observe", "mkdir zz", "proposes", "in mode observe it is only proposed"),
        ("approve", "mkdir zz", "asks", "in mode approve it requires approval"),
        ("execute", "rm -rf /", "never", "in mode execute it never runs"),
    ],
)
def test_a_dry_run_says_what_would_happen_and_does_nothing(
    home: Home, mode: str, command: str, way: str, says: str
) -> None:
    line = ("exec", command, "--mode", mode, "--dry-run", "--cwd", "/usr")
    done = home.run(*line)
    assert (done.code, done.err) == (0, "")
    assert not home.path.exists(), "looking makes no home"
    for part in (
        *(f"command   {command}", f"directory /usr on {socket.gethostname()}", says),
        *("as        ", "(uid ", f"requester {ME} (user), through agent {ME}@"),
        *("limits    300 s, 64 KiB", "undo      ", "PATH=/usr/local/sbin:", "more variables"),
    ):
        assert part in done.out, part
    told = home.run(*line, "--json").json
    assert (told["way"], told["ran"], told["cwd"]) == (way, False, "/usr")
    assert told["environment"]["GIT_CONFIG_GLOBAL"] == "/dev/null"
    assert list(home.cwd.iterdir()) == []


def test_a_dry_run_leaves_no_trace_in_a_home_that_is_there(home: Home) -> None:
    assert home.run("exec", "uptime").code == 0
    before = home.entries(*Kind)
    assert home.run("exec", "mkdir zz", "--dry-run").code == 0
    assert home.entries(*Kind) == before
    assert home.store.approvals.find() == []


BAD = [
    ("exec ''", r"The command is empty\. Try: operator exec"),
    ("exec uptime --subject nosuch", r"There is no subject 'nosuch'"),
    ("exec uptime --target node-9", r"'shop' has no target 'node-9'\. Its targets: node-1\."),
    ("exec uptime --cwd /nosuch", r"There is no directory '/nosuch'"),
    ("exec uptime --timeout-s 0", r"--timeout-s must be at least 0\.1, not '0'"),
    ("exec uptime --timeout-s 601", r"--timeout-s must be at most 600, not '601'"),
    ("exec", r"COMMAND is missing\. See: operator exec --help"),
]


@pytest.mark.parametrize(("line", "says"), BAD, ids=[one[0] for one in BAD])
def test_what_makes_no_sense_is_told_in_one_sentence(home: Home, line: str, says: str) -> None:
    (home.cwd / "operator.toml").write_text(SUBJECTS)
    words = [re.sub("^''$", "", word) for word in line.split()]
    one_sentence(home.run(*words), Bad(line, 2, says))
