#!/usr/bin/env bash
# timed.sh NAME COMMAND…: runs it and notes the seconds it took in $SEAD_TIMES, which .ci/run prints as a table.
name=$1
shift
start=$SECONDS rc=0
"$@" || rc=$?
printf '%s\t%s\t%s\n' "$name" "$((SECONDS - start))" "$rc" >>"${SEAD_TIMES:-/dev/null}"
exit "$rc"
