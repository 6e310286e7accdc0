# `make run` and `make test` are the two commands; `make help` lists the rest. Every step is skipped when its inputs
# have not changed (stamps hold a hash of manifest and script), so a second call fetches and builds nothing.
#   LIBTORCH=folder      use an installed libtorch (include/ and lib/) instead of the wheel
#   GLOO_INCLUDE=folder  use gloo headers that are there already
#   TESTFLAGS=…          more flags for go test, for example TESTFLAGS='-run Packing ./train'
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help run test test-setup test-native test-go interop golden cuda lint nightly smollm2 nano-model setup native test-models bin/seadtrain clean clean-all

ifdef LIBTORCH
override LIBTORCH := $(abspath $(LIBTORCH))
export LIBTORCH
endif
export GLOO_INCLUDE

# libgomp reads this when it is loaded: spinning barriers make two-thread runs up to 100 times slower beside other work.
export OMP_WAIT_POLICY ?= passive

help: ## this list
	@grep -hE '^[a-z/-]+:.*## ' Makefile | sed -E 's/^([a-z\/-]+):.*## (.*)/\1\t\2/' | expand -t 15

run: bin/seadtrain ## the whole loop on the nano model, minutes on two cores
	@bin/seadtrain run configs/nano.toml

test: bin/seadtrain test-models ## every test: set-up scripts, C++ (plain and AddressSanitizer), Go
	@scripts/timed.sh "set-up scripts" scripts/test-setup.sh
	@$(MAKE) test-native
	@$(MAKE) test-go

test-setup: ## the set-up's own tests: wrong hash, full disk, interruption …
	@scripts/test-setup.sh

test-native: setup ## the shim's C++ tests, plain and under AddressSanitizer
	@scripts/build-native.sh tests
	@scripts/timed.sh "C++ tests" ctest --test-dir build/native --output-on-failure --no-tests=error
	@scripts/timed.sh "AddressSanitizer build" scripts/build-native.sh asan
	@scripts/timed.sh "C++ tests, AddressSanitizer" ctest --test-dir build/asan --output-on-failure --no-tests=error

test-go: bin/seadtrain test-models
	@scripts/timed.sh "Go tests" go test -timeout 40m $(or $(TESTFLAGS),./...)

interop: bin/seadtrain test-models ## our output loaded by Hugging Face, TRL and PEFT (a venv of 5 GB)
	@scripts/interop-venv.sh
	@scripts/timed.sh "interop tests" scripts/interop.sh $(INTEROP)

golden: ## makes the committed fixtures again (GOLDEN=word: only generators with it in their path)
	@scripts/check-tools.sh
	@scripts/interop-venv.sh
	@scripts/golden.sh $(GOLDEN)

cuda: setup ## compiles and links the CUDA plugin; needs no GPU
	@[[ -n "$${LIBTORCH:-}" ]] || scripts/fetch-libtorch.sh cuda
	@scripts/build-native.sh cuda

lint: native ## gofmt, vet, staticcheck and the rules of this house
	@scripts/lint.sh

nightly: bin/seadtrain test-models ## fuzzing and long soaks, two hours (FUZZTIME=5m for each target)
	@scripts/nightly.sh $(NIGHTLY)

smollm2: bin/seadtrain ## fetches SmolLM2-135M-Instruct and converts it to a Hugging Face directory
	@scripts/fetch-model.sh smollm2
	@scripts/convert-smollm2.sh

nano-model: bin/seadtrain ## makes the shipped nano model again: corpus, tokenizer, supervised fine-tuning
	@scripts/nano-model.sh

setup: ## fetches and builds what does not change: libtorch, gloo headers, tokenizer library
	@scripts/setup.sh

native: ## libseadnative.so, by CMake and Ninja
	@scripts/setup.sh native

bin/seadtrain: native ## the program
	@scripts/build-go.sh

test-models: smollm2
	@scripts/fetch-model.sh qwen-tokenizer
	@scripts/fetch-model.sh qwen3-tokenizer

clean: ## removes what was built here; keeps what was fetched
	rm -rf bin build/native build/asan build/log build/interop build/bench

clean-all: clean ## removes everything git ignores here, downloads included
	rm -rf build third_party/site third_party/gloo third_party/tokenizers third_party/models third_party/.[a-z]* third_party/READY
