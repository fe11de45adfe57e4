"""Cases in the shape of Cloud-OpsBench, worked on by minds from the answers cached with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from operator_evals.app import replays
from operator_evals.app.replays import replay_cases, tally
from operator_evals.cases import CASE, Case, cases_in, causes_around, recording_of
from operator_evals.kubectl import normal_form
from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.diagnosis import Alternative, Diagnosis, Evidence, Hypothesis
from operator_protocols.domain.health import Severity
from operator_protocols.domain.run import Answer, Ask, Diagnose, Escalate
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.app.wiring import App, open_app
from operator_sre.config import load_config

CACHE: Mapping[str, object] = {
    "collection_timestamp": "2025-11-28T15:33:20.568512",
    'GetResources:{"resource_type":"pods","name":"","namespace":"shop"}': "cart 1/1 Running",
    'GetResources:{"resource_type":"pods","name":"cart-1","namespace":"shop"}': "cart-1 Running",
    'GetResources:{"resource_type":"pods","name":"","namespace":"shop","output_wide":true}': "wide",
    'GetAppYAML:{"app_name":"ads"}': "serviceAccountName: nobody",
    'GetRecentLogs:{"namespace":"shop","service_name":"cart"}': "no answer from ads",
    'CheckNodeServiceStatus:{"node_name":"worker-01","service_name":"kubelet"}': "active",
    'CheckServiceConnectivity:{"service_name":"ads","port":9555,"namespace":"shop"}': "refused",
    'ListCodeFiles:{"app_name":"ads"}': {"files": [{"path": "main.go"}]},
    "GetAlerts:{}": "ads is not there",
}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """A home without anything in it."""
    home = tmp_path / "home"
    home.mkdir()
    config = load_config(flags={"home": str(home)}, environ={}, cwd=home)
    with open_app(config) as app:
        yield app


def _write(folder: Path, cause: str, hit: str, cache: object = CACHE) -> None:
    folder.mkdir(parents=True)
    result = {"fault_taxonomy": "Admission_Fault", "fault_object": hit, "root_cause": cause}
    told = {"namespace": "shop", "query": "Some pages fail.", "result": result}
    (folder / CASE).write_text(json.dumps(told))
    (folder / "tool_cache.json").write_text(json.dumps(cache))


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    """Three cases of two categories, as the repository has them."""
    root = tmp_path / "benchmark"
    _write(root / "shop/admission/2", "missing_service_account", "app/ads")
    _write(root / "shop/admission/10", "missing_service_account", "app/cart")
    _write(root / "shop/infrastructure/1", "kubelet_unavailable", "node/worker-01")
    return root


class _Student:
    """A mind that asks once, and then says the same of every case."""

    name = "student"

    def __init__(self) -> None:
        self.asks: list[Ask] = []

    async def answer(self, ask: Ask) -> Answer:
        """Three questions, then a diagnosis with two hypotheses."""
        self.asks.append(ask)
        if not ask.turns:
            return Answer(
                "look",
                (
                    Action("GetResources", {"resource_type": "pods"}),
                    Action("GetAppYAML", {"app_name": "ads"}),
                    Action("GetAppYAML", {"app_name": "nowhere"}),
                    Action.shell("kubectl get pods"),
                ),
            )
        said = Diagnosis(
            cause="missing_service_account",
            target="ads",
            summary="ads has no account.",
            severity=Severity.CRITICAL,
            confidence=0.9,
            timeline=(),
            affected=("ads",),
            evidence=(Evidence("its pods are not there"),),
            hypotheses=(
                Hypothesis("missing_service_account", "ads", 0.9),
                Hypothesis("missing_service_account", "cart", 0.1),
            ),
            alternatives=(Alternative("kubelet_unavailable", "worker-01", (), (), "active"),),
            options=(),
            choice="",
            why="",
        )
        return Answer("sure", (Diagnose(said), Escalate("It is told.")))


def test_every_case_is_worked_on_and_scored(
    app: App, benchmark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mind = _Student()
    monkeypatch.setattr(replays, "mind_of", lambda app: mind)
    heard: list[str] = []
    done = asyncio.run(
        replay_cases(app, benchmark, "auto", tell=lambda one: heard.append(one.recording))
    )
    names = ["shop/admission/2", "shop/admission/10", "shop/infrastructure/1"]
    assert [one.recording for one in done] == heard == names
    assert [one.score.cause_right for one in done] == [True, False, False]
    assert [one.score.component_at_1 for one in done] == [True, False, False]
    assert [one.score.component_at_3 for one in done] == [True, True, False]
    counted = tally(done)
    assert (counted.joint.count, counted.component_at_3.count, counted.failed) == (1, 2, 0)
    assert [one.refused for one in done] == [2, 2, 2]
    results = [step.result for step in mind.asks[1].steps]
    texts = [one.stdout or one.stderr for one in results if isinstance(one, Result)]
    assert texts[:2] == ["cart 1/1 Running", "serviceAccountName: nobody"]
    assert all("the recording has no result" in text for text in texts[2:])


def test_a_mind_chooses_among_the_causes_of_the_benchmark(benchmark: Path) -> None:
    every = ("kubelet_unavailable", "missing_service_account")
    assert causes_around(benchmark) == every
    # One case alone would tell its own answer.
    assert causes_around(benchmark / "shop" / "admission" / "2") == every
    alone = benchmark.parent / "alone"
    _write(alone / "1", "missing_service_account", "app/ads")
    assert causes_around(alone) == ()


def test_a_case_is_a_recording_with_its_parts_and_tools(benchmark: Path) -> None:
    (case,) = cases_in(benchmark, limit=1)
    assert isinstance(case, Case)
    recording = recording_of(case, causes_around(benchmark))
    (look,) = recording.incidents[0].phases[0].looks
    kinds = {one.name: one.kind for one in look.targets}
    assert kinds == {"ads": "app", "cart": "app", "shop": "namespace", "worker-01": "node"}
    tools = {one.name: one for one in recording.tools}
    assert set(tools) == {key.partition(":")[0] for key in CACHE} - {"collection_timestamp"}
    assert not any(one.changes for one in tools.values())
    assert tools["CheckServiceConnectivity"].parameters[1].type == "integer"
    texts = [one.result.stdout for one in recording.incidents[0].phases[0].answers]
    assert any("main.go" in text for text in texts)


def test_the_built_in_minds_get_through_a_case(app: App, benchmark: Path) -> None:
    for model, right in (("oracle", True), ("none", False), ("reasoner", None)):
        (done,) = asyncio.run(replay_cases(app, benchmark, model, limit=1))
        assert done.problem == ""
        assert right is None or done.score.cause_right is right, model


def test_what_is_no_case_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no folder"):
        list(cases_in(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="no case"):
        list(cases_in(tmp_path))
    bad: list[tuple[str, str, object, str]] = [
        ("", "app/ads", CACHE, "no root_cause"),
        ("a cause\x1b[31m", "app/ads", CACHE, "no root_cause"),
        ("cause", "", CACHE, "no fault_object"),
        ("cause", "app/ads", [], "not a table of answers"),
        ("cause", "app/ads", {"GetAlerts:{": "x"}, "an answer without a question"),
        ("cause", "app/ads", {'GetAlerts:{"a":{"b":1}}': "x"}, "an answer without a question"),
    ]
    for number, (cause, hit, cache, why) in enumerate(bad):
        _write(tmp_path / str(number), cause, hit, cache)
        with pytest.raises(UsageError, match=why) as caught:
            list(cases_in(tmp_path / str(number)))
        assert "\n" not in str(caught.value)
    for text in ('{"result": 7}', "[]", "{", "[" * 100_000):
        (tmp_path / "0" / CASE).write_text(text)
        with pytest.raises(UsageError):
            list(cases_in(tmp_path / "0"))


class _Typist:
    """A mind that writes the same question in its own words, and one that must never run."""

    name = "typist"

    def __init__(self) -> None:
        self.asks: list[Ask] = []

    async def answer(self, ask: Ask) -> Answer:
        """Asks kubectl, and gives up."""
        self.asks.append(ask)
        if ask.turns:
            return Answer("", (Escalate("I do not know."),))
        commands = ("kubectl -n shop get po -owide", "kubectl get pod/cart -n other", "rm -rf /")
        return Answer("", tuple(Action.shell(command) for command in commands))


def test_commands_of_kubectl_are_judged_and_answered_from_the_case(
    app: App, benchmark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = benchmark / "shop/admission/2/raw_data"
    place.mkdir()
    states = {"kubectl get pods -n shop  -o wide": "cart-1 Pending", "kubectl get nodes": None}
    (place / "k8s_states.json").write_text(json.dumps(states))
    mind = _Typist()
    monkeypatch.setattr(replays, "mind_of", lambda app: mind)
    (done,) = asyncio.run(replay_cases(app, benchmark, "auto", limit=1))
    known, unknown, dangerous = (step.result for step in mind.asks[1].steps)
    assert isinstance(known, Result)
    assert known.stdout == "cart-1 Pending"
    assert isinstance(unknown, Result)
    assert "the recording has no result" in unknown.stderr
    assert isinstance(dangerous, Result)
    assert "the recording has no result" not in dangerous.stderr
    assert (done.refused, done.score.commands, done.score.unsafe) == (1, 1, 1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("kubectl get po -n a -owide", "kubectl -n=a get pods -o wide"),
        ("kubectl get deploy/cart -n a", "kubectl get deployments cart --namespace a"),
        ("kubectl describe no worker-01 -n a", "kubectl describe node worker-01"),
        ("kubectl get svc,po -A", "kubectl get services,pods --all-namespaces"),
        ("kubectl logs cart-1 -p --tail 9", "kubectl logs --tail=9 --previous cart-1"),
    ],
)
def test_the_same_question_to_kubectl_has_one_form(first: str, second: str) -> None:
    assert normal_form(first.split()) == normal_form(second.split())


def test_different_questions_to_kubectl_stay_different() -> None:
    commands = ("get po -n a", "get po -n b", "get po -n a -o wide", "get po x -n a", "get po -A")
    forms = {normal_form(f"kubectl {command}".split()) for command in commands}
    assert len(forms) == len(commands)


def test_the_tally_has_a_row_for_each_cause(app: App, benchmark: Path) -> None:
    done = asyncio.run(replay_cases(app, benchmark, "oracle"))
    rows = tally(done).by_cause
    assert [(row.cause, row.of, row.joint) for row in rows] == [
        ("kubelet_unavailable", 1, 1),
        ("missing_service_account", 2, 2),
    ]
