#!/usr/bin/env bash
# Fuzzes every target, or one, from the kept inputs on. Needs a nightly toolchain and cargo-fuzz.
#
#   tools/fuzz.sh [SECONDS [TARGET…]]       default: 60 seconds each of frame, store, repair,
#                                           body, commands
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
seconds=${1:-60}
shift || true
[ $# -gt 0 ] || set -- frame store repair body commands
for target in "$@"; do
    echo "==== $target"
    mkdir -p "corpus/$target"
    log=$(mktemp)
    # What is kept comes second: new inputs go to the first directory.
    cargo +nightly fuzz run --features fuzzer "$target" "corpus/$target" "seeds/$target" -- \
        -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=2048 -print_final_stats=1 \
        > "$log" 2>&1 || { tail -n 60 "$log"; exit 1; }
    grep -E 'DONE|^stat::' "$log"
    rm -f "$log"
done
