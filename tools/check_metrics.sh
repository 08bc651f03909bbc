#!/usr/bin/env bash
# Lets Prometheus' own checker read /metrics. promtool comes from Debian's package, unpacked and not installed: installing
# it would start a service.  check_metrics.sh BINARY MODEL
set -euo pipefail
binary=$(realpath "$1") model=$(realpath "$2")
tool=build/promtool/usr/bin/promtool
if [ ! -x "$tool" ]; then
  mkdir -p build/promtool
  (cd build/promtool && apt-get download -qq prometheus >/dev/null 2>&1 && dpkg -x prometheus_*.deb . && rm prometheus_*.deb) ||
    { echo "promtool cannot be fetched: metrics not checked"; exit 0; }
fi
said=$(mktemp)
"$binary" serve "$model" --port 0 2>"$said" &
server=$!
trap 'kill $server 2>/dev/null; rm -f "$said"' EXIT
for _ in $(seq 100); do grep -q ready "$said" && break; sleep 0.1; done
address=$(grep -o 'http://[^ ]*' "$said" | head -1)
curl -sf "$address/generate" -d '{"prompt": "Once", "max_tokens": 4}' >/dev/null
curl -sf "$address/metrics" | "$tool" check metrics
echo "promtool has nothing to say about $(curl -sf "$address/metrics" | grep -c '^# TYPE') metrics"
