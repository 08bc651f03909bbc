# Two commands do everything on a fresh Debian 12:  make run   and   make test
# The rest of this file is what they stand on. Building itself is CMake's (CMakePresets.json).

SHELL := /bin/bash
JOBS ?= $(shell nproc)
BINARY := build/release/rocmforge
MODEL := models/story-q4_k_m.gguf

DEPS := g++ cmake ninja-build ccache python3 "libboost1.81-dev|libboost-dev" libcli11-dev libspdlog-dev libfmt-dev libpcre2-dev libutf8proc-dev libedit-dev libssl-dev prometheus-cpp-dev
DEPS_TEST := libgtest-dev libgmock-dev librapidcheck-dev python3-jinja2 pkgconf
DEPS_GPU := clang-19 lld-19 llvm-19 clang-tools-19
DEPS_DEB := dpkg-dev file
DEPS_CI := clang-19 clang-tools-19 lld-19 llvm-19 libclang-rt-19-dev clang-format-19 clang-tidy-19 libbenchmark-dev zsh fish man-db

# make gpu RF_HIP_TARGETS=gfx1103, make deb RF_HIP_TARGETS="gfx1030 gfx1100": other AMD targets than the usual ones.
empty :=
HIP_TARGETS = $(if $(RF_HIP_TARGETS),"-DRF_HIP_TARGETS=$(subst $(empty) $(empty),;,$(strip $(RF_HIP_TARGETS)))")

HAS_NVCC := command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]

# A browser; node and npm where there is none yet, whoever packaged it.
DEPS_WEB := chromium $(shell command -v npm >/dev/null || echo nodejs npm)

.PHONY: run install gpu gpu-of-this-machine amd test test-fast test-web ci nightly build deps deps-gpu deps-test deps-ci deps-deb deps-web bench soak deb format clean

run: build gpu-of-this-machine
	$(BINARY) run $(MODEL) -p "Once upon a time" -n 120 --stats

build: deps
	@[ -f build/release/build.ninja ] || cmake --preset release -DRF_TESTS=OFF
	cmake --build --preset release --target rocmforge -j $(JOBS)

# The module of the card that is here, if there is one.
gpu-of-this-machine: build
	@if [ -e /dev/kfd ]; then \
	  tools/install.sh $(DEPS_GPU) && cmake --preset release >/dev/null && \
	  cmake --build --preset release -j $(JOBS) --target hip || \
	  echo "an AMD GPU is here, but its module was not built: install $(DEPS_GPU), then run make gpu"; \
	fi
	@if [ -e /dev/nvidiactl ]; then \
	  if $(HAS_NVCC); then \
	    cmake --preset release >/dev/null && cmake --build --preset release -j $(JOBS) --target cuda; \
	  else \
	    echo "an NVIDIA GPU is here, but no nvcc: install the CUDA toolkit, then run make gpu"; \
	  fi; \
	fi

# To /usr/local, or where PREFIX says: make install PREFIX=~/rocmforge
install: build
	cmake --install build/release --prefix $(or $(PREFIX),/usr/local)

# The GPU modules, as far as compilers are there: clang-19 (installed here) makes AMD's, nvcc NVIDIA's.
gpu: deps deps-gpu
	cmake --preset release $(or $(HIP_TARGETS),-U RF_HIP_TARGETS) $(if $(wildcard build/release/build.ninja),,-DRF_TESTS=OFF)
	cmake --build --preset release -j $(JOBS) --target rocmforge hip
	@if $(HAS_NVCC); then \
	  cmake --build --preset release -j $(JOBS) --target cuda; \
	else echo "no nvcc: the module for NVIDIA cards was not built; install the CUDA toolkit and run make gpu again"; fi

test: deps deps-test
	cmake --preset release -DRF_TESTS=ON
	cmake --build --preset release -j $(JOBS)
	ctest --test-dir build/release --output-on-failure -j $(JOBS) -LE '^(ci|amd)$$'

test-fast: deps deps-test
	cmake --preset release -DRF_TESTS=ON
	cmake --build --preset release -j $(JOBS)
	ctest --test-dir build/release --output-on-failure -j $(JOBS) -L fast

# AMD's machine code, executed on this CPU: every kernel and the goldens (docs/amd.md).
amd: deps deps-test deps-gpu
	cmake --preset release -DRF_TESTS=ON
	cmake --build --preset release -j $(JOBS) --target hip machine_code
	tools/amd_machine_code.py
	tools/amd_machine_code.py --seed 7
	tools/amd_gates.py --targets all
	ctest --test-dir build/release --output-on-failure -j $(JOBS) -L '^amd$$'

# The page in a browser, the APIs with their vendors' clients.
test-web: build deps-web
	cmake --build --preset release --target scripted_server -j $(JOBS)
	tools/web_tests.sh $(BINARY)

# The slower checks: sanitizers, fuzzers, style. Each stage prints its time and its budget.
ci: deps deps-test deps-ci deps-web
	tools/ci.sh

# The same stages in their long forms.
nightly: deps deps-test deps-ci deps-web
	RF_NIGHTLY=1 tools/ci.sh

# The server under load and faults, at full length: about half an hour.
soak: build deps-test
	cmake --preset release -DRF_TESTS=ON
	cmake --build --preset release -j $(JOBS) --target rocmforge serving_load
	for s in start throughput streams connections overload kills drain soak; do \
	  build/release/tests/load/serving_load $(BINARY) $(MODEL) $$s --long || exit 1; done

# Debian packages for this release of Debian, in build/release/packages: see docs/install.md. All AMD targets, whatever
# an earlier build was told.
deb: deps deps-gpu deps-deb
	cmake --preset release $(or $(HIP_TARGETS),-U RF_HIP_TARGETS) $(if $(wildcard build/release/build.ninja),,-DRF_TESTS=OFF)
	cmake --build --preset release -j $(JOBS) --target rocmforge
	@for module in hip cuda; do \
	  if ninja -C build/release -t query $$module >/dev/null 2>&1; then \
	    cmake --build --preset release -j $(JOBS) --target $$module || exit 1; fi; done
	rm -rf build/release/packages
	cd build/release && cpack -G DEB

bench: deps deps-ci
	cmake --preset release -DRF_BENCH=ON
	cmake --build --preset release -j $(JOBS)
	for b in build/release/bench/*_bench; do $$b || exit 1; done

format: deps-ci
	git ls-files '*.cpp' '*.h' '*.cu' | xargs clang-format-19 -i

deps:
	@tools/install.sh $(DEPS)
deps-gpu:
	@tools/install.sh $(DEPS_GPU)
deps-test:
	@tools/install.sh $(DEPS_TEST)
deps-ci:
	@tools/install.sh $(DEPS_CI)
deps-deb:
	@tools/install.sh $(DEPS_DEB)
deps-web:
	@tools/install.sh $(DEPS_WEB) || echo "no browser: the web tests will say so"

clean:
	rm -rf build
