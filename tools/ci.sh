#!/usr/bin/env bash
# The checks that block a change and are too slow for every build. Run by `make ci`, which installs what they need.
# Each stage has a budget in seconds on 2 cores; going over is printed, a failing stage ends the run.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
fuzz_seconds=${FUZZ_SECONDS:-60}
total_start=$SECONDS

stage() {  # stage NAME BUDGET COMMAND...
  local name=$1 budget=$2 start=$SECONDS
  shift 2
  printf '\n== %s (budget %d s)\n' "$name" "$budget"
  "$@"
  local took=$((SECONDS - start))
  printf '== %s: %d s of %d\n' "$name" "$took" "$budget"
  if [ "$took" -gt "$budget" ]; then printf '== %s went over its budget\n' "$name"; fi
}

tests_under() {  # tests_under PRESET TARGETS CTEST_ARGS...
  local preset=$1 targets=$2
  shift 2
  cmake --preset "$preset" >/dev/null
  # shellcheck disable=SC2086
  cmake --build --preset "$preset" -j "$jobs" --target $targets
  ctest --test-dir "build/$preset" --output-on-failure -j "$jobs" "$@"
}

address_and_undefined() { tests_under asan all; }

# Only what shares state between threads. The programs are run themselves: ctest would miss those that were not built.
threads() {
  local programs="base_test weights_test kv_test lazy_test engine_test http_test api_test server_test"
  cmake --preset tsan >/dev/null
  # shellcheck disable=SC2086
  cmake --build --preset tsan -j "$jobs" --target $programs
  for program in $programs; do
    ROCMFORGE_SIMULATION_SEEDS=200 "$(find build/tsan -name "$program" -type f)" --gtest_brief=1
  done
}

# Lives of a scheduler, by seed: whatever is found is found again by its seed.
simulation() {
  cmake --preset release >/dev/null
  cmake --build --preset release -j "$jobs" --target engine_test
  ROCMFORGE_SIMULATION_SEEDS=100000 build/release/src/engine/engine_test --gtest_brief=1 \
    --gtest_filter='SchedulerSimulation.*'
}

fuzzers() {
  local target names=()
  for target in build/asan/fuzz/*_fuzz; do names+=("$(basename "$target")"); done
  printf '%s\n' "${names[@]}" | xargs -P "$jobs" -I{} bash -c '
    corpus=fuzz/corpus/{}
    work=$(mktemp -d)
    trap "rm -rf $work" EXIT
    build/asan/fuzz/{} -max_total_time='"$fuzz_seconds"' -timeout=5 -rss_limit_mb=2048 -print_final_stats=1 \
      "$work" "$corpus" >"$work.log" 2>&1 || { cat "$work.log"; exit 255; }
    echo "{}: $(grep -o "stat::number_of_executed_units:.*" "$work.log")"
    rm -f "$work.log"'
}

changed_sources() {  # of the last 20 commits, newest first
  local base
  base=$(git rev-list --max-count=21 HEAD | tail -n 1)
  if [ "$(git rev-list --count HEAD)" -le 21 ]; then base=$(git hash-object -t tree /dev/null); fi
  git diff --name-only --diff-filter=d "$base" HEAD -- '*.cpp' '*.h'
}

formatting() { changed_sources | xargs -r clang-format-19 --dry-run -Werror; }

# As many of the changed files as the time allows. Findings are shown and do not fail the run: the analyzer has false
# positives that differ from file to file.
tidy() {
  local deadline=$((SECONDS + 150)) n_done=0 n_with_findings=0 files
  mapfile -t files < <(changed_sources | grep '\.cpp$' | shuf --random-source=<(git rev-parse HEAD))
  for file in "${files[@]}"; do
    [ $SECONDS -lt $deadline ] || break
    grep -q "/$file\"" build/asan/compile_commands.json || continue
    clang-tidy-19 --quiet -p build/asan "$file" 2>/dev/null || n_with_findings=$((n_with_findings + 1))
    n_done=$((n_done + 1))
  done
  echo "clang-tidy: $n_done of ${#files[@]} changed files, $n_with_findings with findings"
}

# The modules of both vendors, as far as their compilers are here. Two AMD targets stand for the eight unless what they
# are compiled from has changed; hot kernels must not spill registers.
gpu_modules() {
  local targets="gfx90a;gfx1100" module
  if changed_sources | grep -qE '^src/(gpu|tensor)/'; then
    targets="gfx90a;gfx942;gfx1030;gfx1100;gfx1101;gfx1151;gfx1200;gfx1201"
  fi
  cmake --preset release -DRF_HIP_TARGETS="$targets" >/dev/null
  for module in hip cuda; do
    if ninja -C build/release -t query "$module" >/dev/null 2>&1; then
      cmake --build --preset release -j "$jobs" --target "$module"
    else
      echo "no compiler for the $module module here"
    fi
  done
  ctest --test-dir build/release --output-on-failure -R '^GpuModule'
  tools/amd_registers.py
}

# Every family, geometry and wave size on the emulated GPUs, of which `make test` runs some.
gpu_families() {
  cmake --preset release -DRF_TESTS=ON >/dev/null
  cmake --build --preset release -j "$jobs" --target gpu_logits_test
  ctest --test-dir build/release --output-on-failure -j "$jobs" -L '^ci$'
}

web() {
  cmake --preset release >/dev/null
  cmake --build --preset release -j "$jobs" --target rocmforge
  tools/web_tests.sh
}

# The server as a process of its own, under load and faults: the short forms.
serving() {
  cmake --preset release -DRF_TESTS=ON >/dev/null
  cmake --build --preset release -j "$jobs" --target rocmforge serving_load
  for scenario in start throughput streams connections overload kills drain soak; do
    build/release/tests/load/serving_load build/release/rocmforge models/story-q4_k_m.gguf "$scenario"
  done
}

stage "GPU modules" 420 gpu_modules
stage "families on emulated GPUs" 300 gpu_families
stage "serving" 180 serving
stage "web page and OpenAI client" 120 web
stage "tests under address and undefined sanitizers" 900 address_and_undefined
stage "tests under thread sanitizer" 480 threads
stage "scheduler simulation" 180 simulation
stage "fuzzers, $fuzz_seconds s each" 240 fuzzers
stage "clang-format" 30 formatting
stage "clang-tidy" 180 tidy
printf '\nall stages passed in %d s\n' $((SECONDS - total_start))
