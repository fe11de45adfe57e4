"""What a mind should know of a TiKV cluster before it touches one."""

from __future__ import annotations

__all__ = ["NOTES"]

NOTES = """\
PD decides where regions lie and who leads them; stores hold them. Every region has (mostly) three
copies on three stores, and works while two of them do. Names of targets are names of processes;
tools take a store by that name or by PD's id for it. Ids of regions come from PD and change with
every split and merge: never use one that you have not just seen.

Order of a store that goes away: no heartbeat for 20 s is Disconnected (PD waits, regions elect
other leaders within seconds), max-store-down-time later it is Down, and only then PD makes new
copies elsewhere. So the first half hour is for bringing the store back: look whether its process
lives, start it (restart_store), and it catches up by itself. Offline is a store that somebody is
taking out, Tombstone one that is out: leave both alone.

One store at a time. A second one that is drained, restarted or compacted while the first is away
leaves regions without a majority; the tools refuse it, and so should you. A store that serves is
drained before it is restarted (restart_store does that) and undrained after it. Every drain ends
with undrain_store: an evict-leader-scheduler that is left behind keeps its store idle for ever, and
is the first thing to look for where leaders are uneven. The second is balance-leader-scheduler:
paused (resume_scheduler) or removed (add_scheduler).

Before any operator: what does PD have this region do already, which schedulers work against it?
PD gives an operator up by itself after 10 minutes at most; one that is stuck for longer waits for a
store that does not answer, or for room. cancel_operator is right only after that; find out why.

A hot region: if its leader shares a store with other hot ones, transfer_leader; if it is hot by
itself, split_region. A single hot key cannot be split, and needs a change in the application.

Slow: append log p99 up means its disk, apply wait up means its CPU or compactions, gRPC p99 up
alone means its clients or the way to it. Drain a slow store first, then look why at ease.
Low space: PD sends no more copies to a store below 20 %; compact_store gives space back only after
large deletes and needs room itself. Adding a store, or a larger disk, is for people.

PD is an etcd inside: one of three members may be lost, two may not. Without a leader of PD, clients
go on with the regions that they know, and nothing is scheduled. A lost member is started again
(restart_pd); a lost majority is handed to a person: pd-recover, a forced new cluster, and unsafe
recovery of regions (`unsafe remove-failed-stores`, `tikv-ctl ... tombstone`, `recreate-region`)
throw away what was acknowledged, and are never ours.

Timestamps of all transactions come from the leader of PD: a clock that jumps ahead there stays
ahead for everybody. A wrong clock, a half upgraded cluster, a cut network: name the machine, and
escalate.
"""
