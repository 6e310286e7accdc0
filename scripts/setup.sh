#!/usr/bin/env bash
# Everything that is fetched or built once: checks the tools, then brings libtorch, the gloo headers and the tokenizer
# library, side by side. Steps that are done cost nothing.
#   setup.sh native   also builds libseadnative, as soon as its parts are there: cargo uses one core most of the time
STEP=setup
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")

"$here/check-tools.sh" || exit
libraries="bash '$here/fetch-gloo.sh'"
if [[ -n ${LIBTORCH:-} ]]; then
	for f in include/ATen/ATen.h lib/libtorch_cpu.so lib/libc10.so; do
		[[ -e $LIBTORCH/$f ]] || die "LIBTORCH=$LIBTORCH holds no $f"
	done
else
	libraries+=" && bash '$here/fetch-libtorch.sh'"
fi
if [[ ${1:-} == native ]]; then libraries+=" && bash '$here/build-native.sh' native"; fi

# Each step is a process group of its own, so that a failure or Ctrl-C ends all of it and nothing is left running.
set -m
pids=()
stop() {
	local p
	for p in "${pids[@]}"; do kill -TERM -- "-$p" 2>/dev/null || true; done
	wait 2>/dev/null || true
}
trap 'stop; printf "%s: interrupted; run it again to continue\n" "$STEP" >&2; exit 130' INT
trap 'stop; exit 143' TERM
for step in "bash '$here/build-tokenizers.sh'" "$libraries"; do
	bash -c "$step" </dev/null &
	pids+=($!)
done
rc=0
for _ in "${pids[@]}"; do
	wait -n || { rc=$?; break; }
done
if [[ $rc -ne 0 ]]; then
	stop 2>/dev/null
	exit "$rc"
fi
