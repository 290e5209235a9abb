# One command for each thing a contributor does; make help lists them. CI runs exactly these (.ci/run).

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.PHONY: help build images transcript test chart chart-check fmt vet vet-systems staticcheck race simulation bench-once interop clients dojo package-files dist-check packages release-notes bench bench-go bench-load bench-scale bench-cluster bench-start bench-context chaos fuzz clean

GO          ?= go
GORELEASER  ?= $(GO) run github.com/goreleaser/goreleaser/v2@v2.16.0
STATICCHECK ?= $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOTESTSUM   ?= $(GO) run gotest.tools/gotestsum@v1.13.0
PKG         ?= ./...
BENCH       ?= .
COUNT       ?= 1
BENCHTIME   ?= 200ms
LOAD        ?=
CLUSTER     ?= 1000 1 2 4 8
CONTEXT     ?=
FUZZTIME    ?= 20s
KILLS       ?= 100
CHAOS       ?= 10m
DOJO        ?=
SEED        ?= 0
SEEDS       ?= 1000
BEFORE      ?=
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## the weir binary, in bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X github.com/weir-mcp/weir/internal/version.Linked=$(VERSION)' -o bin/weir ./cmd/weir

# The cheap checks come first: a formatting slip is known in a second, not after the race tests.
test: fmt vet staticcheck chart-check race simulation bench-once ## format, vet, staticcheck, the chart, tests with the race detector, fuzz seeds, the simulation, each benchmark once

fmt: ## only the check of the format
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "not formatted, run: gofmt -w" $$bad; exit 1; fi

# interop/peers is a module of its own: users of this one do not need its client.
vet: ## only go vet
	$(GO) vet ./...
	cd interop/peers && $(GO) vet ./...

# charts/check is a module of its own, for Helm and the types of Kubernetes. Helm takes 80 s of processor time to compile, the
# types of the API 20: so CI reads the objects that are kept, which name the chart that they are of.
chart-check: ## only the chart's objects in examples/kubernetes, decoded strictly by the types of the API
	cd charts/check && $(GO) test .

chart: ## the Helm chart, rendered by Helm for each of charts/weir/ci and compared with examples/kubernetes
	cd charts/check && $(GO) test ./...

# Everything builds on the other systems, tests included: minutes at first, so CI runs it and make test does not.
vet-systems: ## vet for Windows and macOS, tests included
	GOOS=windows $(GO) vet ./...
	GOOS=darwin $(GO) vet ./...

staticcheck: ## only staticcheck
	$(STATICCHECK) ./...
	cd interop/peers && $(STATICCHECK) ./...

# Fuzz seeds are part of this: go test runs every seed of every Fuzz function as a test. Tests that fail, five at most,
# run once more by themselves: what passes then is named in the output, and is a fault of the test that wants mending.
# A data race, a panic and a test without an end are not tried again. make vet ran before. Tests with real programs wait
# for them a third of the time, so three packages at once keep two cores at work.
PACKAGES = $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)))
race: ## only the tests, with the race detector
	$(GOTESTSUM) --format pkgname --hide-summary skipped --rerun-fails=1 --rerun-fails-max-failures=5 --rerun-fails-abort-on-data-race \
	  --packages ./... -- -race -vet=off -p $(PACKAGES) -timeout 12m

# The race detector makes it six times slower, so make race takes a few seeds and this step takes many: the same each
# time, so that a change is judged by what it does. make chaos looks for new ones.
simulation: ## clusters in a time of their own, broken by SEEDS seeds from SEED on: SEEDS=1000 SEED=1
	$(GO) test ./internal/testkit/simulation -run 'TestSimulation$$' -v -simulations $(SEEDS) -seed $(if $(filter 0,$(SEED)),1,$(SEED)) -timeout 30m | grep -v '^ *[-=][-=]'

# Each benchmark runs once, so that a broken one is found here and not on the day somebody needs its number. Packages
# without one are not linked a second time.
bench-once: ## each benchmark once
	$(GO) test -vet=off -run '^$$' -bench . -benchtime 1x -timeout 10m $$(grep -rl --include='*_test.go' --exclude-dir=node_modules --exclude-dir=.work '^func Benchmark' . | xargs -n1 dirname | sort -u) \
	  | sed -e '/^PASS$$/d' -e '/^goos:/d' -e '/^goarch:/d' -e '/^cpu:/d'

interop: build ## foreign MCP clients, servers and the official conformance suite (Node 20, Python 3.11)
	node interop/run.mjs --weir bin/weir
	interop/openapi.sh

# make interop runs two of the six. What is installed stays in interop/hosts until make clean.
clients: build ## weir connect with the six programs of interop/hosts (npm, 1.5 GB)
	node interop/hosts.mjs --weir bin/weir

# AgentDojo of PyPI with what it needs (400 MB) lands in interop/.work. It takes minutes, so CI does not run it.
dojo: build ## the proof of flow labels: AgentDojo's tasks and attacks through weir, DOJO='--json FILE'
	node interop/dojo.mjs --weir bin/weir $(DOJO)

# What packages hold in addition to the program, made by the program itself. gzip -n leaves out the time.
package-files: ## the manual pages and the completions of packages
	rm -rf build/man build/completions
	mkdir -p build/completions
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X github.com/weir-mcp/weir/internal/version.Linked=$(VERSION)' -o build/weir ./cmd/weir
	build/weir man build/man
	gzip -9n build/man/*.1
	build/weir completion bash > build/completions/weir.bash
	build/weir completion zsh > build/completions/_weir
	build/weir completion fish > build/completions/weir.fish
	build/weir completion powershell > build/completions/weir.ps1

dist-check: ## GoReleaser's own check of .goreleaser.yaml: many minutes at first
	$(GORELEASER) check

# GoReleaser takes the commit's time only from a repository with a remote, which the variables of git name here.
SNAPSHOT = GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/weir-mcp/weir \
	$(GORELEASER) release -f build/goreleaser.yaml --snapshot --clean --skip=docker,sign,homebrew,scoop,winget

# The release of .goreleaser.yaml for one platform, made twice, and what can be installed of it here.
packages: build ## the packages of a release for this machine (Linux), built twice, compared and installed
	mkdir -p build
	sed -e 's/^    goos: .*/    goos: [linux]/' -e 's/^    goarch: .*/    goarch: ['$$($(GO) env GOARCH)']/' .goreleaser.yaml > build/goreleaser.yaml
	rm -rf build/first build/packages
	$(GO) run ./internal/dist/cmd/dist -version 0.0.0-rc.0 -time $$(git log -1 --format=%ct) -binary linux/$$($(GO) env GOARCH)=bin/weir -partial -out build/packages
	$(SNAPSHOT)
	mv dist build/first
	$(SNAPSHOT)
	node interop/packages.mjs --weir bin/weir --release dist --same build/first

# The section of CHANGELOG.md for a version, without its heading: make release-notes VERSION=v0.1.0
release-notes: ## the section of CHANGELOG.md for VERSION=v0.1.0
	@awk -v v='## $(VERSION:v%=%) ' 'index($$0 " ", v) == 1 {on=1; next} /^## / {on=0} on' CHANGELOG.md | sed '1{/^$$/d}' | grep . -q \
	  || { echo "CHANGELOG.md has no section $(VERSION:v%=%)" >&2; exit 1; }
	@awk -v v='## $(VERSION:v%=%) ' 'index($$0 " ", v) == 1 {on=1; next} /^## / {on=0} on' CHANGELOG.md

# What weir prints on a fresh machine, with the seconds that it took. make test runs the same commands.
transcript: ## records docs/transcript.txt and docs/transcript-go.txt again
	$(GO) test ./internal/cli -run '^TestTranscript(OfGo)?$$' -count=1 -transcript

# The pictures of README.md, taken of the console in a browser.
images: build ## the pictures of README.md
	node interop/shots.mjs --weir bin/weir

# One after the other: two things measured at once measure each other.
bench: ## all numbers: bench-go, bench-load, bench-scale and bench-start
	@$(MAKE) --no-print-directory bench-go
	@$(MAKE) --no-print-directory bench-load
	@$(MAKE) --no-print-directory bench-scale
	@$(MAKE) --no-print-directory bench-start

bench-go: ## the packages' benchmarks: BENCH=regexp PKG=./internal/metatool/... COUNT=5 BENCHTIME=1s
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -count $(COUNT) -timeout 90m -p 1 $(PKG) \
	  | sed -e '/^PASS$$/d' -e '/no test files/d' -e '/^goos:/d' -e '/^goarch:/d' -e '/^cpu:/d'

bench-load: build ## weir under load next to httputil.ReverseProxy: LOAD='-rounds 3 -strict'; -peers adds nginx and haproxy
	CGO_ENABLED=0 $(GO) build -o bin/bench ./bench
	bin/bench -weir bin/weir $(LOAD)

bench-scale: ## a catalog of 1,000, 10,000 and 100,000 tools: build, browse, search, refresh
	$(GO) run ./bench/scale

bench-cluster: ## 1 to 8 gateways that act as one: CLUSTER='1000 1 2 4 8'
	$(GO) run ./bench/cluster $(CLUSTER)

bench-start: build ## the version, shell commands and the first browse of 10,000 tools, from the start of the process
	$(GO) run ./bench/start

# The tasks of bench/tasks need the servers of others that interop/tasks.mjs installs (npm and PyPI, 800 MB).
bench-context: build ## what tools cost a model in tokens: CONTEXT='-data DIR'; fifteen tasks, also with an earlier program: BEFORE=
	$(GO) run ./bench/context $(CONTEXT)
	node interop/tasks.mjs --weir bin/weir $(if $(BEFORE),-before $(BEFORE))

chaos: ## a gateway killed KILLS=100 times and at each write of programs, clusters broken for CHAOS=10m by SEED=0 and upgraded from BEFORE=, 10,000 simulations
	$(GO) test ./internal/cli -run 'TestHundredKills$$' -kills $(KILLS) -timeout 30m
	$(GO) test ./internal/cli -run 'TestProgramsSurviveKills$$' -every-kill -timeout 30m
	$(GO) test ./internal/testkit/clustertest -v -chaos $(CHAOS) -seed $(SEED) -before "$(BEFORE)" -timeout 120m
	$(GO) test ./internal/testkit/simulation -run 'TestSimulation$$' -simulations 10000 -seed $(SEED) -timeout 60m

# go test takes one fuzz target of one package at a time, so ask each package for its targets.
fuzz: ## every fuzz target of PKG for FUZZTIME=20s each
	@pkgs=$$($(GO) list $(PKG)); for pkg in $$pkgs; do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target ($(FUZZTIME))"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; \
	done

clean: ## removes everything that the others have made
	rm -rf bin build dist interop/.work interop/node_modules interop/hosts/*/node_modules interop/servers/node_modules
