#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (60s), FUZZJOBS (2) of them at a time, each on one core, and fails if one finds
# something. What it finds is kept in the package's testdata/fuzz, to be committed with the fix: it is a regression test
# from then on.
#
#   scripts/fuzz.sh                       # all; FUZZTIME=15s scripts/fuzz.sh for a look
#   scripts/fuzz.sh FuzzParse journal     # those whose package or name contains one of the words
#
# The targets are built first: instrumented builds of what they import take minutes the first time. What is found on the
# way, which is no failure, is kept in FUZZCACHE, and the next run begins with it.
set -euo pipefail
cd "$(dirname "$0")/.."
export FUZZTIME=${FUZZTIME:-60s} FUZZCACHE=${FUZZCACHE:-$(go env GOCACHE)/fuzz/quire}
jobs=${FUZZJOBS:-2}
mkdir -p "$FUZZCACHE"
FUZZDIR=$(mktemp -d)
export FUZZDIR
trap 'rm -rf "$FUZZDIR"' EXIT

targets() { # prints one per line: package target
	git grep -oE '^func Fuzz[A-Za-z0-9_]*' -- '*_test.go' | while IFS=: read -r file name; do
		echo "$(dirname "$file") ${name#func }"
	done
}
wanted() {
	[ $# -gt 0 ] || { cat; return; }
	grep -F "$(printf '%s\n' "$@")" || { echo "fuzz: no target has any of: $*" >&2; exit 1; }
}
list=$(targets | wanted "$@")

for package in $(cut -d' ' -f1 <<<"$list" | sort -u); do
	go test -c -fuzz=. -o "$FUZZDIR/${package//\//_}.test" "./$package"
done

fuzz() { # package target
	local log=$FUZZDIR/${1//\//_}.$2.log code=0
	# Without a bound all of the time may be spent on minimizing one new input.
	(cd "$1" && "$FUZZDIR/${1//\//_}.test" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$FUZZTIME" \
		-test.parallel 1 -test.fuzzminimizetime 20x -test.fuzzcachedir "$FUZZCACHE/$1" \
		-test.timeout 0) >"$log" 2>&1 || code=$?
	# At the end of its time a worker may be interrupted in the middle of a call, which Go reports as a failure.
	if [ $code != 0 ] && grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log"; then
		code=0
	fi
	echo "$([ $code = 0 ] && echo ok || echo FAIL) $1 $2: $(grep -E '^fuzz: elapsed' "$log" | tail -1 | cut -d, -f2-)"
	[ $code = 0 ] || { cat "$log"; return 1; } # the others continue, and xargs fails at the end
}
export -f fuzz
xargs -P "$jobs" -L 1 bash -c 'fuzz "$@"' fuzz <<<"$list"
