"""An etcd cluster: members that agree on every write by majority."""

from __future__ import annotations

from operator_protocols.ports import Plugin
from operator_sre.subjects.etcd.causes import CAUSES
from operator_sre.subjects.etcd.depot import EtcdDepot
from operator_sre.subjects.etcd.faults import FAULTS
from operator_sre.subjects.etcd.rig import rig
from operator_sre.subjects.etcd.subject import EtcdCluster
from operator_sre.subjects.etcd.tools import etcd_tools
from operator_sre.subjects.etcd.truths import TRUTHS

__all__ = ["plugin"]

NOTES = """\
A write counts when a majority of the voters has it in its log; the leader sends it to the others.
One of three members may be lost without harm, two may not: then nothing is decided any more, and
the data of the lost ones may be the only one that holds the last writes. Never force a new cluster;
bring members back, or hand it to a person.
A full database (alarm NOSPACE) refuses writes and goes on reading. The way out is compact, then
defragment one member after the other, then disarm_alarm; free_space does all of it.
The size of the file counts against the quota, not what is in use of it.
A member whose data is damaged, or that holds other keys than the majority, joins anew with
replace_member; a restart does not help it. Its own data is gone after that.
Slow writes at the leader while the others answer quickly: the leader is far from them; move_leader.
"""

plugin = Plugin(
    name="etcd",
    sentence="etcd clusters: members, leader, quorum, space, agreement.",
    subject=EtcdCluster,
    causes=CAUSES,
    rig=rig,
    faults=FAULTS,
    truths=TRUTHS,
    notes=NOTES,
    tools=etcd_tools,
    depot=EtcdDepot,
)
