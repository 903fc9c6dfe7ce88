# Targets are listed by `make` alone; each has its line behind "##".
SHELL := /bin/bash
GO ?= go

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -X main.release=$(VERSION)

# Tests never see the machine's own interfaces: each test binary runs in a network namespace of its own, with nothing but
# loopback, and an ordinary user is root of a user namespace there.
ISOLATE := unshare --net --mount $(if $(filter-out 0,$(shell id -u)),--user --map-root-user) sh -c 'ip link set lo up && exec "$$@"' sh

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

.PHONY: build
build: ## bin/bulkshaper
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/bulkshaper ./cmd/bulkshaper

.PHONY: install
install: build ## binary, unit and a first config into DESTDIR; a config that is there stays
	install -D -m 755 bin/bulkshaper $(DESTDIR)/usr/bin/bulkshaper
	install -D -m 644 systemd/bulkshaper.service $(DESTDIR)/usr/lib/systemd/system/bulkshaper.service
	install -d -m 755 $(DESTDIR)/etc/bulkshaper
	test -e $(DESTDIR)/etc/bulkshaper/config.yaml || install -m 644 shaper/config/reference.yaml $(DESTDIR)/etc/bulkshaper/config.yaml

.PHONY: packages
packages: ## dist/: deb and rpm for amd64 and arm64; VERSION=v1.2.3 says another version than git
	deploy/package/build dist

.PHONY: container
container: build ## a container image, bulkshaper:VERSION, of the program alone; CONTAINER_TOOL says what builds it (default buildah)
	$(or $(CONTAINER_TOOL),buildah) build --file deploy/container/Containerfile --build-arg VERSION=$(VERSION) --timestamp $$(git log -1 --format=%ct) --tag bulkshaper:$(VERSION) --tag bulkshaper:latest bin

.PHONY: demo
demo: build ## a cluster shaped before your eyes, and the incident replayed; OUT=FOLDER keeps its picture (two minutes; needs root)
	bin/bulkshaper demo
	bin/bulkshaper demo --scenario incident $(if $(OUT),--out $(OUT))

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo 'run gofmt -w on these'; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags system,alone ./...
	$(GO) tool staticcheck ./...

.PHONY: needs
needs:
	@command -v tc >/dev/null || { echo 'tc is missing: install iproute2'; exit 1; }
	@$(ISOLATE) true || { echo 'no network namespaces here: run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)'; exit 1; }

# Linting has vetted everything before. A program with the race detector in it waits a second before it ends, for races at the end, if nothing else is
# said, and the tests run hundreds of them. Of the properties of pure code there
# are fewer checks here than in test-system.
.PHONY: test
test: needs lint ## everything that needs no more than network namespaces, with the race detector
	GORACE=atexit_sleep_ms=50 $(GO) test -vet=off -race -parallel 4 -exec '$(subst ','\'',$(ISOLATE))' ./...
	$(GO) test -vet=off -exec '$(subst ','\'',$(ISOLATE))' ./shaper/u32/layout ./shaper/diff -rapid.checks 30
	$(GO) test -vet=off -tags alone -count=1 -run '^TestIncident$$' -exec '$(subst ','\'',$(ISOLATE))' ./cmd/bulkshaper
	@$(MAKE) --no-print-directory fuzz-short

# One package after the other: what they assert of times and packets is theirs alone then. A failed one does not keep the others from running.
SYSTEM = ./systemd/systemtest/... ./shaper/kernel/qemutest ./shaper/hitless/... ./metrics/pagetest ./cmd/bulkshaper/scenario ./inventory ./deploy/kubernetes ./deploy/monitortest ./deploy/package

# By its name, a variable, make -n does not take the tests for a make of its own, which it would run.
GUIDED = $(MAKE) --no-print-directory fuzz JOBS=2 FUZZTIME=1000x

.PHONY: test-system
test-system: ## the rest: systemd in containers, Debian kernels in QEMU, a real Prometheus, long runs (root; installs what it needs from Debian)
	@failed=; run() { echo "== go test $$*"; $(GO) test -count=1 -p 1 "$$@" || failed=1; }; \
	run -tags system -timeout 60m $(SYSTEM); \
	run -timeout 10m -exec '$(subst ','\'',$(ISOLATE))' ./shaper/u32/layout ./shaper/diff -rapid.checks 200; \
	run -tags system -timeout 60m -v -run '^TestSoak$$' ./cmd/bulkshaper; \
	(cd deploy/kubernetes/schematest && $(GO) vet ./... && $(GO) test -count=1 ./...) || failed=1; \
	run -tags system,alone -timeout 30m -v -run '^(TestIncidentInFull|TestPodNetworksInFull)$$' ./cmd/bulkshaper; \
	$(GUIDED) || failed=1; \
	[ -z "$$failed" ]

# Fuzzers run one after the other, each in its package's own test binary; FUZZ=pattern takes some of them.
FUZZERS = grep -rnoE '^func Fuzz[A-Za-z0-9]+' --include='*_test.go' . | sed -E 's|^(.*)/[^/]*:[0-9]+:func |\1 |' | sort -u | grep -E '$(or $(FUZZ),.)'

.PHONY: fuzz
fuzz: ## every fuzzer for FUZZTIME each (default 30s), JOBS at once (default 1); FUZZ=Config only those that are called so
	@$(FUZZERS) >/dev/null || { echo 'no fuzzer is called $(FUZZ)'; exit 1; }
	@$(FUZZERS) | xargs -P $(or $(JOBS),1) -L 1 bash -c 'out=$$($(GO) test -run "^$$" -fuzz "^$$1\$$" -fuzztime $(or $(FUZZTIME),30s) $(if $(JOBS),-parallel 1) "$$0" 2>&1 </dev/null); \
	  code=$$?; echo "== $$0 $$1"; echo "$$out"; exit $$code' || { echo 'an input that fails is in testdata/fuzz of its package: mend, and commit it'; exit 1; }

.PHONY: fuzz-list
fuzz-list: ## the fuzzers, with their packages
	@$(FUZZERS)

# go test -fuzz builds every dependency once more, the standard library too, to be guided by their branches: minutes on a fresh machine. Here
# only our packages are built for that, once for all their fuzzers; the other kind is part of test-system.
.PHONY: fuzz-short
fuzz-short: ## every fuzzer for FUZZCOUNT inputs of the engine's own (default 1000), guided by our code alone, as part of test
	@$(FUZZERS) >/dev/null || { echo 'no fuzzer is called $(FUZZ)'; exit 1; }
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	  $(GO) test -c -vet=off -gcflags='bulkshaper/...=-d=libfuzzer' -o "$$dir/" $$($(FUZZERS) | cut -d' ' -f1 | sort -u) && \
	  $(FUZZERS) | xargs -P 2 -L 1 bash -c 'cd "$$1" && out=$$("$$0/$${1##*/}.test" -test.run "^$$" -test.fuzz "^$$2\$$" -test.fuzztime $(or $(FUZZCOUNT),1000)x -test.parallel 1 \
	    -test.fuzzcachedir "$$($(GO) env GOCACHE)/fuzz/bulkshaper/$${1#./}" 2>&1 </dev/null); code=$$?; echo "== $$1 $$2"; echo "$$out"; exit $$code' "$$dir" || \
	  { echo 'an input that fails is in testdata/fuzz of its package: mend, and commit it'; exit 1; }

.PHONY: bench
bench: build ## the figures that bulkshaper is judged by, each with its baseline (needs root and iproute2); JSON=FILE writes them as JSON too
	$(GO) run ./cmd/bench -program bin/bulkshaper $(if $(JSON),-json $(JSON))

.PHONY: bench-go
bench-go: ## the benchmarks of the packages, each with its baseline
	$(GO) test -run '^$$' -bench . -benchmem -exec '$(subst ','\'',$(ISOLATE))' ./...

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist
