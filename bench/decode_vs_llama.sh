#!/bin/sh
# Measure decoding at 64 sequences, Quire and llama.cpp in turns on the same F32 weights:
#
#     bench/decode_vs_llama.sh > bench/results/decode_vs_llama.json
#
# 64 prompts of 64 tokens, 64 new tokens each, greedy, 2 threads. Needs bin/sample (make), and what
# bench/llama_batched_bench.sh built and converted. ROUNDS (3) turns are taken; a line of JSON comes from each
# measurement. A busy machine slows both, so look at the ratio of neighbours.
set -eu
cd "$(dirname "$0")/.."
cache=${QUIRE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quire}
model=$cache/peers/SmolLM2-135M-Instruct.Q4_1-F32.gguf
llama=$cache/peers/llama_cpp_python-0.3.36/build-quire/bin/llama-batched-bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk 'BEGIN { for (r = 0; r < 64; r++) { printf "{\"id\": \"%d\", \"prompt_token_ids\": [", r
	for (i = 0; i < 64; i++) printf "%s%d", (i ? ", " : ""), 1000 + (r * 7919 + i * 104729) % 40000
	print "]}" } }' >"$work/prompts.jsonl"

quire_line='
import json, sys
r = json.load(open(sys.argv[1]))
e = r["engine"]
speeds = {k: r[k] for k in ("decode_tokens_per_second", "prefill_tokens_per_second")}
steps = {"decode_steps": e["decode_steps"], "seconds_a_step": e["decode_seconds"] / e["decode_steps"]}
print(json.dumps({"engine": "quire", "round": int(sys.argv[2]), **speeds, **steps, "host_share": r["host_share"]}))'
llama_line='
import json, sys
r = json.loads(sys.stdin.read().strip().splitlines()[-1])
speeds = {"decode_tokens_per_second": r["speed_tg"], "prefill_tokens_per_second": r["speed_pp"]}
print(json.dumps({"engine": "llama.cpp", "round": int(sys.argv[1]), **speeds, "seconds_a_step": r["t_tg"] / 64}))'

for round in $(seq "${ROUNDS:-3}"); do
	bin/sample run --model "$model" --input "$work/prompts.jsonl" --output "$work/out" --new --format jsonl \
		--temperature 0 --ignore-eos --max-tokens 64 --max-seqs 64 --max-model-len 256 --kv-memory 512MiB \
		--progress none --report "$work/report.json" >/dev/null 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
	python3 -c "$quire_line" "$work/report.json" "$round"
	"$llama" -m "$model" -t 2 -tb 2 -c 8192 -npp 64 -ntg 64 -npl 64 --output-format jsonl 2>/dev/null |
		python3 -c "$llama_line" "$round"
done
