# The front door. Each target installs what is missing, builds with Bazel and does the job.
#
#   make demo    a real cluster trains on handwritten digits   make test    all tests
#   make build   only builds: bazel-bin/tools/weft             make bench   the benchmarks

STRATEGY ?=

.PHONY: help build demo test bench conformance clean
help:
	@sed -n 's/^#   //p' Makefile

build: .setup
	@bazel build //tools:weft //client:tensorflow //examples/... //benchmarks/...

demo: build
	@STRATEGY=$(STRATEGY) examples/digits/demo

test: .setup
	@tools/run_tests

bench: build
	@bazel-bin/tools/weft bench

conformance: build
	@tests/conformance/run

.PHONY: .setup
.setup:
	@tools/setup

clean:
	@bazel clean
