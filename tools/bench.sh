#!/usr/bin/env bash
# The project's own figures, against what the machine allows and against the peers that are installed
# (beanstalkd, redis-server, task-spooler, nq). Everything listens on unix sockets in one directory
# on the file system below target/, and is bounded in count and time. About five minutes, as much again for the
# backlog and the snapshots, and some for the endurance.
#
#   tools/bench.sh [submit] [bulk] [cycle] [commands] [endurance] [backlog] [snapshots] [wear]       default: all of them
#   ROUNDS=5 SPAN_MS=800 tools/bench.sh                     rounds, and how long one load runs
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --release --bins
cargo build --quiet --profile cost --example bench
mkdir -p target/bench
dir=$(mktemp -d target/bench/XXXXXX)
trap 'rm -rf "$dir"' EXIT
# Sockets have short names.
dir=$(realpath "$dir")
uname -srm
nproc | sed 's/$/ processors/'
git log -1 --format='commit %h' 2>/dev/null || true
target/cost/examples/bench target/release/midwatch "$dir" "${ROUNDS:-5}" "${SPAN_MS:-800}" "$@"
