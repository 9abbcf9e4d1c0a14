#!/usr/bin/env bash
# The simulated disk, the simulated host, the reference model, and the tests of the tests, each with
# its figures. Without a number the figures are those of every CI run.
#
#   tools/proof.sh states [N]          crash states of the journal, failed calls, damage; about N states
#   tools/proof.sh flips [EVERY]       every EVERY-th bit of a small store flipped; 1 flips all
#   tools/proof.sh seeds [N [FIRST]]   lives of the whole engine
#   tools/proof.sh model [N [FIRST]]   cases against the reference model
#   tools/proof.sh orders [LARGER]      every order of what can happen to a task, on the rules alone
#   tools/proof.sh years [WEEKS [FIRST]] weeks of schedules and clocks; 522 are ten years
#   tools/proof.sh defects [NAME…]     known mistakes built in on purpose; all, or these
#   tools/proof.sh                     all of it
#
# A failure prints the seed and the variables that bring it back.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUST_BACKTRACE=${RUST_BACKTRACE:-0}
build=(cargo test --locked --profile proof --no-default-features --test sim)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Runs tests and shows their figures; everything when one fails.
prove() {
    local began=$SECONDS
    if ! "${build[@]}" -- --nocapture "$@" >"$log" 2>&1; then
        grep -vE '^test .* ok$' "$log"
        return 1
    fi
    grep -E '^L[12358]|^test result' "$log" || { echo "no figures, so nothing was proved" >&2; return 1; }
    awk '{ for (i = 2; i <= NF; i++) if ($i ~ /^crash$/ && $(i + 1) ~ /^states/) n += $(i - 1) }
        END { if (n) print n " crash states in all" }' "$log"
    echo "took $((SECONDS - began)) s"
}

states() { MIDWATCH_L1_STATES=${1:-120000} prove journal_ engine_damage compaction disk:: --skip no_flipped_bit_of; }
flips() { MIDWATCH_L1_FLIP_EVERY=${1:-16} prove no_flipped_bit_of; }
seeds() { MIDWATCH_L2_SEEDS=${1:-2000} MIDWATCH_L2_FIRST=${2:-1} prove world::; }
orders() { MIDWATCH_L5=${1:-} prove orders::; }
years() { MIDWATCH_L8_WEEKS=${1:-522} MIDWATCH_L8_FIRST=${2:-1} prove schedules::; }
model() { MIDWATCH_L3_CASES=${1:-1000} MIDWATCH_L3_FIRST=${2:-1} prove model_engine::; }

# One build has every mistake, and a variable chooses one: through a compiler wrapper for this
# package alone, for with RUSTFLAGS every dependency would be built once more.
build_defects() {
    export RUSTC_WORKSPACE_WRAPPER="$PWD/target/with-defects"
    mkdir -p target
    printf '#!/bin/sh\nexec "$@" --cfg seeded_defects\n' >"$RUSTC_WORKSPACE_WRAPPER"
    chmod +x "$RUSTC_WORKSPACE_WRAPPER"
    if ! "${build[@]}" --no-run >"$log" 2>&1; then
        cat "$log" >&2
        return 1
    fi
    sim=$(sed -nE 's/.*Executable tests\/sim\/main.rs \((.*)\)/\1/p' "$log")
}

# What one layer makes of the mistake that is chosen: nothing when it sees none.
caught_by() {
    local layer=$1 unit=$2 tests first
    shift 2
    timeout 600 "$sim" --nocapture "$@" >"$log" 2>&1 && return
    tests=$(grep -cE '^test .*FAILED$' "$log")
    first=$(sed -nE "s/^$layer: wrong after ([0-9]+) .*/\1/p" "$log" | sort -n | head -n 1)
    printf '  %s: %s of its tests' "$layer" "$tests"
    [ -z "$first" ] || printf ', first after %s %s' "$first" "$unit"
}

defects() {
    local defect known unseen=0 caught
    mapfile -t known < <(sed -nE 's/^    [A-Za-z]+ "([a-z_]+)",$/\1/p' src/defect.rs)
    [ $# -gt 0 ] || set -- "${known[@]}"
    build_defects
    # Few states and seeds: a mistake that needs many is not caught well.
    export MIDWATCH_L1_STATES=10000 MIDWATCH_L2_SEEDS=${MIDWATCH_L2_SEEDS:-300}
    for defect in "$@"; do
        if [[ " ${known[*]} " != *" $defect "* ]]; then
            echo "$defect: no such defect in src/defect.rs" >&2
            return 2
        fi
        export MIDWATCH_DEFECT=$defect
        caught=$(caught_by L1 states journal_ engine_damage
            caught_by L2 seeds world::whatever
            caught_by L3 cases model_engine::)
        printf '%-24s%s\n' "$defect" "${caught:-  NOT CAUGHT}"
        [ -n "$caught" ] || unseen=$((unseen + 1))
    done
    echo "$# defects, $unseen unseen"
    [ "$unseen" = 0 ]
}

what=${1:-all}
shift || true
case $what in
    states | flips | seeds | model | orders | years | defects) "$what" "$@" ;;
    all)
        states
        flips
        seeds
        model
        orders
        years
        defects
        ;;
    *)
        sed -n '2,15p' "$0" >&2
        exit 2
        ;;
esac
