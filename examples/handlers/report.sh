#!/bin/sh
# A report in three steps, each of which is done once: collect, render, publish.
#
#   payload: {"data": "/srv/data", "site": "/srv/site", "day": "2026-01-31"}
#
# A step writes beside its file and then renames it, so a file under its own name is a whole one.
# The checkpoint names the step to begin with; a step that had been cut short is done anew.

set -eu

text() { sed -n 's/.*"'"$1"'": *"\([^"]*\)".*/\1/p'; }

payload=$(cat)
data=$(echo "$payload" | text data)
site=$(echo "$payload" | text site)
day=$(echo "$payload" | text day)
if [ ! -r "$data/$day.csv" ]; then
    # It may still come: another attempt is made, after the wait of the retry policy.
    midwatch task fail "there is no $data/$day.csv yet"
    exit 75
fi

# Outlives the attempt, unlike TMPDIR; named by the task, so no other one meddles.
work=$site/.work-$MIDWATCH_TASK_ID
mkdir -p "$work"

collect() {
    awk -F, '{ sum[$1] += $2 } END { for (name in sum) print name "," sum[name] }' \
        "$data/$day.csv" | sort > "$work/totals.new"
    mv "$work/totals.new" "$work/totals"
}

render() {
    {
        echo "<h1>$day</h1><table>"
        awk -F, '{ print "<tr><td>" $1 "<td>" $2 }' "$work/totals"
        echo "</table>"
    } > "$work/page.new"
    mv "$work/page.new" "$work/page"
}

publish() {
    cp "$work/page" "$site/$day.html.new"
    mv "$site/$day.html.new" "$site/$day.html"
    # A line in a common file has no name of its own to be renamed to: look before adding it.
    grep -qxF "$day.html" "$site/index" 2> /dev/null || echo "$day.html" >> "$site/index"
}

step=collect
if [ -n "${MIDWATCH_CHECKPOINT_FILE-}" ]; then
    step=$(text step < "$MIDWATCH_CHECKPOINT_FILE")
fi

# Records the step to go on with.
next() {
    step=$1
    sync
    midwatch task checkpoint "{\"step\":\"$step\"}" ||
        case $? in 10) exit 0 ;; *) exit 75 ;; esac
}

if [ "$step" = collect ]; then
    echo "collect $day"
    collect
    next render
fi
if [ "$step" = render ]; then
    echo "render $day"
    render
    next publish
fi
if [ "$step" = publish ]; then
    echo "publish $day"
    publish
    next tidy
fi
rm -rf "$work"
midwatch task result "{\"page\":\"$day.html\"}"
