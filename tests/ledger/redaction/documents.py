"""Where secrets stand in documents: JSON, YAML, tables, manifests, keys, comments."""

from __future__ import annotations

import base64
import json
import random

from tests.ledger.redaction.making import (
    HOSTS,
    USERS,
    WORDS,
    Made,
    bearer,
    context,
    password,
    phrase,
    stamp,
    styled,
)
from tests.ledger.redaction.places import name_words, secret_for

__all__: list[str] = []


def _parts(text: str, written: str) -> tuple[str, str]:
    before, _, after = text.partition(written)
    return before, after


def _named(chance: random.Random) -> tuple[str, str]:
    words = name_words(chance)
    name = styled(chance, words)
    return name, secret_for(chance, name)


@context("json")
def _json(chance: random.Random) -> Made:
    name, secret = _named(chance)
    document: dict[str, object] = {
        "level": "info",
        "msg": phrase(chance),
        name: secret,
        "port": chance.randint(1, 65535),
    }
    if chance.random() < 0.4:
        document = {"ts": chance.random(), "request": {"body": document, "ok": True}}
    indent = chance.choice([None, None, 2])
    text = stamp(chance) + json.dumps(document, indent=indent)
    written = json.dumps(secret)[1:-1]
    return _parts(text, written)[0], written, _parts(text, written)[1], secret


@context("json_escaped")
def _json_escaped(chance: random.Random) -> Made:
    name, secret = _named(chance)
    inner: object = {"user": chance.choice(USERS), name: secret, "ok": True}
    written = json.dumps(secret)[1:-1]
    for _ in range(chance.randint(1, 2)):
        inner = {"level": "debug", "message": json.dumps(inner)}
        written = json.dumps(written)[1:-1]
    before, after = _parts(json.dumps(inner), written)
    return before, written, after, secret


@context("yaml")
def _yaml(chance: random.Random) -> Made:
    name, secret = _named(chance)
    indent = " " * chance.choice([0, 2, 4, 8])
    head = f"{indent}host: {chance.choice(HOSTS)}\n{indent}{name}: "
    tail = f"\n{indent}port: {chance.randint(1, 65535)}\n"
    if chance.random() < 0.5 or set(secret) & set("#&*!%@`:{}[],"):
        mark = chance.choice(['"', "'"])
        return head + mark, secret, mark + tail, secret
    return head, secret, tail, secret


@context("properties")
def _properties(chance: random.Random) -> Made:
    name, secret = _named(chance)
    form = chance.randrange(4)
    if form == 0:
        return f"[{chance.choice(WORDS)}]\n{name} = ", secret, "\ntimeout = 30\n", secret
    if form == 1:
        return f'  {name} = "', secret, '"\n  port = 5432\n', secret
    if form == 2:
        return f"{chance.choice(WORDS)}.host=x\n{name}=", secret, "\nport=1\n", secret
    return f"'{name}' => '", secret, "',\n'port' => 3306,", secret


@context("csv")
def _csv(chance: random.Random) -> Made:
    divider = chance.choice([",", ",", ";", "\t"])
    title = chance.choice(
        ["password", "Password", "api_key", "token", "secret_key", "Access Token"]
    )
    secret = secret_for(chance, title)
    while divider in secret or '"' in secret:
        secret = secret_for(chance, title)
    titles = [chance.choice(["user", "id", "login"]), title, chance.choice(["email", "team"])]
    rows = [titles]
    for _ in range(chance.randint(0, 3)):
        rows.append([chance.choice(USERS), "", chance.choice(WORDS)])
    head = "".join(divider.join(row) + "\n" for row in rows)
    return (
        f"{head}{chance.choice(USERS)}{divider}",
        secret,
        f"{divider}{chance.choice(WORDS)}\n",
        secret,
    )


@context("table")
def _table(chance: random.Random) -> Made:
    title = chance.choice(["password", "token", "api_key", "secret_key"])
    secret = secret_for(chance, title)
    while "|" in secret:
        secret = secret_for(chance, title)
    user = chance.choice(USERS)
    wide = max(len(secret), len(title))
    if chance.random() < 0.5:
        head = f" {'user':14} | {title:{wide}} | team\n{'-' * 16}+{'-' * (wide + 2)}+-----\n"
        return (
            f"{head} {user:14} | ",
            secret,
            f"{' ' * (wide - len(secret))} | ops\n(1 row)\n",
            secret,
        )
    head = f"{'NAME':16}{title.upper():{wide + 3}}AGE\n"
    return f"{head}{user:16}", secret, f"{' ' * (wide + 3 - len(secret))}3d\n", secret


@context("connection_string")
def _connection_string(chance: random.Random) -> Made:
    host, user = chance.choice(HOSTS), chance.choice(USERS)
    secret = password(chance)
    form = chance.randrange(5)
    if form == 0:
        return f"Server={host};Database=x;User Id={user};Password=", secret, ";Encrypt=True", secret
    if form == 1:
        key = base64.b64encode(chance.randbytes(64)).decode()
        head = "DefaultEndpointsProtocol=https;AccountName=store1;AccountKey="
        return head, key, ";EndpointSuffix=core.windows.net", key
    if form == 2:
        while set(secret) & set("' \\"):
            secret = password(chance)
        return f"host={host} port=5432 user={user} password=", secret, " dbname=x", secret
    if form == 3:
        key = base64.b64encode(chance.randbytes(32)).decode()
        head = f"Endpoint=sb://{host}/;SharedAccessKeyName=Root;SharedAccessKey="
        return head, key, ";EntityPath=q", key
    while set(secret) & set("@:/"):
        secret = password(chance)
    return f"dsn {user}:", secret, f"@tcp({host}:3306)/{chance.choice(WORDS)}", secret


@context("comment")
def _comment(chance: random.Random) -> Made:
    secret = chance.choice([password, bearer])(chance)
    while not any(one.isdigit() for one in secret) or len(secret) < 6 or secret[-1] in "!?":
        secret = bearer(chance)
    noun = chance.choice(
        ["password", "passwd", "token", "api key", "pw", "passphrase", "secret key"]
    )
    user = chance.choice(USERS)
    said = chance.choice(
        [
            f"{noun} is ",
            f"{noun}: ",
            f"{noun} for {user} is ",
            f"the {noun} is ",
            f"{noun} was ",
            f"{noun}=",
            f"{noun} -> ",
            f"login with {noun} ",
            f"temp {noun}: ",
            f"creds: {user} / ",
            f"changed {noun} to ",
            f"{noun} of {user}: ",
        ]
    )
    mark = chance.choice(["# ", "// ", "-- ", "/* ", "; ", "<!-- ", "", f"{phrase(chance)}, "])
    end = {"/* ": " */", "<!-- ": " -->"}.get(mark, chance.choice(["", f" ({phrase(chance)})"]))
    return f"{mark}{said}", secret, end, secret


@context("xml")
def _xml(chance: random.Random) -> Made:
    name, secret = _named(chance)
    while set(secret) & set("<>&\"'"):
        name, secret = _named(chance)
    form = chance.randrange(3)
    if form == 0:
        return f"  <{name}>", secret, f"</{name}>", secret
    if form == 1:
        return f'<add key="{name}" value="', secret, '" />', secret
    return f'<server host="x" {name}="', secret, '" port="1"/>', secret


@context("name_value")
def _name_value(chance: random.Random) -> Made:
    name = "_".join(name_words(chance)).upper()
    secret = secret_for(chance, name)
    while set(secret) & set("#\"'\\:{}&*!%@`"):
        secret = secret_for(chance, name)
    form = chance.randrange(3)
    if form == 0:
        return f"        - name: {name}\n          value: ", secret, "\n        - name: A\n", secret
    if form == 1:
        return f'{{"name": "{name}", "value": "', secret, '"}', secret
    return (
        f"      {name}:{' ' * chance.randint(1, 12)}",
        secret,
        "\n      LOG_LEVEL:  info\n",
        secret,
    )


@context("sql")
def _sql(chance: random.Random) -> Made:
    user, secret = chance.choice(USERS), password(chance)
    before = chance.choice(
        [
            f"CREATE USER {user} IDENTIFIED BY '",
            f"ALTER ROLE {user} WITH PASSWORD '",
            f"CREATE USER '{user}'@'%' IDENTIFIED WITH mysql_native_password BY '",
            f"ALTER USER {user} PASSWORD '",
            "SET PASSWORD = '",
        ]
    )
    return f"{stamp(chance)}{before}", secret, "';", secret
