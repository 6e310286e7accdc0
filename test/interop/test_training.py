"""Checkpoints that the trainer wrote after a GRPO step, loaded by transformers: the Go tests leave them in a folder."""
import json
import os
import subprocess

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

torch.set_num_threads(1)
ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
TINY = sorted(os.listdir(os.path.join(ROOT, "model", "testdata", "tiny")))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    out = tmp_path_factory.mktemp("export")
    tests = ["-run", "TestTrainedCheckpointsLoadAgain|TestQwenWidths", "./train", "./internal/loop"]
    run = subprocess.run(["go", "test", "-count=1", "-v", "-p", "1", *tests], cwd=ROOT, env={**os.environ, "SEADTRAIN_EXPORT": str(out)},
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0 and run.stdout.count("--- PASS") == 2, run.stdout
    return out


def load(directory):
    model, report = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    assert not any(report[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    return model.eval()


@pytest.mark.parametrize("name", TINY)
def test_transformers_computes_the_same(exported, name):
    directory = str(exported / name)
    assert os.path.exists(os.path.join(directory, "model.safetensors.index.json"))  # all of them in shards
    model = load(directory)
    ours = load_file(directory + ".logits.safetensors")
    with torch.no_grad():
        logits = model(ours["ids"].long()[None]).logits[0]
    assert ((logits - ours["logits"]).abs().max() / logits.abs().max()).item() < 1e-4


def test_a_run_of_real_widths(exported, tmp_path):
    """Random weights in shards, the real Qwen2.5 tokenizer, dialogues, a GRPO step: the checkpoint of such a run."""
    directory = str(exported / "qwen_run" / "checkpoints" / "step-1")
    c = AutoConfig.from_pretrained(directory)
    assert c.dtype == torch.float32 and c.tie_word_embeddings and c.hidden_size == 896 and c.eos_token_id == 151645
    ids = AutoTokenizer.from_pretrained(directory)("你好，请问是张先生吗？ I'm calling about the loan.")["input_ids"]
    file = tmp_path / "ids.jsonl"
    file.write_text(json.dumps({"ids": ids}) + "\n")
    ours = json.loads(subprocess.run([os.environ["SEADTRAIN"], "score", directory, str(file)], check=True, stdout=subprocess.PIPE, text=True).stdout)
    with torch.no_grad():
        theirs = load(directory)(torch.tensor([ids])).logits[0].log_softmax(-1)
    theirs = theirs[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    assert ours["logprobs"][0] is None and len(ids) > 10
    assert (torch.tensor(ours["logprobs"][1:]) - theirs).abs().max().item() < 1e-4

