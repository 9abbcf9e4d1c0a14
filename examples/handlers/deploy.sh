#!/bin/sh
# What a push to a repository sets off: unpacks the release that was pushed and makes it current.
#
#   payload: {"event": "push", "repository": "shop", "commit": "0a1b2c3d…"}
#   usage:   deploy.sh INCOMING RELEASES
#
# INCOMING has REPOSITORY-COMMIT.tar; RELEASES gets REPOSITORY/COMMIT and the link
# REPOSITORY/current. Every step can be done twice without harm, and the log of deployments has
# one line for each task, whatever happens.

set -eu
incoming=$1 releases=$2

text() { sed -n 's/.*"'"$1"'": *"\([^"]*\)".*/\1/p'; }

payload=$(cat)
repository=$(echo "$payload" | text repository)
commit=$(echo "$payload" | text commit)

# What a hook brings was written by strangers: only plain names go any further.
plain() {
    case $1 in '' | *[!A-Za-z0-9_-]*) return 1 ;; esac
}
if ! plain "$repository" || ! plain "$commit"; then
    midwatch task fail --fatal "this is no repository and commit: $repository $commit"
    exit 65
fi
archive=$incoming/$repository-$commit.tar
if [ ! -r "$archive" ]; then
    midwatch task fail "there is no $archive yet"
    exit 75
fi

home=$releases/$repository
mkdir -p "$home"
if [ ! -d "$home/$commit" ]; then
    rm -rf "$home/$commit.new"
    mkdir "$home/$commit.new"
    tar -xf "$archive" -C "$home/$commit.new"
    mv "$home/$commit.new" "$home/$commit"
fi
sync
midwatch task checkpoint '{"step":"unpacked"}' || case $? in 10) exit 0 ;; *) exit 75 ;; esac

# A link is changed by renaming another one over it: there is a current release at every moment.
ln -sfn "$commit" "$home/current.new"
mv -T "$home/current.new" "$home/current"

line="task $MIDWATCH_TASK_ID: $repository $commit"
grep -qxF "$line" "$releases/deployments" 2> /dev/null || echo "$line" >> "$releases/deployments"
sync
midwatch task checkpoint '{"step":"current"}' || case $? in 10) exit 0 ;; *) exit 75 ;; esac

midwatch task result "{\"current\":\"$repository/$commit\"}"
