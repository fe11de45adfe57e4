"""The table [service]: parts, addresses, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.errors import ConfigError
from operator_sre.config import ADDRESSES, ServiceConfig
from operator_sre.config.service import service_of
from tests.every import every

FILE = Path("/srv/shop/operator.toml")


def test_without_a_table_it_watches_and_works_and_listens_nowhere() -> None:
    assert service_of({}, None) == ServiceConfig()
    assert ServiceConfig().parts == ("monitor", "agent")


def test_parts_stand_in_one_order_and_files_beside_the_settings() -> None:
    table = {"parts": ["web", "monitor"], "web": "[::1]:1", "tls_cert": "c.pem", "tls_key": "/k"}
    found = service_of({**table, "log_file": "log/operator.log"}, FILE)
    assert found.parts == ("monitor", "web")
    assert found.addresses == {**ADDRESSES, "web": "[::1]:1"}
    assert (found.tls_cert, found.tls_key) == (Path("/srv/shop/c.pem"), Path("/k"))
    assert found.log_file == Path("/srv/shop/log/operator.log")


@every(
    ("table", "part"),
    [
        ({"parts": ["webb"]}, "'parts'"),
        ({"parts": []}, "'parts'"),
        ({"parts": "web"}, "'parts'"),
        ({"web": "localhost"}, "127.0.0.1:8442"),
        ({"api": "127.0.0.1:0"}, "'api'"),
        ({"mcp": 8441}, "'mcp'"),
        ({"hosts": "ops"}, "'hosts'"),
        ({"tls_key": 1}, "'tls_key'"),
        ({"log_file": True}, "'log_file'"),
        ({"wep": "127.0.0.1:1"}, "'wep'"),
        ([], "a table"),
    ],
)
def test_a_mistake_is_named(table: object, part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        service_of(table, FILE)
