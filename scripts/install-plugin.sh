#!/usr/bin/env bash
# Puts the CUDA plugin beside libseadnative.so, where the program looks for it, and checks that it is whole: built for
# CUDA and missing only what libtorch's GPU libraries bring.
STEP=cuda
. "$(dirname "$0")/lib.sh"
so=$ROOT/build/cuda/libseadnative_cuda.so
[[ -f $so ]] || die "$so was not built"
for lib in libseadnative.so libtorch_cuda.so libc10_cuda.so; do
	readelf -d "$so" | grep -q "NEEDED.*\[$lib\]" || die "the plugin does not link $lib"
done
cmp -s "$so" "$ROOT/build/native/libseadnative_cuda.so" || {
	mkdir -p "$ROOT/build/native"
	cp "$so" "$ROOT/build/native/.plugin.new" && mv "$ROOT/build/native/.plugin.new" "$ROOT/build/native/libseadnative_cuda.so"
	say "plugin: build/native/libseadnative_cuda.so ($(du -k "$so" | cut -f1) KiB)"
}
