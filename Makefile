# make          build bin/sample
# make demo     fetch the plugin and the demo model, draw 4 completions of each demo prompt, show some
# make test     fetch the same, run go vet and the fast tests; every change must pass
# make nightly  run the long suites, two hours or more on 2 idle cores; writes docs/nightly.md

GO      ?= go
# Build caches are shared by all clones on a machine: no path of a clone is in what is built.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
VERSION := $(shell scripts/version.sh)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(shell git rev-parse HEAD 2>/dev/null)
# Slow tests skip themselves under -short. make test-slow runs them too; make nightly runs that and more.
TESTS   ?= ./...

.PHONY: build fetch demo test test-scripts test-slow test-python nightly bench bench-peers lint race fuzz \
	vulnerabilities dist clean

build:
	$(GO) build -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/sample ./cmd/sample

# Fetches the pinned XLA:CPU plugin and the demo model into QUIRE_CACHE or the user's cache folder, once.
fetch: build
	bin/sample setup cpu model

demo: fetch
	bin/sample run --config configs/smollm2-demo.yaml
	bin/sample show out/demo --rows 4

test: fetch
	$(GO) vet ./...
	GO=$(GO) scripts/test.sh $(TESTS)

# Runs the command's scripts to their end. make test stops each after a second or two, at `[short] stop`.
test-scripts: fetch
	GO=$(GO) scripts/test.sh --scripts

test-slow: fetch
	$(GO) test -timeout 80m $(TESTS)
	$(GO) test -tags emulate_amx ./ops/linear ./attention
	$(GO) test -tags emulate_dot ./ops/linear ./attention

# Tests the Python module with a stand-in for the command; with QUIRE_TEST_MODEL=smollm2 also with bin/sample. Needs
# pytest and pyarrow.
PYTHON ?= python3
test-python:
	cd python && PYTHONPATH=. QUIRE_SAMPLE=$${QUIRE_TEST_MODEL:+$(CURDIR)/bin/sample} $(PYTHON) -m pytest -q

# Runs every test, race, half a minute of each fuzz target, and compiles for TPU and GPU.
nightly: fetch
	GO=$(GO) scripts/nightly.sh

# Runs every benchmark once, to check that it works. BENCHTIME=2s measures.
BENCHTIME ?= 1x
bench: fetch
	$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) $(TESTS)

# Runs Quire and other engines on the same jobs, in turns, within BUDGET seconds. Needs an idle machine, and
# bench/peers/setup.sh once, which fetches the engines. Writes bench/results and docs/benchmarks.md.
BUDGET    ?= 700
WORKLOADS ?= gsm,gsm-n4,gsm-fewshot
peers_python = $(firstword $(wildcard $(or $(QUIRE_CACHE),$(HOME)/.cache/quire)/peers/python/bin/python) python3)
bench-peers: build
	python3 bench/peers/run.py --budget $(BUDGET) --workloads $(WORKLOADS)
	$(peers_python) bench/peers/report.py

# Builds wheels and tarballs for linux on x86-64 and arm64 into dist/, with SBOMs, manual pages and sums.
dist:
	GO=$(GO) scripts/dist.sh

lint:
	$(GO) vet ./...
	$(GO) test ./internal/lint

# Tests code that goroutines share under the race detector: contexts and page transfers, the journal, the queue.
race: fetch
	$(GO) test -race -short ./engine -run 'TestTreeOfContexts|TestContextsBesideRuns|TestForgottenContext|$(\
		)TestEqualPages|TestTransfers|TestReplicas|TestJobBegins|TestProgramsThatMove'
	$(GO) test -race -short ./batch/... ./engine/schedule ./engine/lockstep ./data/vfs

# Runs every fuzz target for FUZZTIME, FUZZJOBS at a time. FUZZ=FuzzParse selects those with this in their name or
# package.
FUZZTIME ?= 60s
FUZZJOBS ?= 2
fuzz: fetch
	FUZZTIME=$(FUZZTIME) FUZZJOBS=$(FUZZJOBS) scripts/fuzz.sh $(FUZZ)

# Reports known vulnerabilities that the code calls; warns if their database cannot be reached.
vulnerabilities:
	scripts/govulncheck.sh
	scripts/govulncheck.sh deploy/validate

clean:
	rm -rf bin out dist
