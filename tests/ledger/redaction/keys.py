"""Where keys and tokens stand: PEM, JWT, kubeconfig, docker, Kubernetes, vendors' formats."""

from __future__ import annotations

import base64
import random

from tests.ledger.redaction.making import (
    HOSTS,
    USERS,
    WORDS,
    Made,
    bearer,
    context,
    crypt_hash,
    drawn,
    jwt,
    password,
    pem_lines,
    phrase,
    stamp,
    token,
    vendor_token,
)

__all__: list[str] = []


@context("pem")
def _pem(chance: random.Random) -> Made:
    label, lines = pem_lines(chance)
    indent = " " * chance.choice([0, 0, 4])
    body = f"\n{indent}".join(lines)
    lead = chance.choice(["", f"{phrase(chance)}\n", "tls.key: |\n"])
    before = f"{lead}{indent}-----BEGIN {label}-----\n{indent}"
    return before, body, f"\n{indent}-----END {label}-----\n{phrase(chance)}\n", body


@context("pem_one_line")
def _pem_one_line(chance: random.Random) -> Made:
    label, lines = pem_lines(chance)
    body = "\\n".join(lines)
    name = chance.choice(["private_key", "key", "tls", "data"])
    return (
        f'{{"type":"service_account","{name}":"-----BEGIN {label}-----\\n',
        body,
        f'\\n-----END {label}-----\\n","client_id":"1"}}',
        body,
    )


@context("jwt")
def _jwt(chance: random.Random) -> Made:
    secret = jwt(chance)
    return (
        f"{stamp(chance)}{phrase(chance)} {chance.choice(['', '(', 'jwt='])}",
        secret,
        f" {phrase(chance)}",
        secret,
    )


@context("kubeconfig")
def _kubeconfig(chance: random.Random) -> Made:
    name = chance.choice(["client-key-data", "token", "password", "id-token", "refresh-token"])
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{drawn(chance, 'abcDEF123', 200)}".encode()
    secret = {
        "client-key-data": base64.b64encode(key).decode(),
        "password": password(chance).replace("#", "1").replace(":", "2"),
    }.get(name, bearer(chance))
    head = f"apiVersion: v1\nkind: Config\nusers:\n- name: {chance.choice(USERS)}\n  user:\n"
    return f"{head}    {name}: ", secret, "\ncontexts: []\n", secret


@context("docker_auth")
def _docker_auth(chance: random.Random) -> Made:
    pair = f"{chance.choice(USERS)}:{password(chance)}"
    secret = base64.b64encode(pair.encode()).decode()
    space = chance.choice(["", " ", "\n      "])
    return (
        f'{{"auths":{{"{chance.choice(HOSTS)}":{{{space}"auth":{space[:1].strip()} "',
        secret,
        '"}}}',
        secret,
    )


@context("k8s_secret")
def _k8s_secret(chance: random.Random) -> Made:
    secret = base64.b64encode(password(chance).encode()).decode()
    name = chance.choice([*WORDS, "tls.key", "config.json", "DB_PASS", "cookie"])
    entry = f"data:\n  {name}: "
    kind = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\n"
    form = chance.randrange(4)
    if form == 0:
        return f"{kind}type: Opaque\n{entry}", secret, "\n", secret
    if form == 1:
        return f"apiVersion: v1\n{entry}", secret, "\nkind: Secret\nmetadata:\n  name: x\n", secret
    if form == 2:
        return (
            f'{{"apiVersion":"v1","data":{{"{name}":"',
            secret,
            '"},"kind":"Secret","metadata":{"name":"x"}}',
            secret,
        )
    head = f'{{\n  "apiVersion": "v1",\n  "data": {{\n    "{name}": "'
    return head, secret, '"\n  },\n  "kind": "Secret",\n  "type": "Opaque"\n}\n', secret


@context("vendor")
def _vendor(chance: random.Random) -> Made:
    secret = vendor_token(chance)
    lead, end = chance.choice(
        [("", ""), ("`", "`"), ('"', '"'), ("(", ")"), ("=", ""), ("\\n", "\\n")]
    )
    return (f"{stamp(chance)}{phrase(chance)} {lead}", secret, f"{end} {phrase(chance)}", secret)


@context("shadow")
def _shadow(chance: random.Random) -> Made:
    secret = crypt_hash(chance)
    tail = chance.choice([f":{chance.randint(18000, 20000)}:0:99999:7:::", "", "\n"])
    return f"{chance.choice(USERS)}:", secret, tail, secret


@context("config_file")
def _config_file(chance: random.Random) -> Made:
    host, user = chance.choice(HOSTS), chance.choice(USERS)
    secret = token(chance).replace(":", "1")
    before = chance.choice(
        [
            f"machine {host} login {user} password ",
            "requirepass ",
            "masterauth ",
            "//registry.example.com/:_authToken=",
            f"{host}:5432:app:{user}:",
        ]
    )
    return before, secret, "\n", secret
