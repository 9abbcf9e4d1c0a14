#!/bin/sh
# Works through a big file some lines at a time: here, turns the first column to upper case.
#
#   payload: {"in": "/srv/data/in.csv", "out": "/srv/data/out.csv", "batch": 1000}
#
# The cursor is the place in bytes, in both files, so a later attempt seeks there at once, however
# big they are.

set -eu

text() { sed -n 's/.*"'"$1"'": *"\([^"]*\)".*/\1/p'; }
number() { sed -n 's/.*"'"$1"'": *\([0-9]*\).*/\1/p'; }

payload=$(cat)
in=$(echo "$payload" | text in)
out=$(echo "$payload" | text out)
batch=$(echo "$payload" | number batch)
if [ ! -r "$in" ] || [ -z "$out" ]; then
    midwatch task fail --fatal "there is no file $in to read"
    exit 65
fi

read=0 written=0
if [ -n "${MIDWATCH_CHECKPOINT_FILE-}" ]; then
    read=$(number read < "$MIDWATCH_CHECKPOINT_FILE")
    written=$(number written < "$MIDWATCH_CHECKPOINT_FILE")
fi
total=$(($(wc -c < "$in")))
touch "$out"
truncate -s "$written" "$out"

while [ "$read" -lt "$total" ]; do
    tail -c "+$((read + 1))" "$in" | head -n "${batch:-1000}" > "$TMPDIR/batch"
    awk 'BEGIN { FS = OFS = "," } { $1 = toupper($1); print }' "$TMPDIR/batch" >> "$out"
    sync -d "$out"

    read=$((read + $(wc -c < "$TMPDIR/batch")))
    written=$(($(wc -c < "$out")))
    midwatch task checkpoint "{\"read\":$read,\"written\":$written}" ||
        case $? in 10) exit 0 ;; *) exit 75 ;; esac
    midwatch task progress "$read" "$total" || true
done

midwatch task result "{\"bytes\":$written}"
