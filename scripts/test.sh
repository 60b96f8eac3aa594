#!/usr/bin/env bash
# Runs the fast tests of packages, ./... if none is named: make test. Those of package engine take about as long as all
# others together, and would be left to one core at the end: they run in two processes beside the others.
set -uo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
flags=(-short -timeout 30m)
[ "$*" = ./... ] || exec $GO test "${flags[@]}" "$@"
failed=0
scripts/halves.sh ./engine . "${flags[@]}" &
halves=$!
processors=$(nproc)
$GO test -p $((processors > 2 ? processors - 1 : 1)) "${flags[@]}" $($GO list ./... | grep -v '/engine$') || failed=1
wait $halves || failed=1
exit $failed
