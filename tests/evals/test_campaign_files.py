"""Campaigns and variants as files: what they say, and every mistake before the first trial."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from operator_evals.app.campaigns import (
    Wanted,
    campaign_from_file,
    campaign_of,
    check_campaign,
    database_path,
    ledger_folder,
)
from operator_evals.app.trial_rig import Job, config_of_trial, model_of, settings_for
from operator_evals.campaign import (
    BUDGET,
    BUILT_IN,
    FOLDER,
    Control,
    Mind,
    Variant,
    budgets_of,
    read_variant,
    settings_of,
    variant_from,
    variant_named,
)
from operator_evals.campaign_file import plan_trials, read_campaign, scenarios_of, variant_folders
from operator_protocols.errors import MissingProgramError, OperatorError
from operator_sre.config import load_config
from operator_sre.plugins import find_plugin, plugin_names

ROOT = Path(__file__).parents[2]


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> set[str]:
    """The subjects whose rigs come with the extra `lab`, where there are no other servers."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TIUP_HOME", str(tmp_path))
    found = set()
    for name in plugin_names():
        brought = find_plugin(name).rig
        with contextlib.suppress(MissingProgramError):
            # What is built from source first is not embedded either.
            if brought is not None and not brought().builds:
                found.add(name)
    return found


def test_the_reference_campaign_has_what_it_promises(embedded: set[str]) -> None:
    found = read_campaign(ROOT / "evals" / "reference.toml")
    rigs = embedded
    assert len(rigs) >= 3
    assert {one.subject for one in found.scenarios} == rigs
    assert {one.subject for one in found.scenarios if one.fault == Control.NOTHING} == rigs
    assert {one.fault for one in found.scenarios if one.is_control} == {*Control}
    assert 38 <= len(found.scenarios) <= 52
    faults = [one for one in found.scenarios if not one.is_control]
    assert 0.25 <= sum(one.apart for one in faults) / len(faults) <= 0.45
    assert found.seeds == {
        "reasoner": 5,
        **dict.fromkeys(("none", "restart-everything", "random", "oracle"), 2),
    }
    assert len(plan_trials(found)) == len(found.scenarios) * 13


def test_the_smoke_campaign_touches_every_embedded_subject_and_mind(embedded: set[str]) -> None:
    found = read_campaign(ROOT / "evals" / "smoke.toml")
    assert {one.subject for one in found.scenarios} == embedded
    assert {one.name for one in found.variants} == set(BUILT_IN)


def test_what_is_not_embedded_has_a_campaign_of_its_own_with_all_its_faults(
    embedded: set[str],
) -> None:
    plugins = [find_plugin(name) for name in plugin_names()]
    others = {plugin.name for plugin in plugins if plugin.rig and plugin.faults} - embedded
    assert {"kafka", "kubernetes", "tikv"} <= others
    for name in others:
        found = read_campaign(ROOT / "evals" / f"{name}.toml")
        assert found.scenarios == scenarios_of(name)
        own = {each.name for each in find_plugin(name).controls}
        assert {one.fault for one in found.scenarios if one.is_control} == {*Control} | own
        faults = [one for one in found.scenarios if not one.is_control]
        assert len(faults) >= 15
        assert 0.25 <= sum(one.apart for one in faults) / len(faults) <= 0.45
        assert {one.name for one in found.variants} == set(BUILT_IN)


def test_a_campaign_says_the_same_in_toml_and_yaml(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        'name="c"\nsubjects=["etcd","ratelimiter"]\nfaults=["node_kill","nothing"]\nparallel=2\n'
        'variants=["none",{name="own",mind="random",settings={"budget.turns_max"=3}}]\nseeds=3\n'
    )
    (tmp_path / "c.yaml").write_text(
        "name: c\nsubjects: [etcd, ratelimiter]\nfaults: [node_kill, nothing]\nparallel: 2\n"
        "variants: [none, {name: own, mind: random, settings: {budget.turns_max: 3}}]\nseeds: 3\n"
    )
    found = read_campaign(tmp_path / "c.toml")
    assert found == read_campaign(tmp_path / "c.yaml")
    assert len(found.scenarios) == 4
    assert found.seeds == {"none": 3, "own": 3}
    assert campaign_from_file(tmp_path / "c.toml", parallel=5, name="d").parallel == 5


MISTAKES = (
    ("scenarios = ['etcd:nodekill']", "nodekill"),
    ("scenarios = ['shop:node_kill']", "shop"),
    ("subjects = ['etcd']\nfaults = ['melted']", "melted"),
    ("scenarios = ['etcd']\nvariants = ['clever']", "clever"),
    ("scenarios = ['etcd']\nvariants = [{name='x', mind='genius'}]", "genius"),
    ("scenarios = ['etcd']\nvariants = [{name='x', mind='model'}]", "model"),
    ("scenarios = ['etcd']\nvariants = [{name='x', prompt='be good'}]", "prompt"),
    ("scenarios = ['etcd']\nvariants = [{name='x', settings={home='/'}}]", "home"),
    (
        "scenarios = ['etcd']\nvariants = [{name='x', settings={anthropic_api_key='k'}}]",
        "anthropic",
    ),
    ("scenarios = ['etcd']\nvariants = ['none', 'none']", "same name"),
    ("scenarios = ['etcd']\nparallel = 0", "parallel"),
    ("scenarios = ['etcd']\nparallel = true", "parallel"),
    ("scenarios = ['etcd']\nseeds = {unheard = 2}", "unheard"),
    ("scenarios = ['etcd']\nseeds = -1", "seeds"),
    ("scenarios = ['etcd']\nscenario = 1", "scenario"),
    ("name = 'a/../b'\nscenarios = ['etcd']", "name"),
    ("scenarios = [", "cannot be read"),
    ("", "no scenarios"),
)


def test_every_mistake_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    for text, word in MISTAKES:
        path.write_text(text)
        with pytest.raises(OperatorError) as caught:
            read_campaign(path)
        assert word in f"{caught.value.message} {caught.value.next_step}", text


def test_variants_are_files_or_built_in(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    (folder / "small.toml").write_text(
        'mind = "model"\nmodel = "local"\nprompt = "Be brief."\ntools = ["restart_node"]\n'
        "[settings]\nruns_max = 1\n[settings.budget]\nturns_max = 4\n"
    )
    found = variant_named("small", [folder])
    assert found == read_variant(folder / "small.toml")
    assert (found.name, found.mind, found.model) == ("small", Mind.MODEL, "local")
    assert settings_of(found) == {"runs_max": "1"}
    assert budgets_of(found) == {"turns_max": 4.0}
    assert f"{BUDGET}turns_max" in found.settings
    assert variant_named("none", []) is BUILT_IN["none"]
    assert variant_from({"name": "t", "transcript": "x.json"}, "here").mind is Mind.TRANSCRIPT
    assert variant_folders(tmp_path / "c.toml")[0] == folder
    for path in sorted((ROOT / "evals" / FOLDER).glob("*.toml")):
        assert read_variant(path).name == path.stem


def test_what_cannot_work_is_said_before_the_first_trial(tmp_path: Path) -> None:
    (tmp_path / "operator.toml").write_text(
        '[models.far]\nprovider = "anthropic"\nmodel = "claude-sonnet-5"\nkey_env = "NOT_THERE"\n'
        '[models.dear]\nprovider = "anthropic"\nmodel = "claude-sonnet-5"\nkey_env = "THERE"\n'
    )
    environ = {"THERE": "x"}
    config = load_config(flags={"home": str(tmp_path)}, environ=environ, cwd=tmp_path)

    def refused(variant: str, noise: str = "") -> str:
        path = tmp_path / "c.toml"
        path.write_text(f"scenarios=['etcd:node_kill']\nvariants=[{variant}]\nnoise=[{noise}]\n")
        with pytest.raises(OperatorError) as caught:
            check_campaign(config, read_campaign(path))
        return caught.value.message

    assert "key" in refused("{name='x', model='far'}")
    assert "no model" in refused("{name='x', model='unheard'}")
    assert "usd_max" in refused("{name='x', model='dear'}")
    assert "transcript" in refused("{name='x', transcript='/not/there.json'}")
    assert "noise" in refused("'none'", "'etcd:melted'")
    wanted = Wanted("etcd", "node_kill", 2, ("oracle",), baseline=True, seed=7)
    campaign = campaign_of(wanted)
    keys = [one.key for one in check_campaign(config, campaign)]
    assert sorted(keys) == [
        f"etcd:node_kill/{variant}/{seed}" for variant in ("none", "oracle") for seed in (7, 8)
    ]
    assert database_path(config) == tmp_path / "eval.db"
    assert ledger_folder(tmp_path / "eval.db", "c").is_relative_to(tmp_path)


def test_a_trial_has_settings_of_its_own_and_nothing_of_the_user(tmp_path: Path) -> None:
    campaign = campaign_of(Wanted("etcd", "node_kill", variants=("random",)))
    (one,) = plan_trials(campaign)
    job = Job(campaign, one, str(tmp_path), str(tmp_path / "x.bundle"), ("operator",), 0.0)
    job.home.mkdir()
    (tmp_path / "home" / "operator.toml").write_text("")
    config = config_of_trial(job)
    assert config.home == job.home == tmp_path / "home"
    assert job.facts.parent == tmp_path
    assert config.number("interval_s") == campaign.interval_s
    assert settings_for(job)["stable_s"] == f"{campaign.stable_s:g}"
    assert model_of(job.variant, 7) == "random:7"
    assert model_of(BUILT_IN["oracle"], 0) == model_of(BUILT_IN["none"], 0) == ""
    assert model_of(Variant("m", Mind.MODEL, model="claude"), 0) == "claude"
