# One command for each thing a contributor does. CI runs exactly these (.ci/run).
#
#   make build     the weir binary in bin/
#   make test      format, vet, staticcheck, tests with -race, fuzz seeds, each benchmark once
#   make interop   foreign MCP clients, servers and the official conformance suite (Node 20+, Python 3.11+)
#   make bench     all numbers: bench-go and then bench-load
#   make bench-go  the packages' benchmarks                   BENCH=regexp PKG=./internal/gateway/... COUNT=5 BENCHTIME=1s
#   make bench-load   weir under load, beside httputil.ReverseProxy, with the targets  LOAD='-rounds 3 -strict'
#   make bench-context   what tools cost a model in tokens       CONTEXT='-data DIR'
#   make fuzz      every fuzz target, FUZZTIME each           FUZZTIME=30s PKG=./mcp/jsonrpc/...

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.PHONY: build test fmt vet staticcheck race bench-once interop bench bench-go bench-load bench-context fuzz clean

GO          ?= go
STATICCHECK ?= $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
PKG         ?= ./...
BENCH       ?= .
COUNT       ?= 1
BENCHTIME   ?= 200ms
LOAD        ?=
CONTEXT     ?=
FUZZTIME    ?= 20s
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/weir ./cmd/weir

# The cheap checks come first: a formatting slip is known in a second, not after the race tests.
test: fmt vet staticcheck race bench-once

fmt:
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "not formatted, run: gofmt -w" $$bad; exit 1; fi

vet:
	$(GO) vet ./...

staticcheck:
	$(STATICCHECK) ./...

# Fuzz seeds are part of this: go test runs every seed of every Fuzz function as a test.
race:
	$(GO) test -race -timeout 10m ./...

# Each benchmark runs once, so that a broken one is found here and not on the day somebody needs its number.
bench-once:
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 10m ./... \
	  | sed -e '/^PASS$$/d' -e '/no test files/d' -e '/^goos:/d' -e '/^goarch:/d' -e '/^cpu:/d'

interop: build
	node interop/run.mjs --weir bin/weir

# One after the other: two things measured at once measure each other.
bench:
	@$(MAKE) --no-print-directory bench-go
	@$(MAKE) --no-print-directory bench-load

bench-go:
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -count $(COUNT) -timeout 60m -p 1 $(PKG) \
	  | sed -e '/^PASS$$/d' -e '/no test files/d' -e '/^goos:/d' -e '/^goarch:/d' -e '/^cpu:/d'

bench-load: build
	CGO_ENABLED=0 $(GO) build -o bin/bench ./bench
	bin/bench -weir bin/weir $(LOAD)

bench-context:
	$(GO) run ./bench/context $(CONTEXT)

# go test takes one fuzz target of one package at a time, so ask each package for its targets.
fuzz:
	@pkgs=$$($(GO) list $(PKG)); for pkg in $$pkgs; do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target ($(FUZZTIME))"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; \
	done

clean:
	rm -rf bin interop/.work interop/node_modules
