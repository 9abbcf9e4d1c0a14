#!/usr/bin/env bash
# Fuzzes every target, or some, from the kept inputs on. Needs a nightly toolchain and cargo-fuzz.
#
#   tools/fuzz.sh [SECONDS [TARGET…]]       default: 60 seconds each of all
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
seconds=${1:-60}
shift || true
[ $# -gt 0 ] || set -- frame scan snapshot store repair body commands api config submission door
for target in "$@"; do
    echo "==== $target"
    mkdir -p "corpus/$target"
    features=fuzzer
    case $target in config | submission | door) features=fuzzer,host ;; esac
    log=$(mktemp)
    # What is kept comes second: new inputs go to the first directory. No reader may ask for memory
    # by a length that nothing vouches for; the largest frame has 4 MiB.
    cargo +nightly fuzz run --features "$features" "$target" "corpus/$target" "seeds/$target" -- \
        -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=2048 -malloc_limit_mb=64 \
        -len_control=0 -print_final_stats=1 > "$log" 2>&1 || { tail -n 60 "$log"; exit 1; }
    grep -E 'DONE|^stat::' "$log"
    rm -f "$log"
done
