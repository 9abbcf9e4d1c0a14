#!/usr/bin/env bash
# What a daemon costs that has nothing to do: supervisor, engine and two idle workers with the
# built-in config, watched from /proc.
#
#   tools/idle.sh [SECONDS]       default: 600; SETTLE=30 is what passes before the watch begins;
#                                 SCHEDULES=10000 gives it as many that do not fire meanwhile
#
# Wake-ups are voluntary context switches of all threads: each of them is a sleep that ended.
# Bytes are what the processes handed to the file system for writing; syncs are those of commits.
set -euo pipefail
cd "$(dirname "$0")/.."
span=${1:-600}
cargo build --quiet --release --bin midwatch
mkdir -p target/idle
dir=$(realpath "$(mktemp -d target/idle/XXXXXX)")
printf '[handlers.noop]\ncommand = ["/bin/true"]\n' > "$dir/midwatch.toml"
later=$(($(date -u +%-j) + 30))
day=$(date -u -d "$(date -u +%Y)-01-01 + $later days" +%-d) month=$(date -u -d "$(date -u +%Y)-01-01 + $later days" +%-m)
for ((n = 0; n < ${SCHEDULES:-0}; n++)); do
    printf '[schedules.s%d]\ntype = "noop"\ncron = "%d %d %d %d *"\n' "$n" $((n % 60)) $((n / 60 % 24)) "$day" "$month"
done >> "$dir/midwatch.toml"
chmod 600 "$dir/midwatch.toml"
midwatch() { target/release/midwatch --config "$dir/midwatch.toml" --data-dir "$dir/data" "$@"; }
target/release/midwatch --config "$dir/midwatch.toml" --data-dir "$dir/data" \
    daemon --workers 2 > "$dir/log" 2>&1 &
daemon=$!
trap 'kill $daemon 2> /dev/null && wait $daemon; rm -rf "$dir"' EXIT
status() { midwatch status --json | grep -o "\"$1\": *[0-9]*" | grep -o '[0-9]*$'; }
until [ "$(status workers_alive 2> /dev/null || true)" = 2 ]; do sleep 0.1; done
sleep "${SETTLE:-30}"

family() { echo $daemon; pgrep -P $daemon; }
# Name, wake-ups and written bytes of each process.
look() {
    local pid wakes bytes
    for pid in $(family); do
        wakes=$(cat /proc/"$pid"/task/*/status | awk '/^voluntary/ { n += $2 } END { print n }')
        bytes=$(awk '/^write_bytes/ { print $2 }' /proc/"$pid"/io)
        echo "$pid $wakes $bytes $(tr '\0' ' ' < /proc/"$pid"/cmdline | grep -oE ' (daemon|engine|worker)( |$)' | head -n 1)"
    done
}
uname -srm
git log -1 --format='commit %h' 2> /dev/null || true
# Asking for the status wakes the engine: it is asked outside of the span.
syncs=$(status syncs)
before=$(look)
sleep "$span"
after=$(look)
syncs=$(($(status syncs) - syncs))
[ "$(family | wc -l)" = 4 ] || { echo "a process ended meanwhile" >&2; exit 1; }
paste -d ' ' <(echo "$before") <(echo "$after") | awk -v span="$span" -v syncs="$syncs" '
    { wakes += $6 - $2; bytes += $7 - $3
      printf "%-8s %6.2f wake-ups/s %8d bytes written\n", $8, ($6 - $2) / span, $7 - $3 }
    END { printf "%-8s %6.2f wake-ups/s, %d an hour; %d bytes written, %d a day; %d syncs an hour\n",
          "together", wakes / span, wakes * 3600 / span, bytes, bytes * 86400 / span, syncs * 3600 / span }'
for pid in $(family); do awk -v pid="$pid" '/^Pss:/ { print pid, $2 }' /proc/"$pid"/smaps_rollup; done |
    awk '{ sum += $2; printf "pid %s %d KiB PSS\n", $1, $2 } END { printf "together %.1f MiB PSS\n", sum / 1024 }'
