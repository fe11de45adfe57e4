#!/bin/sh
# Steady traffic without end: a run that ends, or fails during a fault, is started again.
# WORKLOAD is a core workload of YCSB: a has half reads and half updates, b 95 % reads, c only
# reads; mixed, the default, has 80 % reads.
set -u
pd=relay:23791,relay:23792,relay:23793
case "${WORKLOAD:-mixed}" in
    a) reads=0.5 updates=0.5 ;;
    b) reads=0.95 updates=0.05 ;;
    c) reads=1 updates=0 ;;
    mixed) reads=0.8 updates=0.2 ;;
    *) echo "WORKLOAD is '$WORKLOAD'; use a, b, c or mixed." >&2; exit 2 ;;
esac
trap 'exit 0' TERM INT
go-ycsb load tikv -P /etc/load/workload -p tikv.pd="$pd" -p tikv.type=raw -p threadcount="$THREADS"
while :; do
    go-ycsb run tikv -P /etc/load/workload -p tikv.pd="$pd" -p tikv.type=raw \
        -p readproportion="$reads" -p updateproportion="$updates" \
        -p threadcount="$THREADS" -p target="$TARGET_PER_S" &
    wait $!
    sleep 1 &
    wait $!
done
