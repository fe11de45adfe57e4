#!/bin/sh
# Steady traffic without end: a run that ends, or fails during a fault, is started again.
set -u
pd=relay:23791,relay:23792,relay:23793
trap 'exit 0' TERM INT
go-ycsb load tikv -P /etc/load/workload -p tikv.pd="$pd" -p tikv.type=raw -p threadcount="$THREADS"
while :; do
    go-ycsb run tikv -P /etc/load/workload -p tikv.pd="$pd" -p tikv.type=raw \
        -p threadcount="$THREADS" -p target="$TARGET_PER_S" &
    wait $!
    sleep 1 &
    wait $!
done
