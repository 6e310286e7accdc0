#!/usr/bin/env bash
# Makes models/nano/tokenizer.json and tokenizer_config.json again: corpus from the rules of the nano world, byte-level
# BPE by PyPI `tokenizers` in a private venv. Same inputs, same bytes.
#   make bin/seadtrain && scripts/nano-tokenizer.sh [OUT_DIR]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-models/nano}
work=build/nano
venv=$work/venv
version=0.23.3

mkdir -p "$work" "$out"
if ! "$venv/bin/python" -c "import tokenizers, sys; sys.exit(tokenizers.__version__ != '$version')" 2>/dev/null; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "tokenizers==$version"
fi
bin/seadtrain nano-corpus --out "$work/corpus.jsonl"
"$venv/bin/python" scripts/nano_tokenizer.py "$work/corpus.jsonl" "$out"
