#!/bin/sh
# A handler for the bare-metal test. It keeps an account of its own outside of the data directory,
# one line for each thing that happened, and holds a lock for as long as anything of its attempt
# lives: a second attempt of the same task beside it sees that itself. What it does in between,
# the payload says.
#
#   MW_ORACLE    a directory outside the data directory
#   stdin        {"how":"WORD","key":"KEY"}
oracle=$MW_ORACLE
say() { echo "$1 $MIDWATCH_TASK_ID $MIDWATCH_FENCE $2" >>"$oracle/marks"; }
exec 9>>"$oracle/locks/$MIDWATCH_TASK_ID"
flock -n 9
case $? in
0) ;;
1) say overlap "$MIDWATCH_ATTEMPT"; exit 1 ;;
*) exit 75 ;;
esac
read -r payload
how=${payload#*\"how\":\"} how=${how%%\"*}
step=0
if [ -n "${MIDWATCH_CHECKPOINT_FILE-}" ]; then
    read -r text <"$MIDWATCH_CHECKPOINT_FILE"
    step=${text#*\"step\":} step=${step%%\}*}
fi
[ -e "$oracle/store" ] || echo "${MIDWATCH_TOKEN%%:*}" >"$oracle/store"
say start "$$ $step ${MIDWATCH_KEY-}"

# Says a line on the control channel and takes its answer. Ends when asked to stop.
tell() {
    echo "$1" >&3
    read -r answer <&3 || exit 75
    case $answer in *'"ok":true'*) ;; *) exit 75 ;; esac
    [ -z "${2-}" ] || say saved "$2"
    case $answer in *'"stop":"'*) say stopped; exit 0 ;; esac
}
first() { [ "$MIDWATCH_ATTEMPT" = 1 ]; }
repeat() { count=$1; shift; while [ "$count" -gt 0 ]; do count=$((count - 1)); "$@"; done; }

case $how in
steps)
    while [ "$step" -lt 6 ]; do
        sleep 0.1
        step=$((step + 1))
        tell "{\"op\":\"checkpoint\",\"data\":{\"step\":$step}}" "$step"
    done
    ;;
polls) repeat 15 eval 'sleep 0.1; tell "{\"op\":\"poll\"}"' ;;
result) tell '{"op":"result","data":{"by":"metal"}}' ;;
gives_up) tell '{"op":"error","message":"it will never work","retryable":false}'; exit 1 ;;
deaf) repeat 40 echo '{"op":"progress","done":1}' >&3 ;;
slow) sleep 0.6 ;;
hangs) if first; then sleep 60; fi ;;
fails) [ "$MIDWATCH_ATTEMPT" -gt 2 ] || exit 75 ;;
fatal) exit 65 ;;
dies) if first; then kill -9 $$; fi ;;
talks) repeat 400 echo 'a line that is long enough to fill a log of some kibibytes before long' ;;
stubborn) trap '' TERM; repeat 20 sleep 0.1 ;;
forks) repeat 3 eval '(sleep 3 >/dev/null 2>&1 &)' ;;
holds_output) sleep 3 & ;;
leaves_session) setsid sleep 5 >/dev/null 2>&1 & sleep 0.1 ;;
leaves_deaf) setsid sh -c 'trap "" TERM HUP INT; sleep 5; sleep 5' >/dev/null 2>&1 & sleep 0.1 ;;
forgets) env -i sleep 5 >/dev/null 2>&1 & sleep 0.1 ;;
esac
say end "$how"
