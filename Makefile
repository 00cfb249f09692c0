# Targets with a text after ## are listed by `make help`.
.DEFAULT_GOAL := help
.PHONY: help demo test compat model lint fmt bench bench-lock bench-quorum bench-postgres bench-s3 compare load faults sabotage soak cover fuzz

SOAK ?= 60s
FUZZTIME ?= 30s
SABOTAGE ?= Sabotage
FAULTS ?= 60s
SEED ?=
LINT_VERSION := v2.15.0
LINT := bin/golangci-lint-$(LINT_VERSION)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## run the billing example: a stalled worker wakes up and is refused
	go run ./examples/billing

test: ## install what is missing where possible, run every test, say what was not run
	internal/testenv/test.sh

compat: ## run the Postgres guard on every driver and ORM, a module of its own
	cd compat && go test -race -shuffle=on ./...

model: ## explore the protocols exhaustively, in Go and in spin; what is wrong is shown step by step
	go test -count=1 -v ./internal/model
	docs/protocol/check.sh

faults: ## harm the whole system at random for FAULTS=60s a stack, from SEED if given
	export FENCED_TEST_FAULTS=$(FAULTS) FENCED_TEST_SEED=$(SEED); \
	FENCED_TEST_MODE=local go test -count=1 -timeout 0 -v -run '^TestFaults' . && \
	FENCED_TEST_MODE=docker go test -count=1 -timeout 0 -v -run '^TestContainerFaults' .

sabotage: ## remove each piece that protects, and see that a test fails
	FENCED_TEST_SABOTAGE=1 go test -count=1 -timeout 60m -v -run '$(SABOTAGE)' .

lint: $(LINT) ## run the linters, pinned; the first time builds them (3 min)
	$(LINT) run --allow-parallel-runners ./...
	$(LINT) fmt --diff ./...
	cd bench && ../$(LINT) run --allow-parallel-runners ./...
	cd compat && ../$(LINT) run --allow-parallel-runners ./...

fmt: $(LINT) ## format the code
	$(LINT) fmt ./...

$(LINT):
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv bin/golangci-lint $(LINT)

bench: bench-lock bench-quorum bench-postgres bench-s3 ## compare with peers and with bare Redis, Postgres and S3; QUICK=1 for a look

bench-lock: ## free names, one name that many want, and many held, against bare scripts and other libraries
	cd bench && go run ./lock

bench-quorum: ## acquire and release on five servers, some of them frozen, against redsync
	cd bench && go run ./quorum

bench-postgres: ## guarded writes against bare ones
	cd bench && go run ./postgres

bench-s3: ## fenced objects against bare ones
	cd bench && go run ./s3

compare: ## count what is lost under each lock when holders are paused; QUICK=1 for a look, UPDATE=1 writes the README
	cd bench && go run ./compare -svg $(if $(UPDATE),../docs/compare.svg -readme ../README.md,compare.svg)

load: ## keep the machine busy for a minute: latencies, no error, nothing that grows; QUICK=1 for ten seconds
	cd bench && go run ./load

soak: ## run every test in a stress_test.go for SOAK=60s
	@set -e; for file in $$(find . -name '*stress_test.go'); do \
		tests=$$(sed -n 's/^func \(Test[A-Za-z0-9_]*\)(.*/\1/p' $$file | paste -sd '|'); \
		FENCED_TEST_SOAK=$(SOAK) go test -race -count=1 -timeout 60m -v -run "^($$tests)\$$" $$(dirname $$file); \
	done

cover: ## measure the coverage of the public packages
	go test -count=1 -coverpkg=./fencedlock/...,./fencedstore/...,./migrations/... -coverprofile=coverage.out ./...
	go tool cover -func=coverage.out | tail -1

fuzz: ## run each fuzz test for FUZZTIME=30s
	@set -e; for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done
