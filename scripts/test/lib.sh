# For the set-up's own tests: a small clone in a temporary folder, with the real scripts, tiny wheels and a tiny .deb
# made here, the real pip (offline, from a folder) and fakes of apt-get, go and cargo on PATH.
set -uo pipefail
export LC_ALL=C
SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
unset LIBTORCH GLOO_INCLUDE SEAD_ROOT SEAD_THIRD_PARTY SEAD_MANIFESTS SEAD_LOGS MAKEFLAGS MAKELEVEL
C=$T/clone BIN=$T/bin WHEELS=$T/wheels CALLS=$T/calls
REAL_PATH=$PATH
failures=0 checks=0

# make_wheel FILE MEMBER…: a zip whose members hold 20 kB each.
make_wheel() {
	python3 - "$@" <<'PY'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as z:
    for name in sys.argv[2:]:
        text = (name + "\n") * (20000 // (len(name) + 1))
        if name.endswith("/METADATA"):
            package, version = name.split(".dist-info")[0].split("-")
            text = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        if name.endswith("/WHEEL"):
            text = "Wheel-Version: 1.0\nTag: py3-none-any\n"
        z.writestr(name, text)
PY
}

sha() { sha256sum "$1" | cut -d' ' -f1; }

# fake NAME BODY: a command on PATH that notes its call in $CALLS.
fake() {
	printf '#!/bin/bash\necho "%s $*" >>"%s"\n%s\n' "$1" "$CALLS" "$2" >"$BIN/$1"
	chmod +x "$BIN/$1"
}

# fresh makes the clone anew, nothing fetched.
fresh() {
	rm -rf "$C" "$BIN" "$CALLS" "$T/debs"
	mkdir -p "$C/third_party" "$C/native" "$BIN" "$WHEELS" "$T/debs" "$T/module/crates/tokenizers"
	cp -r "$SRC/scripts" "$SRC/CMakeLists.txt" "$C/"
	: >"$CALLS"
	local torch=$WHEELS/torch-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl
	if [[ ! -f $torch ]]; then
		make_wheel "$torch" torch/lib/lib{torch_cpu,c10,torch_cuda,c10_cuda,torch_python}.so torch/lib/libgomp.so.1 \
			torch/include/ATen/ATen.h torch-2.11.0.dist-info/{METADATA,RECORD,WHEEL,licenses/LICENSE}
		make_wheel "$WHEELS/nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl" \
			nvidia/cu13/lib/libcudart.so.13 nvidia/cu13/include/cuda.h nvidia_cuda_runtime-13.0.96.dist-info/{METADATA,WHEEL}
		make_wheel "$WHEELS/nvidia_cuda_cupti-13.0.85-py3-none-manylinux_2_25_x86_64.whl" \
			nvidia/cu13/lib/libcupti.so.13 nvidia_cuda_cupti-13.0.85.dist-info/{METADATA,WHEEL}
		make_wheel "$WHEELS/nvidia_cuda_crt-13.0.88-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl" \
			nvidia/cu13/include/crt/host_defines.h nvidia_cuda_crt-13.0.88.dist-info/{METADATA,WHEEL}
		make_wheel "$WHEELS/nvidia_cuda_cccl-13.0.85-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl" \
			nvidia/cu13/include/nv/target nvidia_cuda_cccl-13.0.85.dist-info/{METADATA,WHEEL}
		mkdir -p "$T/deb/DEBIAN" "$T/deb/usr/include/gloo" "$T/deb/usr/share/doc/libgloo-dev"
		printf 'Package: libgloo-dev\nVersion: 1\nArchitecture: amd64\nMaintainer: t\nDescription: t\n' >"$T/deb/DEBIAN/control"
		head -c 20000 /dev/zero >"$T/deb/usr/include/gloo/context.h"
		echo free >"$T/deb/usr/share/doc/libgloo-dev/copyright"
		dpkg-deb -Znone -b "$T/deb" "$T/libgloo-dev.deb" >/dev/null
		printf '[package]\ntiktoken-rs = { git = "x" }\n' >"$T/module/crates/tokenizers/Cargo.toml"
		echo MIT >"$T/module/LICENSE"
		printf 'int f(void) { return 1; }\n' >"$T/f.c" && cc -g -c "$T/f.c" -o "$T/f.o" && ar rc "$T/lib.a" "$T/f.o"
	fi
	{
		echo "torch==2.11.0 --hash=sha256:$(sha "$WHEELS"/torch-*)"
		echo "nvidia-cuda-runtime==13.0.96 --hash=sha256:$(sha "$WHEELS"/nvidia_cuda_runtime-*)"
		echo "nvidia-cuda-cupti==13.0.85 --hash=sha256:$(sha "$WHEELS"/nvidia_cuda_cupti-*)"
	} >"$C/third_party/libtorch.txt"
	{
		echo "nvidia-cuda-crt==13.0.88 --hash=sha256:$(sha "$WHEELS"/nvidia_cuda_crt-*)"
		echo "nvidia-cuda-cccl==13.0.85 --hash=sha256:$(sha "$WHEELS"/nvidia_cuda_cccl-*)"
	} >"$C/third_party/cuda.txt"
	echo "libgloo-dev 1 $(sha "$T/libgloo-dev.deb")" >"$C/third_party/gloo.txt"
	cp "$SRC"/third_party/tokenizers.{txt,lock} "$C/third_party/"
	printf 'module m\n\nrequire (\n\tgithub.com/daulet/tokenizers v1.27.0\n)\n' >"$C/go.mod"

	fake apt-get 'for a in "$@"; do if [[ $a == download ]]; then cp "'"$T/libgloo-dev.deb"'" . || exit 100; fi; done; exit 0'
	fake go 'case $1 in env) echo go1.24.1 ;; mod) echo "{\"Dir\": \"'"$T/module"'\"}" ;; esac'
	fake cargo 'case $1 in --version) echo "cargo 1.80.0" ;; build) mkdir -p "$CARGO_TARGET_DIR/release" && cp "'"$T/lib.a"'" "$CARGO_TARGET_DIR/release/libtokenizers_ffi.a" ;; esac'
	# the real pip, offline
	fake python3 'PATH="'"$REAL_PATH"'" exec python3 "$@"'
	export PATH=$BIN:$REAL_PATH PIP_NO_INDEX=1 PIP_FIND_LINKS=$WHEELS PIP_NO_CACHE_DIR=1
}

# run SCRIPT ARGS…: sets rc, and $T/out, $T/err.
run() {
	rc=0
	(cd "$C" && bash "scripts/$1" "${@:2}") >"$T/out" 2>"$T/err" </dev/null || rc=$?
}
# run_make TARGET…: likewise, by make.
run_make() {
	rc=0
	(cd "$C" && make "$@") >"$T/out" 2>"$T/err" </dev/null || rc=$?
}
# on_full_disk BYTES SCRIPT ARGS…: each process may write that much below the clone.
on_full_disk() {
	rc=0
	(cd "$C" && ENOSPC_UNDER=$C ENOSPC_AFTER=$1 LD_PRELOAD=$T/enospc.so bash "scripts/$2" "${@:3}") >"$T/out" 2>"$T/err" </dev/null || rc=$?
}

fail() {
	failures=$((failures + 1))
	printf 'FAIL %s: %s\n' "$name" "$*"
	sed 's/^/    out: /' "$T/out" 2>/dev/null | tail -n 8
	sed 's/^/    err: /' "$T/err" 2>/dev/null | tail -n 8
}
check() { # check WHAT CONDITION…
	checks=$((checks + 1))
	local what=$1
	shift
	"$@" || fail "$what"
}
# one_line TEXT: the run failed with exactly one line on stderr, which holds the text.
one_line() {
	checks=$((checks + 1))
	[[ $rc -ne 0 ]] || fail "exit code 0, want an error about '$1'"
	[[ $(wc -l <"$T/err") -eq 1 ]] || fail "want one line on stderr, got $(wc -l <"$T/err")"
	grep -qF -- "$1" "$T/err" || fail "stderr does not say '$1'"
}
good() { check "exit code $rc" test "$rc" -eq 0; }
there() { local f; for f in "$@"; do check "$f is missing" test -e "$C/third_party/$f"; done; }
absent() { local f; for f in "$@"; do check "$f should not be there" test ! -e "$C/third_party/$f"; done; }
# nothing half done: neither work folders nor stamps without their content
tidy() { check "a work folder was left" test -z "$(find "$C/third_party" -maxdepth 1 -name '.work-*')"; }
calls() { grep -c -- "$1" "$CALLS" || true; }
