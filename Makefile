# The front door. Each target installs what is missing, builds with Bazel and does the job.
#
#   make demo          a real cluster trains on handwritten digits; STRATEGY=mirrored:2 and others say how it is spread
#                      (parameter_server:mode=sync if nothing is said; none: on one worker)
#   make mirrored      a C program builds a model and trains it with the mirrored strategy
#   make job           a C program builds a graph for one device and trains it as a job, under STRATEGY (mirrored:2), and saves it
#   make recommender   a recommender with its tables on two parameter servers
#   make test          all C tests; ends with "N passed, N failed"
#   make build         only builds: bazel-bin/tools/weft
#   make cuda          builds the CUDA device, bazel-bin/kernels/cuda/libweft_cuda.so, with the CUDA toolkit (docs/gpu.md)
#   make install       installs the command, libraries, headers, manual pages and completion under PREFIX (/usr/local), which
#                      must be one that you may write to; DESTDIR, LIBDIR, ... as usual (docs/install.md)
#   make uninstall     removes them
#   make deb           Debian packages of them: weft, libweft0, libweft-dev, in dist/
#   make bench         the benchmarks, each against its bar
#   make conformance   TensorFlow as client and as oracle, in a virtual environment
#   make faults        kills, freezes and restarts tasks of a training cluster in seeded trials (TRIALS=40; HOSTS=1: each
#                      task in namespaces of its own, for root)
#
#   What Bazel, apt-get and pytest say goes to logs/; VERBOSE=1 shows it.

STRATEGY ?=
TRIALS ?= 40
HOSTS ?=

.PHONY: help build cuda demo recommender mirrored job test bench conformance faults install uninstall deb clean
help:
	@sed -n 's/^#   //p' Makefile

build: .setup
	@tools/quietly build bazel build //tools:weft //client:tensorflow //jobs:libweft.so //include:weft_ops //examples/... //benchmarks/...

cuda: build
	@tools/quietly cuda bazel build //kernels/cuda:libweft_cuda.so

demo: build
	@STRATEGY='$(STRATEGY)' examples/digits/demo

recommender: build
	@examples/recommender/run

mirrored: build
	@bazel-bin/examples/mirrored/train

job: build
	@d=$$(mktemp -d) && bazel-bin/examples/job/train '$(or $(STRATEGY),mirrored:2)' '' "$$d/spirals"; code=$$?; rm -rf "$$d"; exit $$code

# The last line is the count, also when a test failed: SIGQUIT ends make with code 1 and without a word of its own.
test: .setup
	@tools/quietly test tools/run_tests || kill -QUIT $$PPID

bench: build
	@bazel-bin/tools/weft bench

conformance: build
	@tools/quietly conformance tests/conformance/run

faults: build
	@tests/cluster/faults.py --trials $(TRIALS) $(if $(HOSTS),--hosts)

# What tools/install and tools/deb read from the environment.
export PREFIX DESTDIR LIBDIR INCLUDEDIR MANDIR DOCDIR BASH_COMPLETION_DIR ZSH_COMPLETION_DIR DIST

install: .setup
	@tools/quietly install bazel build //tools:weft //client:libtensorflow.so //jobs:libweft.so //include:weft_ops
	@tools/install

deb: .setup
	@tools/setup debhelper
	@tools/quietly install bazel build //tools:weft //client:libtensorflow.so //jobs:libweft.so //include:weft_ops
	@tools/quietly deb tools/deb

uninstall:
	@tools/install --uninstall

.PHONY: .setup
.setup:
	@tools/setup

clean:
	@bazel clean
