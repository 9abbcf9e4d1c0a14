#!/usr/bin/env bash
# Ten handlers that print five million lines on each of their two streams at once: whether they
# stall, and what the worker holds meanwhile.
#
#   tools/flood.sh [LINES]       default: 5000000 on each stream of each handler
set -euo pipefail
cd "$(dirname "$0")/.."
uname -srm
git log -1 --format='commit %h' 2> /dev/null || true
MIDWATCH_B65_LINES="${1:-5000000}" cargo test --release --quiet --test it -- --nocapture \
    --exact field::surroundings::b65_ten_floods_on_both_streams_neither_stall_nor_take_memory
