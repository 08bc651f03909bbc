# Two commands do everything on a fresh Debian 12:  make run   and   make test
# The rest of this file is what they stand on. Building itself is CMake's (CMakePresets.json).

SHELL := /bin/bash
JOBS ?= $(shell nproc)
BINARY := build/release/rocmforge
MODEL := models/story-q4_k_m.gguf

DEPS := g++ cmake ninja-build ccache python3 libboost1.81-dev libcli11-dev libspdlog-dev libfmt-dev libpcre2-dev libutf8proc-dev libedit-dev prometheus-cpp-dev
DEPS_TEST := libgtest-dev libgmock-dev librapidcheck-dev python3-jinja2
DEPS_CI := clang-19 clang-tools-19 lld-19 llvm-19 libclang-rt-19-dev clang-format-19 clang-tidy-19 libbenchmark-dev

# A browser; node and npm where there is none yet, whoever packaged it.
DEPS_WEB := chromium $(shell command -v npm >/dev/null || echo nodejs npm)

.PHONY: run test test-fast test-web ci build deps deps-test deps-ci deps-web bench soak format clean

run: build
	$(BINARY) run $(MODEL) -p "Once upon a time" -n 120 --stats

build: deps
	@[ -f build/release/build.ninja ] || cmake --preset release -DRF_TESTS=OFF
	cmake --build --preset release --target rocmforge -j $(JOBS)

test: deps deps-test
	cmake --preset release -DRF_TESTS=ON
	cmake --build --preset release -j $(JOBS)
	ctest --test-dir build/release --output-on-failure -j $(JOBS) -LE '^ci$$'

test-fast: deps deps-test
	cmake --preset release -DRF_TESTS=ON
	cmake --build --preset release -j $(JOBS)
	ctest --test-dir build/release --output-on-failure -j $(JOBS) -L fast

# The page in a browser, the API with OpenAI's client.
test-web: build deps-web
	tools/web_tests.sh $(BINARY)

# The slower checks: sanitizers, fuzzers, style. Each stage prints its time and its budget.
ci: deps deps-test deps-ci deps-web
	tools/ci.sh

# The server under load and faults, at full length: about half an hour.
soak: build deps-test
	cmake --preset release -DRF_TESTS=ON
	cmake --build --preset release -j $(JOBS) --target rocmforge serving_load
	for s in start throughput streams connections overload kills drain soak; do \
	  build/release/tests/load/serving_load $(BINARY) $(MODEL) $$s --long || exit 1; done

bench: deps deps-ci
	cmake --preset release -DRF_BENCH=ON
	cmake --build --preset release -j $(JOBS)
	for b in build/release/bench/*_bench; do $$b || exit 1; done

format: deps-ci
	git ls-files '*.cpp' '*.h' '*.cu' | xargs clang-format-19 -i

deps:
	@tools/install.sh $(DEPS)
deps-test:
	@tools/install.sh $(DEPS_TEST)
deps-ci:
	@tools/install.sh $(DEPS_CI)
deps-web:
	@tools/install.sh $(DEPS_WEB) || echo "no browser: the web tests will say so"

clean:
	rm -rf build
