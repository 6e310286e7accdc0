#!/usr/bin/env bash
# Makes the shipped nano model again: tokenizer, corpus from the rules of the nano world, supervised fine-tuning from
# random weights (scripts/nano-sft.toml; 17 minutes on two cores).
#   make nano-model            or: scripts/nano-model.sh [OUT_DIR]
# An interrupted training goes on where it was.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-models/nano}
work=build/nano
base=$work/base

mkdir -p "$base" "$out"
cp models/nano/{config,generation_config}.json "$base/"
scripts/nano-tokenizer.sh "$base"
bin/seadtrain nano-corpus --dialogues 15000 --out "$work/model-corpus.jsonl"
bin/seadtrain sft --config scripts/nano-sft.toml --model "$base" --data "$work/model-corpus.jsonl" --out "$work/sft"
cp "$base"/tokenizer{,_config}.json "$work/sft/model/model.safetensors" "$out/"
rm -rf "$work/sft" # done: the next call starts anew
