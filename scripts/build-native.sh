#!/usr/bin/env bash
# build-native.sh [native|tests|asan|cuda]: configures and builds with CMake and Ninja. native is the library alone, tests
# adds the C++ tests, cuda the plugin (all in build/native: the plugin lies beside the library that loads it); asan is
# library and tests in build/asan. Compiler errors are shown whole. LIBTORCH=folder and
# GLOO_INCLUDE=folder replace what setup fetched.
KIND=${1:-native}
STEP=$KIND
. "$(dirname "$0")/lib.sh"

dir=$ROOT/build/native
torch=${LIBTORCH:-$ROOT/third_party/site/torch}
plugin=$dir/libseadnative_cuda.so
asan=OFF cuda=OFF
case $KIND in
native | tests)
	what=libseadnative.so targets=(seadnative)
	if [[ $KIND == tests ]]; then what="the C++ tests" targets=(all); fi
	# a plugin that was built once is kept in step with the library
	if [[ -f $plugin && -f $torch/lib/libtorch_cuda.so ]]; then cuda=ON targets+=(seadnative_cuda); fi
	;;
asan) what="libseadnative.so and its tests with AddressSanitizer" asan=ON dir=$ROOT/build/asan targets=(all) ;;
cuda) what="the CUDA plugin" cuda=ON targets=(seadnative seadnative_cuda) ;;
*) die "unknown kind $KIND (native, tests, asan or cuda)" ;;
esac
args=(-S "$ROOT" -B "$dir" -G Ninja -Wno-dev -DSEAD_ASAN=$asan -DSEAD_CUDA=$cuda
	"-DSEAD_LIBTORCH=$torch" "-DSEAD_GLOO=${GLOO_INCLUDE:-$ROOT/third_party/gloo/include}")

TP=$ROOT/build
locked "${dir##*/}" # two builds in one folder would overwrite each other's objects
# A build folder made by another CMake tree or a moved clone cannot be reused.
if [[ -f $dir/CMakeCache.txt ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT" "$dir/CMakeCache.txt"; then rm -rf "$dir"; fi
log=$LOGS/$KIND.log
mkdir -p "$LOGS" 2>/dev/null || die "cannot create $LOGS: is the disk full or read-only?"
# What the tools say is held in memory, because a full disk takes no log.
if ! text=$(cmake "${args[@]}" 2>&1 | { tee "$log" 2>/dev/null || true; }); then
	line=$(awk '/^CMake Error/ {on = 1; next} on && NF {sub(/^ +/, ""); printf "%s%s", sep, $0; sep = " "; next} on && sep {exit}' <<<"$text")
	die "cmake: ${line:-$(reason "$text")} [${log#"$ROOT"/}]"
fi
start=$SECONDS
# One line when there is work; silence when there is none.
exec 3>&1
begun() { awk -v line="$STEP: building $what" '{print} /(Building|Linking)/ && !said {print line | "cat >&3"; close("cat >&3"); said = 1}'; }
if ! text=$(cmake --build "$dir" --parallel "$(nproc)" --target "${targets[@]}" 2>&1 | { tee "$log" 2>/dev/null || true; } | begun); then
	if grep -qiE 'no space left|errno 28' <<<"$text"; then die "building $what: $(reason "$text") [${log#"$ROOT"/}]"; fi
	grep -E 'error|Error|undefined reference' -A 4 <<<"$text" | head -n 60 >&2 || true
	die "building $what failed: $(grep -m 1 'error:' <<<"$text" || reason "$text") [${log#"$ROOT"/}]"
fi
if [[ $text == *Linking* ]]; then say "built ${dir#"$ROOT"/} in $((SECONDS - start)) s"; fi

# The plugin must ask for libtorch's GPU libraries by itself: it is loaded by dlopen into a program that has none.
if [[ $KIND == cuda ]]; then
	for lib in libtorch_cuda.so libc10_cuda.so; do
		readelf -d "$plugin" | grep -q "NEEDED.*\[$lib\]" || die "${plugin#"$ROOT"/} does not link $lib"
	done
	say "plugin: ${plugin#"$ROOT"/} ($(du -k "$plugin" | cut -f1) KiB)"
fi
