#!/bin/sh
# Measure llama.cpp on the model of Quire's demo:
#
#     llama_batched_bench.sh [SmolLM2.gguf] > results/llama_batched_bench.json
#
# Fetches the source package of llama-cpp-python, builds llama-batched-bench and llama-quantize for this CPU, and runs
# prompts of 64 tokens with 64 new tokens each, 1, 16 and 64 sequences at a time, on the file as it is and on its
# weights dequantized to F32. Needs python3 with pip, a C++ compiler, cmake and make; everything it fetches and builds
# stays in Quire's cache (QUIRE_CACHE). THREADS (2), REPEAT (3), JOBS (1) and WAIT (600: the most seconds to wait for an
# idle machine before a measurement) are taken from the environment.
#
# Standard output is one JSON document: what was run where, and every line llama-batched-bench printed, with the name
# of the weights, the number of the repetition, and how busy (in percent) the CPUs were just before and just after it.
# Speeds are tokens/s. Take the best of the runs between idle moments. On a machine that is never idle, root can favour
# this session instead:
#
#     setsid -w sh -c 'echo -19 >/proc/self/autogroup; WAIT=0 bench/llama_batched_bench.sh >FILE'
set -eu

version=0.3.36
threads=${THREADS:-2}
repeat=${REPEAT:-3}
wait=${WAIT:-600}
cache=${QUIRE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quire}
model=${1:-$cache/models/SmolLM2-135M-Instruct.Q4_1.gguf}
peers=$cache/peers
source=$peers/llama_cpp_python-$version
build=$source/build-quire

say() { echo "llama_batched_bench: $*" >&2; }

if [ ! -f "$model" ]; then
	say "no file $model: run 'sample setup' first, or name the GGUF file as the argument"
	exit 1
fi
mkdir -p "$peers"

"$(dirname "$0")/peers/setup.sh" llama

f32=$peers/$(basename "$model" .gguf)-F32.gguf
if [ ! -f "$f32" ]; then
	say "dequantizing to $f32"
	"$build/bin/llama-quantize" --allow-requantize "$model" "$f32.tmp" F32 >&2
	mv "$f32.tmp" "$f32"
fi

# busy prints the share of this machine's CPU time that was in use in the next two seconds, in percent.
busy() {
	# /proc/stat: user, nice, system, idle, iowait, ... in ticks
	before=$(head -n 1 /proc/stat)
	sleep 2
	{ echo "$before"; head -n 1 /proc/stat; } | awk '
		{ all = 0; for (i = 2; i <= 9; i++) all += $i; idle = $5 + $6 }
		NR == 1 { all0 = all; idle0 = idle }
		NR == 2 { printf "%d", 100 * (1 - (idle - idle0) / (all - all0)) }'
}

command="llama-batched-bench -m MODEL -t $threads -tb $threads -c 8192 -npp 64 -ntg 64 -npl SEQUENCES"
command="$command --output-format jsonl"

printf '{"peer": "llama.cpp of llama-cpp-python %s",\n' "$version"
printf ' "command": "%s",\n' "$command"
printf ' "cpu": "%s", "cpus": %s, "features": "%s",\n' \
	"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
	"$(grep -o -w -E 'avx2|avx512f|avx512_bf16|avx_vnni|amx_bf16' /proc/cpuinfo | sort -u | tr '\n' ' ' | sed 's/ $//')"
# Linux weighs whole sessions against each other: 0 is a session like any other, -19 the most favoured.
printf ' "session_nice": %s,\n' "$(sed 's/.*nice //' /proc/self/autogroup 2>/dev/null || echo 0)"
printf ' "date": "%s",\n "runs": [' "$(date -u +%Y-%m-%d)"
separator=
run=1
while [ "$run" -le "$repeat" ]; do
	for sequences in 64 16 1; do
		for file in "$model" "$f32"; do
			weights=$(basename "$file" .gguf)
			weights=${weights##*[.-]}
			# Its threads spin while they wait for each other: any neighbour makes it several times slower.
			waited=0
			while others=$(busy) && [ "$others" -gt 5 ] && [ "$waited" -lt "$wait" ]; do
				waited=$((waited + 2))
			done
			say "run $run of $repeat: $weights, $sequences sequences; others use $others % of the CPUs"
			line=$("$build/bin/llama-batched-bench" -m "$file" -t "$threads" -tb "$threads" -c 8192 -npp 64 -ntg 64 \
				-npl "$sequences" --output-format jsonl 2>>"$peers/bench.log" | grep '^{') || {
				say "llama-batched-bench gave no result: see $peers/bench.log"
				exit 1
			}
			after=$(busy)
			printf '%s\n  {"weights": "%s", "run": %s, "busy_before": %s, "busy_after": %s, %s' \
				"$separator" "$weights" "$run" "$others" "$after" "${line#\{}"
			separator=,
		done
	done
	run=$((run + 1))
done
printf '\n ]}\n'
