#!/usr/bin/env bash
# Runs the fast tests of packages, ./... if none is named: make test. Those of package engine take about as long as all
# others together, and would be left to one core at the end: they run in two processes beside the others, of which some
# wait more than they compute.
set -uo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
flags=(-short -timeout 30m)
[ "$*" = ./... ] || exec $GO test "${flags[@]}" "$@"
failed=0
# Nearly all of the time is XLA's compiler, and kernels in C do what takes time in a step: the fast tests compile
# without LLVM's optimizations, in two thirds of the time. make test-slow compiles as the product does.
export XLA_FLAGS="--xla_backend_optimization_level=0 ${XLA_FLAGS:-}"
scripts/halves.sh ./engine . "${flags[@]}" &
halves=$!
$GO test "${flags[@]}" $($GO list ./... | grep -v '/engine$') || failed=1
wait $halves || failed=1
exit $failed
