#!/usr/bin/env bash
# The real engine with one system call of it killed or made to fail, call after call: at its first
# start, at a start after a kill, while it commits, rotates and compacts, while it writes a
# snapshot. After each run everything acknowledged must be there, once, and the journal verify.
# Needs strace. All points take about 20 minutes on two cores.
#
#   tools/inject.sh [POINTS]       default: all of them; else so many, drawn by a fixed seed
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --release
cargo build --quiet --example inject --features sim
mkdir -p target/inject
# Sockets have short names.
dir=$(realpath "$(mktemp -d target/inject/XXXXXX)")
uname -srm
git log -1 --format='commit %h' 2> /dev/null || true
target/debug/examples/inject target/release/midwatch target/release/midwatch-journal "$dir" "$@"
rm -rf "$dir"
