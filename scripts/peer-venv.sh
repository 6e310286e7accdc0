#!/usr/bin/env bash
# peer-venv.sh llamacpp|openvino: makes build/venv-NAME, the peer that `seadtrain bench --against` runs. (Hugging Face's is
# the one of interop-venv.sh.)
STEP=peer-venv
. "$(dirname "$0")/lib.sh"
TP=$ROOT/build # the disk that matters here

name=${1:-}
case $name in
llamacpp) needs=1000 takes="llama.cpp (compiled for this processor: minutes)" imports='import llama_cpp' ;;
openvino) needs=2500 takes="OpenVINO GenAI and optimum (1 GB to fetch)" imports='import openvino_genai, optimum.intel, torch' ;;
*) die "no peer \"$name\": want llamacpp or openvino" ;;
esac
STEP=peer-venv-$name
venv=$ROOT/build/venv-$name
manifest=$MANIFESTS/$name.txt
find_python
want=$(key "$manifest" <(echo layout 1; "$python" --version))
done_already "$venv/.stamp" "$want" && exit 0
locked
done_already "$venv/.stamp" "$want" && exit 0
need_disk "$needs" "the venv of $name"
rm -rf "$venv"
say "installing $takes, once"
try "making a venv" "$STEP" "$python" -m venv "$venv"
pip_install() {
	"$venv/bin/pip" install --disable-pip-version-check --no-input --progress-bar off --no-deps --require-hashes --no-compile "$@"
}
if [[ $name == llamacpp ]]; then
	try "pip install of llamacpp-build.txt" "$STEP-pip" pip_install --only-binary=:all: -r "$MANIFESTS/llamacpp-build.txt"
	CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF" try "building ${manifest##*/}" "$STEP-pip" \
		pip_install --no-build-isolation --no-binary llama-cpp-python -r "$manifest"
else
	try "pip install of ${manifest##*/}" "$STEP-pip" pip_install --only-binary=:all: -r "$manifest"
	# torch is shared by links with the other venv, whose hub and transformers are of other versions.
	"$ROOT/scripts/interop-venv.sh"
	site=$(cd "$venv" && echo lib/python3*/site-packages)
	find "$ROOT/build/venv-interop/$site" -maxdepth 1 -regextype egrep -regex '.*/(torch|torchgen|functorch|nvidia|cuda|triton)([-_].*)?' \
		-exec ln -s {} "$venv/$site/" \;
fi
try "importing $name" "$STEP-import" "$venv/bin/python" -c "$imports"
put_stamp "$venv/.stamp" "$want"
say "done: build/venv-$name ($(du -sm "$venv" | cut -f1) MiB)"
