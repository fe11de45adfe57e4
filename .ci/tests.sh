# Run the tests: sh .ci/tests.sh ARGUMENTS OF PYTEST
#
# The first time, one process compiles all tests; otherwise every worker would, each for itself.
python=.venv/bin/python
[ -d tests/__pycache__ ] || $python -m pytest --collect-only -qq tests >/dev/null 2>&1
exec $python -m pytest -q -p tests.durations "$@"
