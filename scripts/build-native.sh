#!/usr/bin/env bash
# build-native.sh [native|asan|cuda]: configures and builds build/KIND with CMake and Ninja. Compiler errors are shown
# whole. LIBTORCH=folder and GLOO_INCLUDE=folder replace what setup fetched.
KIND=${1:-native}
STEP=$KIND
. "$(dirname "$0")/lib.sh"

dir=$ROOT/build/$KIND
site=$ROOT/third_party/site
args=(-S "$ROOT" -B "$dir" -G Ninja -Wno-dev
	"-DSEAD_LIBTORCH=${LIBTORCH:-$site/torch}" "-DSEAD_GLOO=${GLOO_INCLUDE:-$ROOT/third_party/gloo/include}")
case $KIND in
native) what="libseadnative.so and its tests" ;;
asan) what="libseadnative.so and its tests with AddressSanitizer" args+=(-DSEAD_ASAN=ON) ;;
cuda) what="the CUDA plugin" args+=(-DSEAD_CUDA=ON -DSEAD_TESTS=OFF) ;;
*) die "unknown kind $KIND (native, asan or cuda)" ;;
esac

# A build folder made by another CMake tree or a moved clone cannot be reused.
if [[ -f $dir/CMakeCache.txt ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT" "$dir/CMakeCache.txt"; then rm -rf "$dir"; fi
log=$LOGS/$KIND.log
mkdir -p "$LOGS" 2>/dev/null || die "cannot create $LOGS: is the disk full or read-only?"
if ! cmake "${args[@]}" >"$log" 2>&1; then
	line=$(awk '/^CMake Error/ {on = 1; next} on && NF {sub(/^ +/, ""); printf "%s%s", sep, $0; sep = " "; next} on && sep {exit}' "$log")
	die "cmake: ${line:-$(reason "$(cat "$log")")} [${log#"$ROOT"/}]"
fi
start=$SECONDS
# One line when there is work; silence when there is none.
build() { cmake --build "$dir" 2>&1 | tee "$log" | awk -v line="$STEP: building $what" '/(Building|Linking)/ && !said {print line; fflush(); said = 1}'; }
if ! build; then
	grep -E 'error|Error|undefined reference' -A 4 "$log" | head -n 60 >&2 || true
	die "building $what failed: $(grep -m 1 -E 'No space left|error:' "$log" || reason "$(cat "$log")") [${log#"$ROOT"/}]"
fi
if grep -q Linking "$log"; then say "built build/$KIND in $((SECONDS - start)) s"; fi
