# midair: make demo and make test are all a newcomer needs.
SHELL := /bin/bash
.DELETE_ON_ERROR:

GO      ?= go
BUILD   := build
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X main.version=$(VERSION)
# The hooks and the daemon are static: Slurm's controller host may be any
# distribution.
export CGO_ENABLED := 0

# What the demo and the tests run: Slurm itself, its database, and the peers
# that the benchmarks measure against.
APT := slurmctld slurmd slurmdbd slurm-client munge mariadb-server iproute2 util-linux lua5.1 python3-boto3 curl nftables shellcheck

.PHONY: all deps build demo test test-unit slurm-root test-slurm-root bench soak lint fuzz clean

all: build

deps: ## install the Debian packages that are missing
	@missing=(); for p in $(APT); do \
	  [ "$$(dpkg-query -W -f='$${db:Status-Status}' $$p 2>/dev/null)" = installed ] || missing+=($$p); done; \
	if [ $${#missing[@]} -gt 0 ]; then \
	  echo "installing $${missing[*]}"; \
	  apt-get -o DPkg::Lock::Timeout=900 update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=900 install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null; fi

build: ## build every program into build/
	@mkdir -p $(BUILD)/contrib
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BUILD)/midair-resume ./resume
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BUILD)/midair-suspend ./suspend
	$(GO) build -trimpath -tags urfave_cli_no_docs -ldflags '$(LDFLAGS)' -o $(BUILD)/midair-slurmctld-hook ./slurmctld-hook
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BUILD)/midair-cellinit ./internal/cell/midair-cellinit
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BUILD)/midair ./midair
	@cp contrib/job_submit.lua $(BUILD)/contrib/

CLOUD ?= local

demo: deps build ## researchers' jobs burst onto nodes that did not exist, on a private Slurm (CLOUD=ec2sim: on a stand-in for AWS)
	$(BUILD)/midair demo --cloud $(CLOUD) --output $(BUILD)/demo.json

test-unit: ## no root, no network, under a minute after compiling
	$(GO) test -short ./...

test: deps build lint ## everything, also on real Slurm
	MIDAIR_PROGRAMS=$(CURDIR)/$(BUILD) $(GO) test -timeout 25m $$($(GO) list ./... | grep -v /internal/e2e)
	MIDAIR_PROGRAMS=$(CURDIR)/$(BUILD) $(GO) test -timeout 65m -v ./internal/e2e

SUITE      ?= trixie
SLURM_ROOT ?= /var/lib/midair-slurm/$(SUITE)

slurm-root: ## install another Debian suite's Slurm into SLURM_ROOT (SUITE=trixie: 24.11, sid: the newest)
	apt-get -o DPkg::Lock::Timeout=900 install -y -qq debootstrap >/dev/null
	@[ -x $(SLURM_ROOT)/usr/sbin/slurmctld ] || { set -e; mkdir -p $(dir $(SLURM_ROOT)); \
	  debootstrap --variant=minbase $(SUITE) $(SLURM_ROOT) $$(awk '/^URIs:/{print $$2; exit}' /etc/apt/sources.list.d/debian.sources); \
	  printf '#!/bin/sh\nexit 101\n' >$(SLURM_ROOT)/usr/sbin/policy-rc.d; chmod +x $(SLURM_ROOT)/usr/sbin/policy-rc.d; \
	  chroot $(SLURM_ROOT) apt-get install -y -qq --no-install-recommends slurmctld slurmd slurmdbd slurm-client munge mariadb-server iproute2 util-linux procps python3-minimal; }
	@chroot $(SLURM_ROOT) slurmctld -V

test-slurm-root: slurm-root build ## the promises on the Slurm of SLURM_ROOT
	MIDAIR_SLURM_ROOT=$(SLURM_ROOT) MIDAIR_PROGRAMS=$(CURDIR)/$(BUILD) $(GO) test -timeout 50m -v ./internal/testcluster ./internal/e2e

soak: ## simulated days of random faults, the promises checked in and after each
	MIDAIR_SOAK=500 $(GO) test -count=1 -timeout 120m -run 'TestRandomFaultsAndKillsLeaveNothingBehind$$' -v ./internal/controller
	MIDAIR_SOAK_AWS=100 $(GO) test -count=1 -timeout 120m -tags awssoak -run OnAWS -v ./internal/controller

bench: deps build ## measure; results go to build/bench.jsonl
	MIDAIR_PROGRAMS=$(CURDIR)/$(BUILD) $(GO) run ./internal/bench -output $(BUILD)/bench.jsonl

lint: ## gofmt, go vet, staticcheck
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "not gofmt'ed:"; echo "$$bad"; exit 1; fi
	$(GO) vet ./...
	@mkdir -p tools/bin && cd tools && $(GO) build -o bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	tools/bin/staticcheck ./...

fuzz: ## each fuzz target for half a minute
	@for p in $$(grep -lr 'func Fuzz' --include='*_test.go' internal | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -ho 'func Fuzz[A-Za-z0-9_]*' $$p/*_test.go | cut -c6-); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 30s ./$$p || exit 1; done; done

clean:
	rm -rf $(BUILD) tools/bin
