#!/usr/bin/env bash
# Pictures of the status page in several states, on a phone and on a desk, light and dark, and of
# `midwatch top` in a small and a large terminal:
#
#   bash tools/screens.sh DIR
#
# Takes a Chromium and Python.

set -euo pipefail
dir=${1:?the directory for the pictures}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$dir"
dir=$(realpath "$dir")
MIDWATCH_PAGES=$dir cargo test -q -p midwatch --lib are_written_where_somebody > /dev/null
python3 tests/page/shots.py "$dir"
