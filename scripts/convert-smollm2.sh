#!/usr/bin/env bash
# Converts the fetched GGUF into the Hugging Face directory that configs/smollm2.toml names; done once per GGUF.
STEP=smollm2
. "$(dirname "$0")/lib.sh"
models=$TP/models
gguf=$models/SmolLM2-135M-Instruct.Q4_1.gguf out=$models/SmolLM2-135M-Instruct
want=$(key "$models/.stamp-smollm2" <(echo layout 1))
done_already "$out/.stamp" "$want" && exit 0
locked
done_already "$out/.stamp" "$want" && exit 0
need_disk 700 "converting SmolLM2"
work_dir
try "seadtrain convert" smollm2-convert "$ROOT/bin/seadtrain" convert "$gguf" "$WORK/hf"
publish "the model" "$WORK/hf" "$out"
put_stamp "$out/.stamp" "$want"
say "done: ${out#"$ROOT"/}"
