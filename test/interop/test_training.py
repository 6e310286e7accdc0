"""Checkpoints that the trainer wrote after a GRPO step, loaded by transformers: the Go tests leave them in a folder."""
import os
import subprocess

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

torch.set_num_threads(1)
ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
TINY = sorted(os.listdir(os.path.join(ROOT, "model", "testdata", "tiny")))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    out = tmp_path_factory.mktemp("export")
    tests = "TestTrainedCheckpointsLoadAgain|TestQwenWidthsTrainAndExport"
    run = subprocess.run(["go", "test", "-count=1", "-v", "-run", tests, "./train"], cwd=ROOT, env={**os.environ, "SEADTRAIN_EXPORT": str(out)},
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0 and run.stdout.count("--- PASS") == 2, run.stdout
    return out


@pytest.mark.parametrize("name", TINY + ["qwen_widths"])
def test_transformers_computes_the_same(exported, name):
    directory = str(exported / name)
    assert os.path.exists(os.path.join(directory, "model.safetensors.index.json"))  # all of them in shards
    model, report = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    assert not any(report[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    ours = load_file(directory + ".logits.safetensors")
    with torch.no_grad():
        logits = model.eval()(ours["ids"].long()[None]).logits[0]
    assert ((logits - ours["logits"]).abs().max() / logits.abs().max()).item() < 1e-4


def test_config_names_the_type_of_the_file(exported):
    c = AutoConfig.from_pretrained(exported / "qwen_widths")
    assert c.dtype == torch.float32 and c.tie_word_embeddings and c.hidden_size == 896 and c.eos_token_id == 151645
