#!/usr/bin/env bash
# Builds third_party/tokenizers/libtokenizers.a: the Rust library behind github.com/daulet/tokenizers, by cargo, from
# that Go module's own source. A library of another version fails at link time (it exports its version as a symbol).
STEP=tokenizers
. "$(dirname "$0")/lib.sh"

out=$TP/tokenizers
stamp=$out/.stamp
manifest=$MANIFESTS/tokenizers.txt lock=$MANIFESTS/tokenizers.lock
module=$(awk '$1 == "module" {print $2}' "$manifest")
tiktoken=$(awk '$1 == "tiktoken-rs" {print $2}' "$manifest")
version=$(awk -v m="$module" '$1 == m {print $2}' "$ROOT/go.mod")
[[ -n $version ]] || die "go.mod names no version of $module"
want=$(key "$manifest" "$lock" <(echo layout 1 "$version"))
done_already "$stamp" "$want" && exit 0
locked
done_already "$stamp" "$want" && exit 0
need_disk 700 "building the tokenizer library"
work_dir

# The Go module proxy serves the source, go.sum guards its content.
say "fetching $module $version"
try "go mod download $module" tokenizers-go bash -c 'cd "$1" && go mod download -json "$2" >"$3"' _ "$ROOT" "$module" "$WORK/module.json"
src=$WORK/src
prepare() {
	local dir
	dir=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["Dir"])' "$WORK/module.json") || return
	cp -r "$dir" "$src" && chmod -R u+w "$src" && cp "$lock" "$src/Cargo.lock" &&
		sed -i "s|^tiktoken-rs = .*|tiktoken-rs = \"=$tiktoken\"|" "$src/crates/tokenizers/Cargo.toml"
}
try "copying the module's source" tokenizers-copy prepare

# The target folder outlives an interrupted build (its name carries the inputs), so that the next call continues.
target=$TP/.cargo-target/$want
rm -rf $(find "$TP/.cargo-target" -mindepth 1 -maxdepth 1 ! -name "$want" 2>/dev/null)
say "building (cargo, 2 to 4 minutes, once)"
cargo_build() { (cd "$src" && CARGO_TARGET_DIR=$target cargo "$@" --locked -p tokenizers-ffi); }
try "cargo build of the tokenizer library" tokenizers-cargo cargo_build build --release
mkdir "$WORK/out"
try "stripping the library" tokenizers-strip strip --strip-debug -o "$WORK/out/libtokenizers.a" "$target/release/libtokenizers_ffi.a"
try "copying the library's licence" tokenizers-copy cp "$src/LICENSE" "$WORK/out/LICENSE"
publish "the tokenizer library" "$WORK/out" "$out"
put_stamp "$stamp" "$want"
rm -rf "$TP/.cargo-target"
say "done: ${out#"$ROOT"/}/libtokenizers.a ($(du -sm "$out" | cut -f1) MiB)"
