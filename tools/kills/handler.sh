#!/bin/sh
# A handler for the kill rounds: holds a lock while anything of its attempt lives, so that a second
# attempt of the same task at the same time cannot go unnoticed; then ends well, fails, or leaves a
# grandchild behind, as the payload says.
#
#   MW_ORACLE    a directory outside the data directory
oracle=$MW_ORACLE
exec 9>"$oracle/locks/$MIDWATCH_TASK_ID"
if ! flock -n 9; then
    echo "task $MIDWATCH_TASK_ID: token $MIDWATCH_FENCE beside another attempt" >>"$oracle/overlaps"
    exit 1
fi
echo "start $MIDWATCH_TASK_ID $MIDWATCH_FENCE $MIDWATCH_ATTEMPT" >>"$oracle/marks"
payload=$(cat)
case $payload in
*'"how":"checkpoint"'*)
    echo '{"op":"checkpoint","data":{"half":true}}' >&3
    read -r answer <&3 || exit 75
    case $answer in *'"ok":true'*) echo "checkpoint $MIDWATCH_TASK_ID $MIDWATCH_FENCE" >>"$oracle/marks" ;; esac
    ;;
*'"how":"linger"'*) sleep 0.2 & ;;
*'"how":"slow"'*) sleep 0.1 ;;
*'"how":"fail"'*) [ "$MIDWATCH_ATTEMPT" -gt 1 ] || exit 75 ;;
esac
echo "end $MIDWATCH_TASK_ID $MIDWATCH_FENCE" >>"$oracle/marks"
