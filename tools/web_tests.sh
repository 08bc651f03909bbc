#!/usr/bin/env bash
# web_tests.sh [BINARY]: the web page in Chromium, and the APIs with their vendors' clients and promtool, against BINARY
# serving the bundled model, and against tests/web/scripted_server in BINARY's build tree. Needs node, npm's registry and
# Chromium (make deps-web). Where one is missing it says so and passes; in CI (CI=true) the programs should be there, and
# only a registry that does not answer is excused.
set -euo pipefail
cd "$(dirname "$0")/.."
export ROCMFORGE=${1:-$PWD/build/release/rocmforge}
export SCRIPTED_SERVER=$(dirname "$ROCMFORGE")/tests/web/scripted_server
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rocmforge

missing() {
  echo "web tests not run: $1"
  if [ "${CI:-}" = true ]; then exit 1; fi
  exit 0
}

# Debian's package, unpacked and not installed: installing it would start a service.
fetch_promtool() {
  local folder=$cache/prometheus
  [ -x "$folder/usr/bin/promtool" ] || {
    rm -rf "$folder" && mkdir -p "$folder"
    (cd "$folder" && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb usr/bin/prometheus)
  } >/dev/null 2>&1 || return 1
  export PROMTOOL=$folder/usr/bin/promtool
}

for program in "$ROCMFORGE" "$SCRIPTED_SERVER"; do
  [ -x "$program" ] || { echo "no program at $program: build it first"; exit 1; }
done
for program in node npm chromium; do
  command -v "$program" >/dev/null || missing "there is no $program (make deps-web installs it)"
done
if [ ! tests/web/node_modules/.package-lock.json -nt tests/web/package-lock.json ]; then
  (cd tests/web && npm ci --no-audit --no-fund --loglevel=error) || {
    echo "web tests not run: npm could not install what tests/web/package-lock.json lists"
    exit 0  # also in CI: that the registry does not answer says nothing of this change
  }
fi
fetch_promtool || echo "promtool could not be fetched: /metrics is checked without it"

exec node --test --test-concurrency=2 --test-timeout=120000 tests/web/*.test.mjs
