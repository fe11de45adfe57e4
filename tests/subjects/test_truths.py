"""What rightly explains each fault is known, and is a cause that somebody can name."""

from __future__ import annotations

from operator_sre.models.reasoner.causes import GENERIC
from operator_sre.plugins import find_plugin, plugin_names


def test_every_fault_has_a_truth_and_every_truth_is_a_known_cause() -> None:
    generic = {cause.name for cause in GENERIC}
    rigs = [find_plugin(name) for name in plugin_names() if find_plugin(name).faults]
    assert len(rigs) >= 3
    for plugin in rigs:
        assert set(plugin.truths) == {fault.name for fault in plugin.faults}, plugin.name
        known = generic | {cause.name for cause in plugin.causes}
        for fault, truths in plugin.truths.items():
            assert truths, fault
            for truth in truths:
                cause, _, place = truth.partition("@")
                assert cause in known, (plugin.name, fault, truth)
                # Or a target that is no part of the rig, as it is named in observations.
                named = place == "cluster" or "/" in place
                assert place in {"hit", "any"} or named, (plugin.name, fault, truth)
