#!/usr/bin/env bash
# Instructions for one submission and for one finish-and-lease, by the number of waiting tasks; or
# for one fire of a schedule, by the number of schedules.
# Seconds are noise on a shared machine; instruction counts repeat. Needs valgrind.
#
#   tools/cost.sh [TASKS…]            default: 1000 100000 1000000 (the last takes some minutes)
#   tools/cost.sh fires [SCHEDULES…]  default: 10 1000 10000
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "cost.sh: valgrind is not installed" >&2; exit 1; }
cargo build --quiet --profile cost --example cost --features sim
program=target/cost/examples/cost
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
what=waiting words=()
if [ "${1-}" = fires ]; then
    what=schedules words=(fires)
    shift
    [ $# -gt 0 ] || set -- 10 1000 10000
fi
first=
printf '%10s  %22s  %s\n' "$what" 'instructions a cycle' 'against the first'
for tasks in "${@:-1000 100000 1000000}"; do
    for n in $tasks; do
        valgrind --quiet --tool=callgrind --callgrind-out-file="$out/$n" \
            --toggle-collect='cost::measured*' "$program" "${words[@]}" "$n" 2>"$out/log" || { cat "$out/log" >&2; exit 1; }
        total=$(awk '/^(summary|totals):/ {print $2; exit}' "$out/$n")
        cycle=$((total / 1000))
        first=${first:-$cycle}
        awk -v n="$n" -v c="$cycle" -v f="$first" 'BEGIN {printf "%10d  %22d  %.2f\n", n, c, c / f}'
    done
done
