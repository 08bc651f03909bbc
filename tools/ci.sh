#!/usr/bin/env bash
# The checks that block a change and are too slow for every build. Run by `make ci`, which installs what they need.
# Each stage has a budget in seconds on 2 cores; going over is printed, a failing stage ends the run.
#
# A stage whose rooms did not change runs its short form. `make nightly` sets RF_NIGHTLY: every stage runs its long form.
#
#   tools/ci.sh [STAGE...]    only the stages whose names begin so: tools/ci.sh references fuzzers
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
nightly=${RF_NIGHTLY:-}
total_start=$SECONDS

only=("$@")
is_wanted() {  # is_wanted STAGE
  local wanted
  [ ${#only[@]} -gt 0 ] || return 0
  for wanted in "${only[@]}"; do [[ $1 != "$wanted"* ]] || return 0; done
  return 1
}

stage() {  # stage NAME BUDGET COMMAND...
  local name=$1 budget=$2 start=$SECONDS
  shift 2
  is_wanted "$name" || return 0
  printf '\n== %s (budget %d s)\n' "$name" "$budget"
  "$@"
  local took=$((SECONDS - start))
  printf '== %s: %d s of %d\n' "$name" "$took" "$budget"
  if [ "$took" -gt "$budget" ]; then printf '== %s went over its budget\n' "$name"; fi
}

# Source files that changed in the last 20 commits.
changed_sources() {
  local n=20 base
  if [ "$(git rev-list --count HEAD)" -le "$n" ]; then
    base=$(git hash-object -t tree /dev/null)
  else
    base=$(git rev-parse "$(git rev-list --max-count=$((n + 1)) HEAD | tail -n 1)")
  fi
  git diff --name-only --diff-filter=d "$base" HEAD -- "$@"
}

has_changed() {  # has_changed ROOM...: whether a source of these rooms changed; always true in the nightly run
  local room patterns=()
  [ -z "$nightly" ] || return 0
  for room in "$@"; do patterns+=("src/$room/*"); done
  [ -n "$(changed_sources "${patterns[@]}")" ]
}

run_programs() {  # run_programs PRESET PROGRAM...: whole test programs, two at a time, which is faster than ctest
  local preset=$1 program
  shift
  for program in "$@"; do find "build/$preset" -name "$program" -type f; done |
    xargs -P "$jobs" -I{} bash -c '{} --gtest_brief=1 >"{}.log" 2>&1 || { cat "{}.log"; echo "{} failed"; exit 255; }'
}

# What reads foreign bytes and shares memory, always; kernels and whole models when their rooms changed. The nightly run
# takes every test, one by one, and sanitizes the tests themselves.
address_and_undefined() {
  local programs="engine_test tokenizer_hostile_test base_test thread_test tensor_test gguf_test gguf_large_file_test
    gguf_bad_input_test gguf_models_test tokenizer_test grammar_test chat_room_test jinja_test chat_template_test model_test weights_test
    weights_memory_test kv_test plan_test doctor_test http_test api_test server_test page_test"  # the longest first
  if has_changed cpu; then programs+=" cpu_test"; fi
  local kernels=
  if has_changed gpu; then kernels="gpu_emu_test gpu_kernels_test"; fi
  if [ -n "$nightly" ]; then
    cmake --preset asan -DRF_SANITIZE_TESTS=ON >/dev/null
    cmake --build --preset asan -j "$jobs"
    ctest --test-dir build/asan --output-on-failure -j "$jobs"
    return
  fi
  cmake --preset asan -DRF_SANITIZE_TESTS=OFF >/dev/null
  # shellcheck disable=SC2086
  cmake --build --preset asan -j "$jobs" --target $programs $kernels fuzzers rocmforge
  # A quarter of the tests of GPU kernels, by the commit: all of them take twelve minutes.
  local quarter=$((16#$(git rev-parse HEAD | cut -c 1-4) % 4))
  # shellcheck disable=SC2086
  GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$quarter run_programs asan $kernels &
  local sanitizing_kernels=$!
  # shellcheck disable=SC2086
  ROCMFORGE_SIMULATION_SEEDS=200 run_programs asan $programs
  wait "$sanitizing_kernels"
  ctest --test-dir build/asan --output-on-failure -j "$jobs" -R '_corpus$|^cli'
}

# Only what shares state between threads. The programs are run themselves: ctest would miss those that were not built.
threads() {
  local programs="base_test weights_test kv_test lazy_test engine_test http_test api_test server_test"
  cmake --preset tsan >/dev/null
  # shellcheck disable=SC2086
  cmake --build --preset tsan -j "$jobs" --target $programs
  # shellcheck disable=SC2086
  ROCMFORGE_SIMULATION_SEEDS=200 run_programs tsan $programs
}

# Random request traffic against the scheduler. A failure prints its seed.
simulation() {
  local seeds=20000
  if has_changed engine kv; then seeds=100000; fi
  cmake --preset release >/dev/null
  cmake --build --preset release -j "$jobs" --target engine_test
  ROCMFORGE_SIMULATION_SEEDS=$seeds build/release/src/engine/engine_test --gtest_brief=1 \
    --gtest_filter='SchedulerSimulation.*'
}

fuzzers() {
  local target names=() fuzz_seconds=20
  if has_changed base gguf tensor tokenizer grammar chat server; then fuzz_seconds=30; fi
  if [ -n "$nightly" ]; then fuzz_seconds=600; fi
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

formatting() { changed_sources '*.cpp' '*.h' | xargs -r clang-format-19 --dry-run -Werror; }

# As many of the changed files as the time allows. Findings are shown and do not fail the run: the analyzer has false
# positives that differ from file to file.
tidy() {
  local deadline=$((SECONDS + ${nightly:+9}90)) n_done=0 n_with_findings=0 files
  mapfile -t files < <(changed_sources '*.cpp' | shuf --random-source=<(yes "$(git rev-parse HEAD)"))
  for file in "${files[@]}"; do
    [ $SECONDS -lt $deadline ] || break
    grep -q "/$file\"" build/asan/compile_commands.json || continue
    clang-tidy-19 --quiet -p build/asan "$file" 2>/dev/null || n_with_findings=$((n_with_findings + 1))
    n_done=$((n_done + 1))
  done
  echo "clang-tidy: $n_done of ${#files[@]} changed files, $n_with_findings with findings"
}

# The modules of both vendors, as far as their compilers are here. Five AMD targets, one of each set of instructions, stand
# for all; the nightly run builds every one.
gpu_modules() {
  local module
  if [ -n "$nightly" ]; then
    cmake --preset release -U RF_HIP_TARGETS >/dev/null
  else
    cmake --preset release -DRF_HIP_TARGETS="gfx90a;gfx942;gfx1030;gfx1100;gfx1201" >/dev/null
  fi
  for module in hip cuda; do
    if ninja -C build/release -t query "$module" >/dev/null 2>&1; then
      cmake --build --preset release -j "$jobs" --target "$module"
    else
      echo "no compiler for the $module module here"
    fi
  done
  ctest --test-dir build/release --output-on-failure -R '^GpuModule'
}

# The assembly of every kernel file held to its table: one target of each set of instructions, by night all.
amd_assembly() {
  if [ -n "$nightly" ]; then
    tools/amd_gates.py --targets all
  elif has_changed tensor gpu; then
    tools/amd_gates.py
  fi
}

# Machine code, executed: each kernel by its tests on five targets; on two, the self-test, one golden for each kind of
# family and one for each format. The nightly run takes all goldens, and kernels in another order.
amd_machine_code() {
  local goldens='MachineCodeOf|^MachineCodeGoldens.*64_rows|^MachineCodeQuants'
  goldens+='|^MachineCodeFamilies.*_(gemma3|gpt_oss|qwen3moe|starcoder2)( |$)'
  goldens+='|MachineCodeVariants.*/gfx(1100|942)_(gemma4_moe|llama4|step35|bailingmoe2|mimo2|bloom|lfm2|qwen35|mamba2|mamba)( |$)'
  goldens+='|^MachineCodeEmbeddings.*_(bert_mean|bert_rank|modern_bert_cls)( |$)'
  goldens+='|^OtherTargets/.*(llama_.*_64_rows|_gemma3|_qwen35|_Q4_K_M)( |$)'
  cmake --preset release -DRF_TESTS=ON >/dev/null
  if ! ninja -C build/release -t query hip >/dev/null 2>&1; then
    echo "no compiler for AMD's machine code here"
    return
  fi
  cmake --build --preset release -j "$jobs" --target hip machine_code
  tools/amd_machine_code.py
  if [ -n "$nightly" ]; then
    tools/amd_machine_code.py --seed 7
    goldens=.
  fi
  ctest --test-dir build/release --output-on-failure -j "$jobs" -L '^amd$' -R "$goldens"
}

# The tests that `make test` leaves out: every family, geometry and wave size against the reference. The short form runs
# llama alone.
references() {
  local only=llama
  if has_changed tensor model plan cpu gpu; then only=.; fi
  cmake --preset release -DRF_TESTS=ON >/dev/null
  cmake --build --preset release -j "$jobs"
  ctest --test-dir build/release --output-on-failure -j "$jobs" -L '^ci$' -R "$only"
}

# Every file includes what it uses: the build without precompiled headers says so.
includes() {
  cmake --preset release -B build/plain -DRF_PCH=OFF -DRF_TESTS=ON >/dev/null
  cmake --build build/plain -j "$jobs"
}

web() {
  cmake --preset release >/dev/null
  cmake --build --preset release -j "$jobs" --target rocmforge scripted_server
  tools/web_tests.sh
}

# The server as a process of its own, under load and faults.
serving() {
  local form=()
  if [ -n "$nightly" ]; then form=(--long); fi
  cmake --preset release -DRF_TESTS=ON >/dev/null
  cmake --build --preset release -j "$jobs" --target rocmforge serving_load serving_attacks
  for scenario in start throughput streams connections overload kills drain soak; do
    build/release/tests/load/serving_load build/release/rocmforge models/story-q4_k_m.gguf "$scenario" "${form[@]}"
  done
  build/release/tests/load/serving_attacks build/release/rocmforge models/story-q4_k_m.gguf
}

# Three servers behind HAProxy: it measures, and wants a machine for itself.
scaling() {
  tools/install.sh haproxy || echo "haproxy cannot be installed: the test will say so"
  python3 tests/scaling_test.py build/release/rocmforge
}

# The Debian packages, installed, used, upgraded and purged in a fresh Debian.
packages() {
  make deb JOBS="$jobs"
  tools/install.sh mmdebstrap || echo "mmdebstrap cannot be installed: the test of the packages will say so"
  python3 tests/deb_test.py build/release/packages
}

stage "GPU modules" 420 gpu_modules
stage "AMD assembly" 300 amd_assembly
stage "AMD machine code" 300 amd_machine_code
stage "references" 300 references
stage "serving" 240 serving
stage "web page and OpenAI client" 120 web
stage "tests under address and undefined sanitizers" 900 address_and_undefined
stage "tests under thread sanitizer" 480 threads
stage "scheduler simulation" 180 simulation
stage "fuzzers" 240 fuzzers
stage "clang-format" 30 formatting
if [ -n "$nightly" ]; then
  stage "servers behind HAProxy" 120 scaling
  stage "includes" 1200 includes
  stage "packages" 900 packages
fi
stage "clang-tidy" 180 tidy
printf '\nall stages passed in %d s\n' $((SECONDS - total_start))
