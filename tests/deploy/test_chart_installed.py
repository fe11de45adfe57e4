"""Helm installs the chart into a real API server, which accepts every object; upgrades; uninstalls.

No pod runs there: the API server has nothing behind it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.api_server import running_api_server
from tests.deploy.test_chart import CHART, EVERYTHING
from tests.tools.helm import helm

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(600)]
ACCOUNT = "system:serviceaccount:default:shop"
KINDS = "statefulset,deployment,service,configmap,networkpolicy,ingress"


def test_a_real_api_server_accepts_the_chart(tmp_path: Path) -> None:
    program = helm()
    if program is None:
        pytest.skip("there is no Helm: python -m tests.tools.helm")
    everything = {**EVERYTHING, "monitoring": {"podMonitor": False}}  # it is a kind of others
    with running_api_server(tmp_path) as server:

        def change(verb: str, values: Mapping[str, object]) -> None:
            file = tmp_path / "values.yaml"
            file.write_text(yaml.safe_dump(dict(values)))
            done = server.run(program, verb, "shop", CHART, "--values", file)
            assert done.returncode == 0, done.stderr

        def kinds() -> set[str]:
            told: dict[str, Any] = json.loads(server.kubectl("get", KINDS, "--output=json"))
            names = {each["kind"] for each in told["items"] if "shop" in each["metadata"]["name"]}
            return {str(name) for name in names}

        change("install", {})
        assert kinds() == {"StatefulSet", "ConfigMap", "NetworkPolicy"}
        assert server.kubectl("auth", "can-i", "list", "pods", f"--as={ACCOUNT}") == "no\n"
        change("upgrade", everything)
        assert kinds() == {"Deployment", "Service", "ConfigMap", "NetworkPolicy", "Ingress"}
        for verb, kind, answer in (
            ("list", "pods", "yes"),
            ("list", "nodes", "yes"),
            ("delete", "pods", "no"),
            ("get", "secrets", "no"),
        ):
            told = server.kubectl("auth", "can-i", verb, kind, f"--as={ACCOUNT}")
            assert told.split()[0] == answer, (verb, kind, told)
        done = server.run(program, "uninstall", "shop")
        assert done.returncode == 0, done.stderr
        assert kinds() == set()
