#!/usr/bin/env bash
# Runs the fast tests of packages, or with --scripts the command's scripts in full: make test, make test-scripts. The
# tests of engine and of cmd/sample take about as long as all others together, and go test would start cmd/sample's
# last. So both run alongside the others, in two processes each.
set -uo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
flags=(-short -timeout 30m)
# XLA's compiler takes most of the time, and kernels in C do what takes time in a step. So the fast tests compile
# without LLVM's optimizations and each program as one LLVM module: half the time. make test-slow compiles as the
# product does.
export XLA_FLAGS="--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1 ${XLA_FLAGS:-}"
# Most processes of the tests end before their garbage is worth collecting.
export GOGC=${GOGC:-400}
[ "$*" != --scripts ] || exec $GO test -timeout 30m -run '^TestScripts$' ./cmd/sample
[ "$*" = ./... ] || exec $GO test "${flags[@]}" "$@"
failed=0
flags+=(-vet=off) # make test runs go vet on all packages
# With -cpu 1 kernels run on one thread: three processes share the cores, and a thread that waits for another spins.
# Tests of threads set the number of threads themselves.
{
	scripts/halves.sh ./engine . "${flags[@]}" -cpu 1 && $GO test "${flags[@]}" -cpu 1 ./models/decoder
} &
compiling=$!
$GO test "${flags[@]}" -run '^TestScripts$' ./cmd/sample &
scripts=$!
$GO test "${flags[@]}" -skip '^TestScripts$' ./cmd/sample &
commands=$!
$GO test "${flags[@]}" $($GO list ./... | grep -vE '/(engine|models/decoder|cmd/sample)$') || failed=1
wait $compiling || failed=1
wait $scripts || failed=1
wait $commands || failed=1
exit $failed
