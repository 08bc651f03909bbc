#!/usr/bin/env bash
# Installs the named Debian packages, those that are missing only; sudo only when not root. Of names joined by | the
# first one counts that this release has: libboost1.81-dev|libboost-dev.
set -euo pipefail

is_installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

# Whether the release has the package. apt-cache also succeeds, and prints nothing, for a name that other packages only
# mention: libboost1.81-dev on Debian 13.
is_known() { [ -n "$(apt-cache show "$1" 2>/dev/null)" ]; }

# The name that counts; the last one where the release is said to have none (no list was fetched yet, or a mistake).
choose() {
  local name
  for name in ${1//|/ }; do
    if is_installed "$name" || is_known "$name"; then break; fi
  done
  echo "$name"
}

missing=()
for names in "$@"; do is_installed "$(choose "$names")" || missing+=("$names"); done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
echo "installing: ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
  as_root=(sudo)
  echo "apt-get runs as root: sudo may ask for your password"
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
chosen=()
for names in "${missing[@]}"; do chosen+=("$(choose "$names")"); done
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${chosen[@]}" >/dev/null
