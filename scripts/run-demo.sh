#!/bin/sh
# Run the demo of a subject page by page: scripts/run-demo.sh [SUBJECT] [OPTIONS]
exec make -s -C "$(dirname "$0")/.." demo AUTO= ARGS="$*"
