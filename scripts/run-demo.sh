#!/bin/sh
# The demo of a subject, with pages that you turn: scripts/run-demo.sh [SUBJECT] [OPTIONS]
exec make -s -C "$(dirname "$0")/.." demo AUTO= ARGS="$*"
