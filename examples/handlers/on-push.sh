#!/bin/sh
# Stands where a webhook arrives: whatever receives it (a CGI script, a small server of yours that
# has checked the signature) pipes the body into this.
#
#   usage: on-push.sh < body
#
# Senders repeat what they got no answer to. The key makes one task of all repetitions: the answer
# is the same number, and it is given once the task is on disk.

set -eu
body=$(cat)
commit=$(echo "$body" | sed -n 's/.*"commit": *"\([A-Za-z0-9_-]*\)".*/\1/p')
if [ -z "$commit" ]; then
    echo "no commit in the body" >&2
    exit 65
fi
echo "$body" | midwatch submit deploy - --key "push-$commit"
