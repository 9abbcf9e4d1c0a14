#!/usr/bin/env bash
# SIGKILL of engine, worker, supervisor or all at random moments while clients submit and real
# handlers run; then every acknowledged task must be there with its fields, ended once, without an
# overlap of attempts, without a process left, and the journal must verify.
#
#   tools/kill_rounds.sh [--short | ROUNDS [SEED]]       default: 50 rounds, seed from the clock
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-50}
[ "$rounds" != --short ] || rounds=8
seed=${2:-$(date +%s)}
cargo build --quiet --release
cargo build --quiet --profile cost --example kills --features sim
exec target/cost/examples/kills "$rounds" "$seed" \
    target/release/midwatch target/release/midwatch-journal tools/kills/handler.sh
