#!/usr/bin/env bash
# Tests the tests: builds the simulated-disk tests with one known defect at a time and demands that
# they fail. Prints which tests caught it; ends with 1 if a defect goes unseen.
#
#   tools/seeded_defects.sh                    all defects
#   tools/seeded_defects.sh no_dir_sync …      these
#   FILTER=journal_ tools/seeded_defects.sh    only tests whose name contains this
#
# The defect goes in through a compiler wrapper for this package alone: with RUSTFLAGS every
# dependency would be built again for each defect. The crash states are few, for a defect that
# needs many is not caught well.
set -u
cd "$(dirname "$0")/.."

defects=("$@")
if [ ${#defects[@]} -eq 0 ]; then
  # Every name that the sources know, so that a new one can't be forgotten here.
  mapfile -t defects < <(grep -rhoE 'seeded_defect = "[a-z_]+"' src | cut -d'"' -f2 | sort -u)
fi
if [ ${#defects[@]} -eq 0 ]; then
  echo "no seeded defect in src/" >&2
  exit 2
fi

export CARGO_TARGET_DIR=target/defects
export MIDWATCH_L1_STATES=${MIDWATCH_L1_STATES:-10000}
mkdir -p "$CARGO_TARGET_DIR"
output=$(mktemp)
trap 'rm -f "$output"' EXIT
unseen=0

for defect in "${defects[@]}"; do
  if ! grep -rqE "seeded_defect = \"$defect\"" src; then
    echo "$defect: no such defect in src/" >&2
    exit 2
  fi
  # Cargo keeps what each wrapper built apart, by the wrapper's path.
  export RUSTC_WORKSPACE_WRAPPER="$PWD/$CARGO_TARGET_DIR/rustc-$defect"
  printf '#!/bin/sh\nexec "$@" --cfg '"'seeded_defect=\"%s\"'"'\n' "$defect" >"$RUSTC_WORKSPACE_WRAPPER"
  chmod +x "$RUSTC_WORKSPACE_WRAPPER"
  if ! cargo test --no-default-features --test sim --no-run >"$output" 2>&1; then
    cat "$output" >&2
    echo "$defect: does not build" >&2
    exit 2
  fi
  start=$SECONDS
  cargo test --no-default-features --test sim -- ${FILTER:+"$FILTER"} >"$output" 2>&1
  status=$?
  caught=$(sed -nE 's/^test (.*) \.\.\. FAILED$/\1/p' "$output" | sort)
  if [ $status -ne 0 ] && [ -n "$caught" ]; then
    echo "$defect: caught by $(wc -l <<<"$caught") tests in $((SECONDS - start)) s"
    sed 's/^/    /' <<<"$caught"
  else
    echo "$defect: NOT CAUGHT (exit $status, $((SECONDS - start)) s)"
    unseen=$((unseen + 1))
  fi
done

echo "${#defects[@]} defects, $unseen unseen"
[ $unseen -eq 0 ]
