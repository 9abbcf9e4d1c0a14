#!/bin/sh
# Fetches a list that comes in pages, each of which names the next one in a header.
#
#   payload: {"url": "http://host/items", "out": "/srv/data/items.txt"}
#
# After each page a checkpoint says where the next one is and how long the file is by then. What a
# dead predecessor had appended after its last checkpoint is cut off again, so no page is there
# twice and none is missing.

set -eu

# Enough for flat payloads whose texts have no escapes; with jq at hand: jq -r .url
text() { sed -n 's/.*"'"$1"'": *"\([^"]*\)".*/\1/p'; }
number() { sed -n 's/.*"'"$1"'": *\([0-9]*\).*/\1/p'; }

payload=$(cat)
url=$(echo "$payload" | text url)
out=$(echo "$payload" | text out)
if [ -z "$url" ] || [ -z "$out" ]; then
    midwatch task fail --fatal 'the payload needs "url" and "out"'
    exit 65
fi

cursor='' size=0 pages=0
if [ -n "${MIDWATCH_CHECKPOINT_FILE-}" ]; then
    cursor=$(text cursor < "$MIDWATCH_CHECKPOINT_FILE")
    size=$(number size < "$MIDWATCH_CHECKPOINT_FILE")
    pages=$(number pages < "$MIDWATCH_CHECKPOINT_FILE")
fi
touch "$out"
truncate -s "$size" "$out"

while :; do
    # Whatever curl complains about may pass: 75 asks for another attempt, which begins here.
    curl -fsS --max-time 60 -D "$TMPDIR/head" -o "$TMPDIR/page" "$url?cursor=$cursor" || exit 75
    cat "$TMPDIR/page" >> "$out"
    # The checkpoint will be on stable storage; what it speaks of has to be there before it.
    sync -d "$out"

    pages=$((pages + 1))
    size=$(($(wc -c < "$out")))
    cursor=$(tr -d '\r' < "$TMPDIR/head" | sed -n 's/^[Xx]-[Nn]ext-[Cc]ursor: *//p')
    if [ -z "$cursor" ]; then
        break
    fi
    # 10: recorded, and somebody wants us to stop. Anything else: not recorded.
    midwatch task checkpoint "{\"cursor\":\"$cursor\",\"size\":$size,\"pages\":$pages}" ||
        case $? in 10) exit 0 ;; *) exit 75 ;; esac
    midwatch task progress "$pages" || true
done

midwatch task result "{\"pages\":$pages,\"bytes\":$size}"
