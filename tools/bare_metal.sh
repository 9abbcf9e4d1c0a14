#!/usr/bin/env bash
# The bare-metal test: the real daemon with real handlers and people at it, while engine, workers,
# supervisor and handlers are killed and stopped, the wall clock and the boot clock jump, the disk
# fills to the byte, and connections break. In the end everything acknowledged must have come to
# exactly one end, no two attempts of a task may ever have run at once, no checkpoint may have gone
# back, no process may be left, and the journal must verify.
#
#   tools/bare_metal.sh [DURATION [SEED]]       default: 2m, seed from the clock
#
# Needs unshare and nsenter, and libfaketime for the wall clock; what is missing is said. A run
# that fails keeps its directory and says where it is.
set -euo pipefail
cd "$(dirname "$0")/.."
span=${1:-2m} seed=${2:-$(date +%s)}
cargo build --quiet --release --bins
cargo build --quiet --example metal --features sim
mkdir -p target/metal
# Sockets have short names.
dir=$(realpath "$(mktemp -d target/metal/XXXXXX)")
uname -srm
git log -1 --format='commit %h' 2>/dev/null || true
echo "bare metal: $span, seed $seed, in $dir"
target/debug/examples/metal "$span" "$seed" \
    target/release/midwatch target/release/midwatch-journal tools/metal/handler.sh "$dir"
rm -rf "$dir"
