#!/usr/bin/env bash
# Pictures of the status page in several states, on a phone and on a desk, light and dark:
#
#   bash tools/screens.sh DIR
#
# Takes a Chromium and Python.

set -euo pipefail
dir=${1:?the directory for the pictures}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$dir"
dir=$(realpath "$dir")
MIDWATCH_PAGES=$dir cargo test -q -p midwatch --lib pages_are_written > /dev/null
python3 tests/page/shots.py "$dir"
