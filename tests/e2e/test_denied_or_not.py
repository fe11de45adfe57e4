"""What is explained as denied is what is denied: explanations are held to what really happens."""

from __future__ import annotations

import pytest

from operator_protocols.domain.permit import ApprovalState
from tests.e2e.home import Home
from tests.e2e.waiting import eventually

RUNS, DENIED, WAITS = "it runs", "it is denied", "a person is asked"
# The mode, a line of the policy, and what becomes of commands then.
CASES = {
    "observe": ("observe", "", {"true": RUNS, "touch made": DENIED, "rm -rf /": DENIED}),
    "approve": ("approve", "", {"true": RUNS, "touch made": WAITS, "rm -rf /": DENIED}),
    "deny": ("approve", "approval: {medium: deny}\n", {"true": RUNS, "touch made": DENIED}),
    "allow": ("execute", "approval: {medium: auto}\n", {"touch made": RUNS}),
}


def _happens(home: Home, command: str, mode: str) -> str:
    """What really becomes of a command that a person types."""
    running = home.fork("exec", command, "--json", "--wait", "60", OPERATOR_MODE=mode)

    def seen() -> str:
        if home.store.approvals.find(states=(ApprovalState.PENDING,)):
            return WAITS
        if running.runs:
            return ""
        return DENIED if '"refused"' in running.said else RUNS

    found = eventually(seen, f"something becomes of {command!r}")
    running.end()
    return found


@pytest.mark.parametrize("case", CASES)
def test_what_runs_or_is_asked_about_is_never_explained_as_denied(home: Home, case: str) -> None:
    mode, policy, commands = CASES[case]
    (home.cwd / "operator.toml").touch()
    (home.cwd / "policy.yaml").write_text(f"version: 1\n{policy}")
    assert home.run("audit", "list").code == 0
    for command, expected in commands.items():
        told = home.run("explain-denial", "--action", command, "--json", OPERATOR_MODE=mode)
        assert told.code == (0 if expected is DENIED else 1), (command, told)
        if expected is DENIED:
            assert told.json["denied_action"] == command
            assert told.json["next_action"] == "review_policy_patch"
        else:
            assert "is not denied" in told.json["error"]["message"]
        assert _happens(home, command, mode) == expected, command
