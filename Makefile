# make alone prints what there is. Whatever a target needs besides Go it gets by
# .ci/setup, which says what it does. Written for GNU Make 3.81 and any /bin/sh.

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Without -buildvcs=false a checkout that belongs to another user doesn't build.
BUILD = go build -buildvcs=false

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test clusters build lint gofmt vet staticcheck scripts darwin setup setup-demo go clean

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: build setup-demo ## play scenario crash-claim on a real RabbitMQ and Redis; gets what is missing
	@echo '· notifylab scenario crash-claim'
	@bin/notifylab scenario crash-claim

# A report of a race goes to a file, so that one in a child counts, too, whatever
# becomes of what the child prints.
test: setup build ## run all tests, with the race detector and a private RabbitMQ and Redis; gets what is missing
	@echo '· building bin/race/notifylab, for the tests that start it'
	@$(BUILD) -race -o bin/race/notifylab ./cmd/notifylab
	@echo '· go test -race -count=1 -timeout 30m ./...'
	@reports='$(CURDIR)'/bin/race/reports.$$$$; mkdir -p "$$reports" || exit 1; status=0; \
	NOTIFYLAB_BIN='$(CURDIR)/bin/race/notifylab' NOTIFYLAB_PLAIN_BIN='$(CURDIR)/bin/notifylab' GORACE="$$GORACE log_path='$$reports/race'" \
		bin/notifylab servers run -- go test -race -count=1 -timeout 30m ./... || status=$$?; \
	for report in "$$reports"/race.*; do \
		if [ -f "$$report" ]; then cat "$$report"; echo 'make test: a data race, above' >&2; status=1; fi; \
	done; \
	rm -rf "$$reports"; exit $$status

# Up to nine servers at once, so not part of make test.
clusters: setup build ## kill nodes of a RabbitMQ cluster and of a Redis Cluster under load, and print what it came to
	@echo '· building bin/race/notifylab, for the tests that start it'
	@$(BUILD) -race -o bin/race/notifylab ./cmd/notifylab
	@echo '· go test -race -count=1 -timeout 30m -run Clusters ./internal/servers ./internal/lab ./cmd/notifylab'
	@NOTIFYLAB_CLUSTER=1 NOTIFYLAB_BIN='$(CURDIR)'/bin/race/notifylab NOTIFYLAB_PLAIN_BIN='$(CURDIR)'/bin/notifylab \
		go test -race -count=1 -timeout 30m -p 1 -v -run '[Cc]lusters' ./internal/servers ./internal/lab ./cmd/notifylab

build: go ## build bin/notifylab
	@echo '· building bin/notifylab'
	@go mod download 2>/dev/null || true # so that the build needn't tell of each; if it matters it says so
	@$(BUILD) -o bin/notifylab ./cmd/notifylab

lint: gofmt vet staticcheck scripts darwin ## run all five checks of the source (make -k lint: even if one fails)

gofmt: go ## check that the source is formatted
	@echo '· gofmt'
	@files=$$("$$(go env GOROOT)/bin/gofmt" -l cmd internal) || exit 1; \
	if [ -n "$$files" ]; then echo 'not formatted, gofmt -w would change:' >&2; echo "$$files" >&2; exit 1; fi

vet: go ## go vet, for Linux and macOS
	@echo '· go vet, as for Linux'
	@GOOS=linux go vet ./...
	@echo '· go vet, as for macOS'
	@GOOS=darwin go vet ./...

staticcheck: go ## staticcheck, at a pinned version
	@echo '· staticcheck'
	@go run $(STATICCHECK) ./...

scripts: ## check the scripts in .ci for syntax
	@echo '· bash -n .ci/*'
	@for script in .ci/*; do bash -n "$$script" || exit 1; done

darwin: go ## build for macOS, Intel and Apple
	@echo '· go build, as for macOS'
	@GOOS=darwin GOARCH=amd64 $(BUILD) ./...
	@GOOS=darwin GOARCH=arm64 $(BUILD) ./...

setup: go ## install what make test needs and is missing: RabbitMQ, Redis, a C compiler
	@.ci/setup test

setup-demo: go ## find servers for make demo: that answer, or are installed, or by Docker; else install
	@.ci/setup demo

go: ## check that Go is there and new enough
	@.ci/setup go

clean: ## remove bin
	@rm -rf bin
