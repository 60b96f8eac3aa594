#!/usr/bin/env bash
# Runs the tests of a package in two processes at once: scripts/halves.sh PACKAGE PATTERN [flags of go test]. It is for
# tests that compile most of the time, each on one core. PATTERN is of names as grep -E has them; a ! in front of it
# asks for all others.
set -uo pipefail
GO=${GO:-go}
package=$1 pattern=${2#!} rest=()
[ "$pattern" = "$2" ] || rest=(-v)
shift 2
names=$(sed -nE 's/^func ((Test|Fuzz|Example)[A-Za-z0-9_]*)\(.*/\1/p' "$package"/*_test.go | sort |
	grep -E "${rest[@]}" -- "$pattern") || exit 1
pids=() failed=0
for half in 0 1; do
	$GO test "$@" -run "^($(awk "NR % 2 == $half" <<<"$names" | paste -sd '|'))\$" "$package" &
	pids+=($!)
done
for half in "${pids[@]}"; do wait "$half" || failed=1; done
exit $failed
