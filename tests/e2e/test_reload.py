"""A service that reads its settings again in the middle of a repair: the repair goes on, once."""

from __future__ import annotations

import secrets
import signal
from collections import Counter
from pathlib import Path

from operator_protocols.domain.entry import Kind
from tests.e2e.patients import running_patients
from tests.e2e.soak import Replica
from tests.e2e.test_soak import Watched
from tests.e2e.waiting import eventually

# The lever is under way until the test lets it go on.
SLOW = """\
cd "$(dirname "$0")" || exit 1
touch begun
while [ ! -e go ]; do sleep 0.1; done
exec sh cure.sh "$1"
"""


def test_a_reload_in_the_middle_of_a_repair_loses_and_repeats_nothing(tmp_path: Path) -> None:
    key = tmp_path / "ledger.key"
    key.write_bytes(secrets.token_bytes(32))
    key.chmod(0o600)
    with running_patients(tmp_path, 2, command='[sh, slow.sh, "{target}"]') as patients:
        (tmp_path / "slow.sh").write_text(SLOW)
        replica = Replica(
            tmp_path / "service", tmp_path / "farm.yaml", OPERATOR_LEDGER_KEY=str(key)
        )
        try:
            replica.start()
            eventually((replica.home / "operator.db").exists, "the home is made")
            watched = Watched(str(replica.home / "operator.db"), key)
            patients.jam(patients.names[0])
            eventually((tmp_path / "begun").exists, "the repair is under way")
            settings = replica.folder / "operator.toml"
            settings.write_text("ledger_days = 400\n" + settings.read_text())
            replica.send(signal.SIGHUP)
            eventually(lambda: "the settings have changed" in replica.said, "it reloads")
            assert not watched.cured(1)
            (tmp_path / "go").touch()
            watched.wait_cured(1)
            assert patients.cures() == Counter(patients.names[:1])
            (ticket,) = watched.store.tickets.find(subject="farm")
            entries = watched.store.entries.after(0, limit=10_000, ticket=ticket.id)
            kinds = Counter(entry.kind for entry in entries)
            assert kinds[Kind.TICKET_CLAIMED] == 2, "parked, and taken up again"
            assert kinds[Kind.RUN_STARTED] == kinds[Kind.RUN_FINISHED] == 1
            assert kinds[Kind.TICKET_RESOLVED] == 1
            watched.store.close()
            assert replica.end() == 128 + signal.SIGTERM
        finally:
            replica.close()
