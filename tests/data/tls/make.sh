#!/bin/sh
# Made the certificates of this directory: an authority of the tests' own, and certificates of it
# for 127.0.0.1, for another name, and for years that are over. The key of these is known to
# everybody, and worth nothing; that of the authority was thrown away.
set -eu
cd "$(dirname "$0")"
dir=$(mktemp -d)
: >"$dir/index"
cat >"$dir/conf" <<CONF
[ca]
default_ca = ours
[ours]
database = $dir/index
new_certs_dir = $dir
rand_serial = yes
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
CONF
new_key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }
request() { openssl req -config "$dir/conf" -new -key "$1" -subj "/CN=$2" -out "$dir/request"; }
sign() { # NAME LAST-DAY OPTION…
    name=$1 last=$2
    shift 2
    openssl ca -config "$dir/conf" -batch -notext -in "$dir/request" -out "$name.pem" \
        -keyfile "$dir/ca.key" -startdate 20200101000000Z -enddate "$last" "$@"
}
new_key "$dir/ca.key"
new_key server.key
request "$dir/ca.key" "midwatch tests"
sign ca 21200101000000Z -selfsign -extensions authority
request server.key "midwatch test server"
leaf() { # NAME LAST-DAY SUBJECT-ALTERNATIVE-NAME
    printf 'subjectAltName = %s\nextendedKeyUsage = serverAuth\n' "$3" >"$dir/extensions"
    sign "$1" "$2" -cert ca.pem -extfile "$dir/extensions"
}
leaf good 21200101000000Z IP:127.0.0.1
leaf other 21200101000000Z DNS:other.example
leaf expired 20210101000000Z IP:127.0.0.1
rm -r "$dir"
