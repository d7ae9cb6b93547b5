# The commands of this repository. Each runs its prerequisites, and nothing twice.
#   PG_MAJOR=17                    which PostgreSQL to build for (default: 15)
#   PG_CONFIG=/path/to/pg_config   the same, where it is not the one that the Debian package installs
#   CARGO_TARGET_DIR=…             where build output goes (default: target/)
#   CLAIMS_PROFILE=release         for build, demo and tests: what is installed and packed, instead of a quick build

SHELL := /bin/bash
export PG_CONFIG PG_MAJOR

.DEFAULT_GOAL := help
.PHONY: help all setup setup-build build install demo test test-regress test-isolation test-script test-stress test-rust test-checked \
  test-matrix chaos failover incidents bench fmt clean deb pgxn oci release release-check uninstall

help: ## Show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-22s %s\n", $$1, $$2 }'

setup: ## Install what is missing: Debian packages, cargo-pgrx
	@scripts/setup

# Without what only tests need.
setup-build:
	@scripts/setup build

all: build

build: setup ## Build the extension into a private copy of PostgreSQL under target/
	@CLAIMS_PROFILE=$${CLAIMS_PROFILE:-quick} scripts/build

install: setup-build ## Install into the PostgreSQL that PG_CONFIG names
	@scripts/install

uninstall: ## Remove it from the PostgreSQL that PG_CONFIG names; DROP EXTENSION comes first
	@scripts/uninstall

demo: build ## Two cells and a shared database in throwaway clusters: a race, conflicts, crashes, recovery, a repair
	@scripts/demo

test: setup ## Run every test
	@scripts/test

test-regress: build ## Run pg_regress tests; T="name… slice/…" picks some
	@scripts/test regress $(T)

test-isolation: build ## Run isolation specs; T="name… slice/…" picks some
	@scripts/test isolation $(T)

test-script: build ## Run the tests in tests/scripts; T="name… folder/…" picks some
	@scripts/test script $(T)

test-stress: build ## Run the stress client; STRESS_SECONDS=20
	@scripts/test stress

chaos: build ## The campaigns for longer: crashes, without and with the library preloaded, profiles, DDL, every function, hostile waiters and cells, a forged service, plain cells, copies, unique columns, distributed tables; CAMPAIGN_SECONDS=300
	@CAMPAIGN_SECONDS=$${CAMPAIGN_SECONDS:-300} TEST_LOG_LINES=100 scripts/test script campaign campaign_worker citus_campaign profile_race every_function hostile_waiters hostile_cells forged_service plain_cell_campaign ddl_race copies unique_campaign

failover: build ## Failovers of a service with synchronous replication, under Patroni; ROUNDS=200, MODE=asynchronous for the control
	@scripts/failover

incidents: build ## The incidents of the runbook at their full size; CUSTOMER_CLAIMS=100000, INCIDENT_LEASES=200000
	@scripts/incidents

test-rust: setup ## Run fmt, clippy and the tests that need no server
	@scripts/test rust

test-checked: setup ## Run the tests on a PostgreSQL with assertions, which PG_CONFIG names
	@scripts/test-checked

test-matrix: ## Run every test with PostgreSQL 15, 17 and 18, each in a Debian that has it; M="15 /opt/pgsql-16" picks some, and builds of yours
	@scripts/test-matrix $(M)

deb: setup-build ## Make a Debian package for this PostgreSQL, in target/deb
	@scripts/deb

pgxn: ## Make the source distribution for PGXN, in target/pgxn
	@scripts/pgxn

oci: PG_MAJOR := $(or $(PG_MAJOR),$(if $(PG_CONFIG),,18))
oci: setup-build ## Make the contents of the extension's image (PG_MAJOR=18), in target/oci
	@scripts/oci-layout

release: ## Make all that a release carries, in target/release-artefacts: packages, image, PGXN, SBOM, checksums, each tried on a bare machine; R="15 sbom" picks some
	@scripts/release $(R)

release-check: ## Run the checks before a release, besides make test and make test-matrix: make release, the tests on a release build, Citus, the incidents, bare machines
	@scripts/release-check

bench: setup ## Measure; writes bench/RESULTS.md (BENCH_QUICK=1 for a short look, SECTION="reads changes" for some, which renew their parts)
	@scripts/bench $(SECTION)

fmt: ## Format the Rust sources
	cargo fmt --all

clean: ## Remove all build output
	rm -rf "$${CARGO_TARGET_DIR:-target}"
