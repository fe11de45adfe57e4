"""Each place where a secret can stand, by one example: «» encloses what has to go."""

from __future__ import annotations

import re

import pytest

from operator_sre.ledger.redaction import Redactor
from tests.every import every

MARKER = re.compile(r"\[REDACTED:([a-z0-9_]+):[0-9a-f]{8}\]")
PEM = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ"

PLACES = [
    ("password", "export DB_PASSWORD='«two words»'"),
    ("api_key", "API_KEY=«abc123def» ./run.sh"),
    ("password", "postgres://app:«p%40ss»@db:5432/app?sslmode=require"),
    ("password", "redis://:«s3cr3t»@cache:6379/0"),
    ("token", "https://«0f3a9c1d2b4e5f60718293a4b5c6d7e8f9012345»@git.example.com/x.git"),
    ("password", "dsn=app:«hunter2»@tcp(db:3306)/app"),
    ("token", "GET /x?page=2&token=«abc123def456»&sort=asc HTTP/1.1"),
    ("signature", "https://store/c?sv=2024&sig=«aBc%2Bd3F%3D»&se=1"),
    ("token", "Authorization: Bearer «0f3a9c1d2b4e5f60»"),
    ("basic_auth", "authorization: Basic «dXNlcjpodW50ZXIy»"),
    ("api_key", "X-Api-Key: «k1j2h3k4»"),
    ("session", "Set-Cookie: sid=«a1b2c3d4e5f6»; Path=/; HttpOnly"),
    ("password", "mysql -u root -p«hunter2» -h db"),
    ("password", "sudo docker exec db mysql -u root -p«hunter2»"),
    ("password", "redis-cli -h cache -a «hunter2» PING"),
    ("password", "curl -u bob:«hunter2» https://example.com"),
    ("password", "sshpass -p '«hunter2»' ssh root@db"),
    ("password", "backup -u admin -p «S3cr3t!» --host db"),
    ("password", "PGPASSWORD=«hunter2» psql -h db"),
    ("password", "tool --db-password «hunter2» --verbose"),
    ("token", '["tool", "--api-token", "«abc123def»"]'),
    ("password", "echo «hunter2» | sudo -S reboot"),
    ("secret", "kubectl create secret generic x --from-literal=a=«b1c2»"),
    ("password", '{"user":"bob","password":"«hun\\"ter2»","ok":true}'),
    ("password", '{"msg":"{\\"password\\":\\"«hunter2»\\",\\"a\\":1}"}'),
    ("password", "  password: «sunshine»\n  port: 1"),
    ("password", "{user: bob, password: «sunshine», port: 1}"),
    ("password", "- name: DB_PASSWORD\n  value: «sunshine»\n"),
    ("password", "<password>«sunshine»</password>"),
    ("password", "define('DB_PASSWORD', '«sunshine»');"),
    ("password", "property 'app.db.password' bound to '«Sun5hine!»' from application.yml"),
    ("password", "cache_peer proxy1 parent 3128 0 login=ops:«Sun5hine!»"),
    ("password", "addauth digest ops:«Sun5hine!»"),
    ("password", 'imap: login ops "«Sun5hine!»" rejected'),
    ("password", '"app" "«Sun5hine!»"\n'),
    ("secret", "Secret ID    = «da519e1c-93f9-c57a-779b-5848d3b5a58c»"),
    ("token", "Jenkins-Crumb: «167ff8da789f25fb8c7f557675eb9d57b6f949931666ddd5»"),
    ("password", 'Content-Disposition: form-data; name="password"\r\n\r\n«sunshine»\r\n--x'),
    ("password", "user,password,team\nbob,«sunshine»,ops\n"),
    ("token", "NAME   TOKEN           AGE\nbob    «a1b2.c3d4e5f6»   3d\n"),
    ("password", " user | password \n------+----------\n bob  | «sunshine»\n(1 row)\n"),
    ("private_key", f"-----BEGIN PRIVATE KEY-----\n«{PEM}»\n-----END PRIVATE KEY-----"),
    ("private_key", f"-----BEGIN RSA PRIVATE KEY-----\\n«{PEM}»\\n-----END RSA PRIVATE KEY-----"),
    ("private_key", f"-----BEGIN PRIVATE KEY-----\n«{PEM}»\nand then the log was cut off"),
    ("private_key", "    client-key-data: «LS0tLS1CRUdJTi1vbmUtb2Yt»"),
    ("credential", '{"auths":{"r.example.com":{"auth":"«dXNlcjpodW50ZXIy»"}}}'),
    ("k8s_secret", "kind: Secret\ndata:\n  anything: «aHVudGVyMg==»\n"),
    ("k8s_secret", "apiVersion: v1\ndata:\n  anything: «aHVudGVyMg==»\nkind: Secret\n"),
    ("k8s_secret", '{"data":{"anything":"«aHVudGVyMg==»"},"kind":"Secret"}'),
    ("password", "Server=db;User Id=sa;Password=«Str0ng,Pass»;Encrypt=True"),
    ("secret", "AccountName=x;AccountKey=«abcDEF123/+==»;EndpointSuffix=core"),
    ("password_hash", "root:«$6$saltsalt$" + "aB3./" * 17 + "»:19000:0:99999:7:::"),
    ("password", "CREATE USER app IDENTIFIED BY '«sunshine»';"),
    ("password", "machine h login bob password «sunshine»"),
    ("password", "requirepass «sunshine»"),
    ("password", "FROM alpine\nENV DB_PASSWORD «sunshine»\n"),
    ("password", "# password is «hunter2»"),
    ("password", "-- the password for root on db-01 is «hunter2», change it"),
    ("password", "creds: admin / «hunter2»"),
    ("token", "found token «0f3a9c1d2b4e5f60718293a4»"),
    ("password", "password: |\n  «line one 1\n  line two 2»\nport: 1\n"),
]


@every(("kind", "marked"), PLACES)
def test_the_secret_goes_and_the_rest_stays(redactor: Redactor, kind: str, marked: str) -> None:
    before, secret, after = re.split("[«»]", marked)
    redacted = redactor.text(before + secret + after)
    (found,) = MARKER.findall(redacted)
    assert found == kind
    assert MARKER.sub("", redacted) == before + after
    (place,) = redactor.report(before + secret + after)
    assert (place.start, place.end, place.kind) == (len(before), len(before + secret), kind)


def test_a_secret_next_to_another_goes_as_well(redactor: Redactor) -> None:
    redacted = redactor.text("password=hunter2 token=abc123def456 sent, 2 tests passed")
    assert MARKER.findall(redacted) == ["password", "token"]
    assert redacted.endswith(" sent, 2 tests passed")


def test_a_secret_that_was_found_goes_wherever_it_stands(redactor: Redactor) -> None:
    redacted = redactor.text("DB_PASSWORD=Tr0ub4dor-x1\nretrying Tr0ub4dor-x1 for bob\n")
    assert "Tr0ub4dor" not in redacted
    assert redacted.endswith(" for bob\n")


def test_a_number_in_json_becomes_a_string(redactor: Redactor) -> None:
    assert MARKER.sub("X", redactor.text('{"password": 123456}')) == '{"password": "X"}'
    nested = redactor.text('{"m": "{\\"password\\": 123456}"}')
    assert MARKER.sub("X", nested) == '{"m": "{\\"password\\": \\"X\\"}"}'


def test_a_marker_is_never_taken_for_a_secret(redactor: Redactor) -> None:
    marker = "[REDACTED:password:0a1b2c3d]"
    for text in (f"password={marker}", f'"password": "{marker}"', f"password is {marker}, ok"):
        assert redactor.text(text) == text


def test_the_value_beside_a_foreign_marker_does_not_hide(redactor: Redactor) -> None:
    redacted = redactor.text("password=hunter2[REDACTED:password:0a1b2c3d]")
    assert "hunter2" not in redacted


def test_places_are_characters_not_bytes(redactor: Redactor) -> None:
    text = "é😀 password=hunter2 ü"
    (place,) = redactor.report(text)
    assert text[place.start : place.end] == "hunter2"


def test_a_finding_does_not_show_what_it_found(redactor: Redactor) -> None:
    assert "p@ss" not in repr(redactor.report("postgres://app:p%40ss1@db/app"))


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16"):
        Redactor(b"short")
