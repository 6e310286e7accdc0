#!/usr/bin/env bash
# Makes build/venv-interop: the peers (torch, transformers, TRL, PEFT) that tests compare with and goldens come from.
# About 5 GB. Nothing of the program itself needs it.
STEP=interop-venv
. "$(dirname "$0")/lib.sh"
TP=$ROOT/build # the disk that matters here

venv=$ROOT/build/venv-interop
manifest=$MANIFESTS/interop.txt
find_python
want=$(key "$manifest" <(echo layout 1; "$python" --version))
done_already "$venv/.stamp" "$want" && exit 0
locked
done_already "$venv/.stamp" "$want" && exit 0
need_disk 9000 "the venv of the peers"
rm -rf "$venv"
say "installing torch, transformers, TRL and PEFT (3 GB to fetch, 6 GB on disk, once)"
try "making a venv" interop-venv "$python" -m venv --without-pip "$venv"
try "putting pip into it" interop-venv "$venv/bin/python" -m ensurepip --default-pip # by itself: venv does not say why this failed
try "pip install of ${manifest##*/}" interop-pip "$venv/bin/pip" install --disable-pip-version-check --no-input \
	--progress-bar off --require-hashes --only-binary=:all: --no-compile -r "$manifest"
try "importing the peers" interop-import "$venv/bin/python" -c 'import torch, transformers, trl, peft, gguf, pytest'
put_stamp "$venv/.stamp" "$want"
say "done: build/venv-interop ($(du -sm "$venv" | cut -f1) MiB)"
