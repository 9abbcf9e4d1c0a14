#!/bin/sh
# A handler for midwatch: counts the words of a text, some lines at a time.
#
#   usage: count-words.sh TEXT OUT MARKS
#   stdin: {"batch": 1000, "pause": 0.25}
#
# Each line of TEXT becomes a line of OUT: its number, its words, itself. After each batch comes a
# checkpoint, and only when that is answered does the next batch begin; so whatever kills this
# process, or anything above it, costs one batch done twice and nothing else. The sum of the words
# travels in the checkpoint and is therefore never counted twice.
#
# MARKS is for the curious: who did what, in the order in which it was done.

set -eu
text=$1 out=$2 marks=$3

mark() { echo "$MIDWATCH_FENCE $*" >> "$marks"; }
number() { sed -n "s/.*\"$1\": *\([0-9.]*\).*/\1/p"; }

# Descriptor 3 leads to the watchman: a line of JSON there, a line of JSON back.
tell() {
    echo "$1" >&3
    read -r answer <&3 || exit 75
    case $answer in
    *'"ok":true'*) ;;
    *) echo "refused: $answer" >&2; exit 75 ;;
    esac
    case $answer in
    *'"stop":"'*) echo "asked to stop: $answer" >&2; exit 0 ;;
    esac
}

payload=$(cat)
batch=$(echo "$payload" | number batch)
pause=$(echo "$payload" | number pause)

done=0 words=0
if [ -n "${MIDWATCH_CHECKPOINT_FILE-}" ]; then
    done=$(number lines < "$MIDWATCH_CHECKPOINT_FILE")
    words=$(number words < "$MIDWATCH_CHECKPOINT_FILE")
fi
total=$(wc -l < "$text")
mark start "$done"

# A predecessor may have been killed in the middle of a line.
if [ -s "$out" ] && [ -n "$(tail -c 1 "$out")" ]; then echo >> "$out"; fi

while [ "$done" -lt "$total" ]; do
    last=$((done + batch))
    [ "$last" -le "$total" ] || last=$total
    mark begin $((done + 1)) "$last"
    words=$(awk -v done="$done" -v last="$last" -v words="$words" -v out="$out" '
        NR > last { exit }
        NR > done { words += NF; print NR "\t" NF "\t" $0 >> out }
        END { print words }' "$text")
    mark wrote $((done + 1)) "$last"

    # This is where a real handler would be busy for minutes.
    sleep "$pause"

    tell "{\"op\":\"checkpoint\",\"data\":{\"lines\":$last,\"words\":$words}}"
    done=$last
    mark checkpoint "$done"
    tell "{\"op\":\"progress\",\"done\":$done,\"total\":$((total))}"
done

tell "{\"op\":\"result\",\"data\":{\"lines\":$done,\"words\":$words}}"
mark end "$done"
