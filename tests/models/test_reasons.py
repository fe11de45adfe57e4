"""Reasons that logs, sockets and failed actions name, and what is said where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.change import Change
from operator_protocols.domain.observation import Observation, Seen, Trouble
from operator_protocols.domain.run import Act, Ask, Budget, Step
from operator_protocols.domain.target import Target
from operator_sre.models.reasoner import Reasoner
from operator_sre.models.reasoner.case import case_from
from operator_sre.models.reasoner.diagnosis import diagnose
from tests.contract.clock import NOON
from tests.contract.samples import violation
from tests.models.world import (
    CUT,
    DEAD,
    DEAF,
    HUNG,
    PAUSED,
    SHOP,
    TAKEN,
    WELL,
    State,
    World,
    briefing,
)

REFUSED = replace(violation("node-1"), trouble=Trouble.REFUSED, detail="127.0.0.1:8001: refused")


def _shop(state: State) -> dict[str, State]:
    return {"store": WELL, "node-1": state, "node-2": WELL}


PREVENTED = [
    ("configuration_rejected", "*** FATAL CONFIG FILE ERROR ***\n>>> 'nosuch 1'\nBad directive\n"),
    ("data_unusable", "PANIC: could not locate a valid checkpoint record\n"),
    ("data_missing", "FATAL: could not open file /d/global/pg_control: No such file\n"),
    ("files_denied", "FATAL: could not open file /d/base/1: Permission denied\n"),
    ("removed_from_cluster", "error: the member has been permanently removed from the cluster\n"),
    ("lock_file_left", 'FATAL: lock file "postmaster.pid" already exists\n'),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(("cause", "log"), PREVENTED, ids=[case[0] for case in PREVENTED])
async def test_a_start_that_the_log_says_is_prevented_is_not_tried(cause: str, log: str) -> None:
    world = World(_shop(replace(DEAD, log=log)))
    conclusion = await world.live(Reasoner())
    (diagnosis,) = world.diagnoses
    assert (diagnosis.cause, diagnosis.target, world.done) == (cause, "node-1", [])
    quoted = log.strip().splitlines()[-1].replace("'", "")
    assert quoted in diagnosis.summary.replace("'", "")
    assert quoted in diagnosis.evidence[0].sentence.replace("'", "")
    assert quoted in conclusion.reason.replace("'", "")


@pytest.mark.asyncio
async def test_the_log_is_read_again_after_a_start_that_failed() -> None:
    states = _shop(DEAD)

    def repair(action: Action) -> Result:
        states["node-1"] = replace(DEAD, log="FATAL: unknown option --nosuch\n")
        return Result(Outcome.RAN, 1, stderr="node-1 did not start")

    world = World(states, repair=repair)
    await world.live(Reasoner())
    assert world.done == ["restart_node(target=node-1)"]
    assert [one.cause for one in world.diagnoses] == ["process_dead", "configuration_rejected"]
    assert "--nosuch" in world.diagnoses[-1].summary


@pytest.mark.asyncio
async def test_a_start_that_fails_without_a_reason_quotes_what_it_printed() -> None:
    broken = Result(Outcome.RAN, 1, stderr="unit entered the state failed (status=203)")
    world = World(_shop(DEAD), repair=lambda action: broken)
    await world.live(Reasoner())
    assert world.done == ["restart_node(target=node-1)"]
    last = world.diagnoses[-1]
    assert last.cause == "start_fails"
    assert "status=203" in last.summary
    assert any("status=203" in evidence.sentence for evidence in last.evidence[:3])


@pytest.mark.asyncio
async def test_what_a_failed_start_prints_is_the_reason_where_no_log_names_it() -> None:
    broken = Result(Outcome.RAN, 1, stderr='FATAL: unrecognized configuration parameter "nosuch"')
    world = World(_shop(DEAD), repair=lambda action: broken)
    await world.live(Reasoner())
    assert world.diagnoses[-1].cause == "configuration_rejected"
    assert "nosuch" in world.diagnoses[-1].summary


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("cause", "printed"),
    [
        ("port_occupied", "bind on address ('127.0.0.1', 8001): address already in use"),
        ("disk_full", "write /data/wal: no space left on device"),
    ],
)
async def test_the_reason_that_a_failed_start_prints_outweighs_how_the_target_looks(
    cause: str, printed: str
) -> None:
    broken = Result(Outcome.RAN, 1, stderr=f"node-1 did not start: {printed}")
    world = World(_shop(DEAD), repair=lambda action: broken)
    await world.live(Reasoner())
    last = world.diagnoses[-1]
    assert (last.cause, last.target) == (cause, "node-1")
    assert printed.partition(":")[0] in last.summary
    assert world.done == ["restart_node(target=node-1)"]


@pytest.mark.asyncio
async def test_a_process_on_another_port_is_not_restarted() -> None:
    elsewhere = replace(DEAF, listens=True)
    told = briefing(REFUSED)
    moved = tuple(
        replace(target, port=9001) if target.name == "node-1" else target for target in told.targets
    )
    world = World(_shop(elsewhere), replace(told, targets=moved))
    await world.live(Reasoner())
    assert (world.diagnoses[-1].cause, world.done) == ("listens_elsewhere", [])
    sentences = [evidence.sentence for evidence in world.diagnoses[-1].evidence[:3]]
    assert any("listens on 8001, but not on 9001" in sentence for sentence in sentences)


@pytest.mark.asyncio
async def test_a_process_behind_a_forwarder_that_hangs_is_no_process_on_another_port() -> None:
    told = briefing(replace(REFUSED, trouble=Trouble.SILENCE, detail="no answer in time"))
    moved = tuple(replace(target, port=9001) for target in told.targets)
    world = World(_shop(HUNG), replace(told, targets=moved))
    await world.live(Reasoner())
    assert world.diagnoses[0].cause == "process_hung"


def test_causes_of_every_subject_are_where_its_own_are() -> None:
    own = Cause("process_dead", "it is gone", 0.5, kinds=("store",), breaks=("down",))
    ask = Ask(briefing(causes=(own,)), (), Budget())
    suspects = [
        suspect
        for suspect in case_from(ask).belief.weights
        if suspect.cause.name in ("configuration_rejected", "data_missing")
    ]
    assert {suspect.target for suspect in suspects} == {"store"}
    breaks = {suspect.cause.name: suspect.cause.breaks for suspect in suspects}
    # What a log names need not stop a process.
    assert breaks == {"configuration_rejected": ("down",), "data_missing": ()}


@pytest.mark.asyncio
async def test_below_even_odds_no_cause_is_called_the_cause() -> None:
    runs = {
        "process": {"alive": 0.97, "dead": 0.01, "stopped": 0.01, "unknown": 0.01},
        "port": {"silent": 0.96, "answers": 0.02, "refused": 0.01, "closed": 0.01},
    }
    rivals = tuple(Cause(f"rival_{letter}", f"{letter} is wrong", 0.9, runs) for letter in "abc")
    world = World(_shop(CUT), briefing(causes=rivals))
    await world.live(Reasoner())
    (diagnosis,) = world.diagnoses
    assert (diagnosis.cause, diagnosis.choice, world.done) == ("unexplained", "escalate", [])
    assert diagnosis.summary.startswith("node-1: cause not identified.")
    assert all(f"{letter} is wrong (" in diagnosis.summary for letter in "abc")
    assert "`tail -n 200 /var/log/node-1.log`" in diagnosis.summary
    assert "process_dead (the process is running" in diagnosis.summary
    assert diagnosis.hypotheses[0].probability < 0.5


@pytest.mark.asyncio
async def test_one_remedy_for_all_likely_causes_still_runs() -> None:
    restart = Remedy("restart_node", "restart it", "it is away for a moment")
    hangs = {"port": {"silent": 0.96, "answers": 0.02, "refused": 0.01, "closed": 0.01}}
    rivals = tuple(
        Cause(f"rival_{letter}", f"{letter} hangs", 4.0, hangs, (restart,)) for letter in "abc"
    )
    world = World(_shop(HUNG), briefing(causes=rivals))
    await world.live(Reasoner())
    assert world.done[0] == "restart_node(target=node-1)"
    assert world.diagnoses[0].cause.startswith("rival_")


@pytest.mark.asyncio
async def test_alternatives_say_how_much_less_likely_the_evidence_is() -> None:
    world = World(_shop(DEAD))
    await world.live(Reasoner())
    against = [text for other in world.diagnoses[0].alternatives for text in other.against]
    assert any("times less likely)" in text for text in against)


@pytest.mark.asyncio
async def test_a_change_at_the_blamed_target_is_among_the_first_evidence() -> None:
    changes = tuple(
        Change(name, "setting_mode", "revision", "none", NOON, "observation")
        for name in ("store", "node-1")
    )
    world = World(_shop(DEAD), replace(briefing(), changes=changes))
    await world.live(Reasoner())
    first = [evidence.sentence for evidence in world.diagnoses[0].evidence[:3]]
    assert any(text.startswith("node-1: setting_mode changed from 'revision'") for text in first)
    every = [evidence.sentence for evidence in world.diagnoses[0].evidence]
    assert any(text.startswith("store: setting_mode changed") for text in every)


@pytest.mark.asyncio
async def test_what_a_server_or_a_file_shows_as_changed_comes_before_what_followed_from_it() -> (
    None
):
    changes = (
        Change("node-1", "role", "leader", "follower", NOON, "observation"),
        Change("node-1", "port in node.conf", "8001", "9001", NOON, "settings"),
    )
    world = World(_shop(DEAD), replace(briefing(), changes=changes))
    await world.live(Reasoner())
    diagnosis = world.diagnoses[0]
    assert diagnosis.evidence[1].sentence.startswith("node-1: port in node.conf changed")
    assert "Before that, node-1: port in node.conf changed from '8001'" in diagnosis.summary


@pytest.mark.asyncio
async def test_the_reading_that_tells_rivals_apart_is_among_the_first_lines() -> None:
    world = World(_shop(TAKEN))
    await world.live(Reasoner())
    (diagnosis,) = world.diagnoses
    assert diagnosis.cause == "port_occupied"
    lines = [evidence.sentence for evidence in diagnosis.evidence[:3]]
    assert any("answers" in line for line in lines)


@pytest.mark.asyncio
async def test_all_is_asked_before_a_person_is_called() -> None:
    world = World(_shop(TAKEN))
    await world.live(Reasoner())
    asked = {
        call.command.split()[0]
        for answer in world.answers
        for call in answer.calls
        if isinstance(call, Action)
    }
    assert {"ps", "tail", "df", "cat", "ls"} <= asked


@pytest.mark.asyncio
async def test_the_parts_of_what_has_no_process_are_asked() -> None:
    members = tuple(replace(each, depends_on=("cluster",)) for each in SHOP)
    lost = replace(violation("cluster"), detail="quorum lost", trouble=Trouble.QUORUM)
    seen = (Seen("node-1", {"reachable": False}), Seen("node-2", {"reachable": True}))
    told = replace(
        briefing(lost, targets=(*members, Target("cluster", "cluster"))),
        observation=Observation("shop", NOON, seen),
    )
    world = World(_shop(PAUSED), told)
    await world.live(Reasoner())
    (diagnosis,) = world.diagnoses
    assert (diagnosis.target, world.done) == ("cluster", [])
    assert "node-1: the process is stopped (state T)" in diagnosis.summary
    assert diagnosis.evidence[0].sentence.startswith("node-1: the process is stopped")


def test_what_ends_a_process_breaks_what_a_dead_process_breaks() -> None:
    dead = Cause(
        "process_dead", "it is gone", 0.5, breaks=("store_reachable",), shows={"up": False}
    )
    told = replace(
        briefing(causes=(dead,)),
        observation=Observation("shop", NOON, (Seen("node-1", {"up": False}),)),
    )
    full = _reading("df -Pk /var/lib/node-1", "tmpfs 65536 65536 0 100% /var/lib/node-1\n")
    gone = _reading("ps -o pid= -p 4711", "", exit_code=1)
    space = _reading("tail -n 200 x", "ERROR write: No space left on device\n")
    belief = case_from(Ask(told, (gone, full, space), Budget())).belief
    assert belief.rank()[0][0].cause.name == "disk_full"


CHANGES = (
    Change("node-1", "listens on", "8001", "2379", NOON, "process"),
    Change("node-1", "node.yml", "mode 0600", "mode 0600, empty", NOON, "files"),
)


def test_a_finding_that_one_cause_explains_comes_before_one_that_all_explain() -> None:
    removed = Cause("removed", "it was removed", 0.5, breaks=("node_down", "node_removed"))
    gone = Cause("process_dead", "it is gone", 0.1, breaks=("node_down",))
    struck = replace(REFUSED, invariant="node_removed", detail="not in the list", trouble=None)
    down = replace(REFUSED, invariant="node_down")
    told = replace(briefing(down, struck, causes=(removed, gone)), changes=CHANGES[:1])
    case = case_from(Ask(told, (), Budget()))
    lines = [line.sentence for line in diagnose(case, None).evidence]
    assert lines.index("node-1: not in the list") < lines.index("node-1: 127.0.0.1:8001: refused")


def test_of_two_alike_the_target_that_was_changed_is_blamed() -> None:
    split = Cause("two_writers", "two write", 0.5, kinds=("node",), breaks=("two_writers",))
    both = [
        replace(REFUSED, target=name, invariant="two_writers", detail="two", trouble=None)
        for name in ("node-1", "node-2")
    ]
    told = briefing(*both, causes=(split,))
    for name in ("node-1", "node-2"):
        change = Change(name, "main/standby.signal", "mode 0644, empty", "removed", NOON, "files")
        case = case_from(Ask(replace(told, changes=(change,)), (), Budget()))
        diagnosis = diagnose(case, None)
        assert diagnosis.target == name
        assert any("standby.signal" in line.sentence for line in diagnosis.evidence[:3])


def test_a_cause_comes_before_its_consequence() -> None:
    case = case_from(Ask(replace(briefing(REFUSED), changes=CHANGES), (), Budget()))
    diagnosis = diagnose(case, None)
    assert "Before that, node-1: node.yml changed" in diagnosis.summary
    assert any("node.yml" in line.sentence for line in diagnosis.evidence[:2])


@pytest.mark.parametrize(
    "change",
    [
        CHANGES[0],
        Change("node-1", "port in node.conf", "8001", "2379", NOON, "settings"),
        Change("node-1", "listen-client-urls in node.yml", "a:8001", "a:9", NOON, "settings"),
    ],
)
def test_a_young_process_that_moved_to_another_port_is_not_awaited(change: Change) -> None:
    young = _reading("ps -o pid=,stat=,etimes=,args= -p 4711", "4711 Ss 2 node\n")
    told = briefing(REFUSED)
    causes = {
        found.belief.rank()[0][0].cause.name
        for found in (
            case_from(Ask(told, (young,), Budget())),
            case_from(Ask(replace(told, changes=(change,)), (young,), Budget())),
        )
    }
    assert causes == {"process_starting", "listens_elsewhere"}


def test_a_process_that_listens_on_part_of_its_ports_is_still_starting() -> None:
    fewer = replace(CHANGES[0], before="8001, 8002", after="8002")
    young = _reading("ps -o pid=,stat=,etimes=,args= -p 4711", "4711 Ss 2 node\n")
    case = case_from(Ask(replace(briefing(REFUSED), changes=(fewer,)), (young,), Budget()))
    assert case.belief.rank()[0][0].cause.name == "process_starting"


def test_that_an_exited_process_listens_nowhere_is_no_change() -> None:
    exited = replace(CHANGES[0], after="")
    case = case_from(Ask(replace(briefing(REFUSED), changes=(exited,)), (), Budget()))
    assert "listens on" not in diagnose(case, None).summary


def test_what_was_read_of_a_replaced_process_says_nothing_of_the_new_one() -> None:
    gone = _reading("ps -o pid=,stat=,etimes=,args= -p 4000", "", exit_code=1)
    taken = replace(gone, want=Act(Action("check_port", {}, target="node-1", reasoning="to know")))
    case = case_from(Ask(briefing(REFUSED), (taken, gone), Budget()))
    assert case.readings == ()
    again = _reading("ps -o pid=,stat=,etimes=,args= -p 4711", "4711 Ss 2 node\n")
    case = case_from(Ask(briefing(REFUSED), (taken, gone, again), Budget()))
    assert [reading.outcome for reading in case.readings] == ["starting"]


def _reading(command: str, printed: str, *, exit_code: int = 0) -> Step:
    action = Action.shell(command, target="node-1", reasoning="to know")
    return Step(Act(action), Result(Outcome.RAN, exit_code, printed))


def test_what_is_said_of_another_target_does_not_rule_a_cause_out() -> None:
    denied = replace(violation("store"), trouble=Trouble.CREDENTIAL, detail="login rejected")
    causes = {
        violations: case_from(Ask(briefing(*violations), (), Budget())).belief.rank()[0][0]
        for violations in ((denied,), (denied, REFUSED))
    }
    assert {(suspect.cause.name, suspect.target) for suspect in causes.values()} == {
        ("credential_refused", "store")
    }
