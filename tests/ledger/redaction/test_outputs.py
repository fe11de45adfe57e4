"""What diagnostic commands print is safe to show: their secrets are gone, the rest stays."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from operator_sre.ledger.redaction import Redactor, Stream
from tests.every import every
from tests.ledger.redaction.making import drawn, password, token
from tests.ledger.redaction.operations import pem_base64

EACH = 25
_PLAIN = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"

Make = Callable[[random.Random], tuple[str, list[str]]]


def _simple(chance: random.Random) -> str:
    """A secret that needs no quotes anywhere."""
    return chance.choice(["Falcon", "s", "0"]) + drawn(chance, _PLAIN, chance.randint(8, 30)) + "7"


def _systemctl_show(chance: random.Random) -> tuple[str, list[str]]:
    one, two, three = _simple(chance), token(chance), _simple(chance)
    return (
        "Type=notify\nRestart=on-failure\n"
        f"Environment=LOG_LEVEL=info DB_PASSWORD={one} API_TOKEN={two} REGION=eu\n"
        f"ExecStart={{ path=/usr/bin/app ; argv[]=/usr/bin/app --password {three} --port 80 ;"
        " ignore_errors=no }\nMainPID=4120\n"
    ), [one, two, three]


def _docker_inspect(chance: random.Random) -> tuple[str, list[str]]:
    one, two, three = password(chance), token(chance), _simple(chance)
    environment = ["PATH=/usr/bin", f"POSTGRES_PASSWORD={one}", f"api_token={two}", "LANG=C"]
    command = ["redis-server", "--port", "6379", "--requirepass", three]
    if chance.random() < 0.5:
        command = ["mysql", "-h", "6379", f"-p{three}", "-e", "select 1"]
    document = [{"Id": "0f3a", "Config": {"Env": environment, "Cmd": command, "Tty": False}}]
    text = json.dumps(document, indent=chance.choice([4, None]))
    return text, [json.dumps(one)[1:-1], two, three]


def _pod_yaml(chance: random.Random) -> tuple[str, list[str]]:
    one, two, three = _simple(chance), token(chance), _simple(chance)
    return (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - args:\n"
        f"    - --api-token\n    - {two}\n"
        f"    env:\n    - name: DB_PASSWORD\n      value: {one}\n    - name: LOG_LEVEL\n"
        f'      value: debug\n    - name: REDIS_AUTH_TOKEN\n      value: "{three}"\n'
        "    image: app:1.2\n"
    ), [one, two, three]


def _pod_json(chance: random.Random) -> tuple[str, list[str]]:
    one, two = password(chance), token(chance)
    environment = [{"name": "DB_PASSWORD", "value": one}, {"name": "A", "value": "b"}]
    environment.append({"value": two, "name": "API_TOKEN"})
    document = {"kind": "Pod", "spec": {"containers": [{"env": environment, "image": "app:1.2"}]}}
    return json.dumps(document, indent=chance.choice([4, None])), [json.dumps(one)[1:-1], two]


def _kubeconfig(chance: random.Random) -> tuple[str, list[str]]:
    key, one, two = pem_base64(chance), token(chance), _simple(chance)
    return (
        "apiVersion: v1\nclusters:\n- cluster:\n    server: https://10.0.0.1:6443\n  name: prod\n"
        f"users:\n- name: admin\n  user:\n    client-key-data: {key}\n    token: {one}\n"
        f"    password: {two}\n    username: admin\n"
    ), [key, one, two]


def _journal(chance: random.Random) -> tuple[str, list[str]]:
    one, two, three = _simple(chance), token(chance), _simple(chance)
    coloured = f"\x1b[32mINFO\x1b[0m \x1b[36mpassword\x1b[0m={three} user=bob"
    lines = [
        {"_SYSTEMD_UNIT": "app.service", "MESSAGE": f"login failed, password={one}", "_PID": "7"},
        {"_CMDLINE": f"/usr/bin/app --api-token {two} --port 80", "MESSAGE": "started"},
        {"MESSAGE": list(coloured.encode()), "PRIORITY": "6"},
    ]
    numbers = ", ".join(map(str, three.encode()))
    return "\n".join(map(json.dumps, lines)) + "\n", [one, two, numbers]


def _show_all(chance: random.Random) -> tuple[str, list[str]]:
    one = _simple(chance)
    return (
        "       name       |            setting             | description \n"
        "------------------+--------------------------------+-------------\n"
        f" port             | 5432  | Sets the TCP port the server listens on.\n"
        f" primary_conninfo | host=10.0.0.2 user=replica password={one} sslmode=prefer | Sets it.\n"
        " work_mem         | 4MB | Sets the maximum memory to be used.\n"
    ), [one]


def _helm_values(chance: random.Random) -> tuple[str, list[str]]:
    one, two, three = _simple(chance), token(chance), _simple(chance)
    return (
        f"USER-SUPPLIED VALUES:\nauth:\n  adminUser: admin\n  adminPassword: {one}\n"
        f"ingress:\n  enabled: true\nsmtp:\n  apiKey: {two}\n"
        f"database:\n  url: postgres://app:{three}@db:5432/app\nreplicaCount: 2\n"
    ), [one, two, three]


def _cloud_init(chance: random.Random) -> tuple[str, list[str]]:
    one, two = _simple(chance), _simple(chance)
    return (
        "ci-info: no authorized SSH keys fingerprints found for user ada.\n"
        f"Set the following 'random' passwords\nada:{one}\nbob:{two}\n"
        "Cloud-init v. 20.1 finished at Mon, 02 Jun 2025 10:00:00 +0000\n"
    ), [one, two]


OUTPUTS: list[Make] = [
    *(_systemctl_show, _docker_inspect, _pod_yaml, _pod_json, _kubeconfig, _journal),
    *(_show_all, _helm_values, _cloud_init),
]


def _sample(make: Make, seed: int) -> tuple[str, list[str]]:
    return make(random.Random(f"{make.__name__} {seed}"))


@every("make", OUTPUTS)
def test_no_secret_of_an_output_can_be_read(redactor: Redactor, make: Make) -> None:
    for seed in range(EACH):
        text, secrets = _sample(make, seed)
        redacted = redactor.text(text)
        assert all(secret in text for secret in secrets)
        assert [secret for secret in secrets if secret in redacted] == [], redacted


@every("make", OUTPUTS)
def test_nor_when_the_output_comes_line_by_line(redactor: Redactor, make: Make) -> None:
    for seed in range(EACH):
        text, secrets = _sample(make, seed)
        stream = Stream(redactor)
        redacted = "".join(map(stream.feed, text.splitlines(keepends=True))) + stream.end()
        assert [secret for secret in secrets if secret in redacted] == [], redacted


@every(
    ("make", "kept"),
    [
        (_systemctl_show, "LOG_LEVEL=info REGION=eu MainPID=4120 --port 80"),
        (_docker_inspect, "PATH=/usr/bin LANG=C 6379"),
        (_pod_yaml, "debug app:1.2 DB_PASSWORD"),
        (_pod_json, "app:1.2 DB_PASSWORD"),
        (_kubeconfig, "https://10.0.0.1:6443 prod"),
        (_journal, "app.service PRIORITY started"),
        (_show_all, "host=10.0.0.2 user=replica 4MB 5432"),
        (_helm_values, "adminUser: @db:5432/app replicaCount:"),
        (_cloud_init, "ada: bob: finished 20.1"),
    ],
)
def test_the_rest_of_an_output_stays(redactor: Redactor, make: Make, kept: str) -> None:
    for seed in range(EACH):
        redacted = redactor.text(_sample(make, seed)[0])
        assert all(word in redacted for word in kept.split())


def test_json_stays_json(redactor: Redactor) -> None:
    for seed in range(EACH):
        (inspected,) = json.loads(redactor.text(_sample(_docker_inspect, seed)[0]))
        assert "PATH=/usr/bin" in inspected["Config"]["Env"]
        assert json.loads(redactor.text(_sample(_pod_json, seed)[0]))["kind"] == "Pod"
        lines = redactor.text(_sample(_journal, seed)[0]).splitlines()
        assert [sorted(json.loads(line))[0] for line in lines] == ["MESSAGE", "MESSAGE", "MESSAGE"]
