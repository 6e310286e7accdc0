"""Our files read by others: `seadtrain convert` against transformers and the gguf package."""
import os
import subprocess

import numpy as np
import pytest
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

torch.set_num_threads(1)
ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
TINY = os.path.join(ROOT, "model", "testdata", "tiny")
MODELS = sorted(os.listdir(TINY))
GGUF = os.path.join(ROOT, "third_party", "models", "SmolLM2-135M-Instruct.Q4_1.gguf")


def convert(*args):
    subprocess.run([os.environ["SEADTRAIN"], "convert", *args], check=True, stdout=subprocess.DEVNULL)


def logits(directory):
    golden = load_file(os.path.join(TINY, os.path.basename(directory).split(".")[0], "golden.safetensors"))
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")  # as the golden
    with torch.no_grad():
        return model(golden["plain.input_ids"]).logits, golden["plain.logits"]


def test_there_are_six():
    assert len(MODELS) == 6


@pytest.mark.parametrize("name", MODELS)
def test_a_directory_means_the_same_to_transformers(name, tmp_path):
    out = str(tmp_path / name)
    convert(os.path.join(TINY, name), out, "--dtype", "fp32", "--max-shard", "40K")
    got, want = logits(out)
    assert torch.equal(got, want)
    a, b = AutoConfig.from_pretrained(out), AutoConfig.from_pretrained(os.path.join(TINY, name))
    skip = {"_name_or_path", "transformers_version", "architectures"}
    assert {k: v for k, v in a.to_dict().items() if k not in skip} == {k: v for k, v in b.to_dict().items() if k not in skip} | (
        {"head_dim": a.head_dim} if "qwen2" in name else {})


@pytest.mark.parametrize("name", MODELS)
def test_bf16_is_torchs_bf16(name, tmp_path):
    out = str(tmp_path / name)
    convert(os.path.join(TINY, name), out, "--dtype", "bf16")
    assert AutoConfig.from_pretrained(out).dtype == torch.bfloat16
    want = {}
    for f in os.listdir(os.path.join(TINY, name)):
        if f.startswith("model") and f.endswith(".safetensors"):
            want |= load_file(os.path.join(TINY, name, f))
    got = load_file(os.path.join(out, "model.safetensors"))
    assert got.keys() == want.keys()
    for key, x in got.items():
        assert torch.equal(x, want[key].to(torch.bfloat16)), key


@pytest.mark.parametrize("name", ["llama_tied", "qwen2_untied", "qwen3_tied"])
def test_the_gguf_package_reads_ours(name, tmp_path):
    out = str(tmp_path / (name + ".gguf"))
    convert(os.path.join(TINY, name), out)
    reader = GGUFReader(out)
    weights = load_file(os.path.join(TINY, name, "model.safetensors"))
    tensors = {t.name: t for t in reader.tensors}
    assert len(tensors) == len(weights)
    embedding = tensors["token_embd.weight"]
    assert np.array_equal(dequantize(embedding.data, embedding.tensor_type), weights["model.embed_tokens.weight"].numpy())
    q = dequantize(tensors["blk.1.attn_q.weight"].data, tensors["blk.1.attn_q.weight"].tensor_type)
    want = weights["model.layers.1.self_attn.q_proj.weight"].numpy()
    if name.startswith("llama"):  # llama.cpp keeps the rotated pairs side by side
        want = want.reshape(4, 2, want.shape[0] // 8, -1).swapaxes(1, 2).reshape(want.shape)
    assert np.array_equal(q, want)


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    out = str(tmp_path_factory.mktemp("smollm2") / "hf")
    convert(GGUF, out, "--dtype", "bf16")
    return out


def test_smollm2_loads_and_speaks(smollm2):
    tok = AutoTokenizer.from_pretrained(smollm2)
    model = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    ids = tok.apply_chat_template([{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True, return_tensors="pt", return_dict=True)
    out = model.generate(**ids, max_new_tokens=12, do_sample=False)
    assert tok.decode(out[0, ids["input_ids"].shape[1]:], skip_special_tokens=True) == "The capital of France is Paris."


def test_smollm2_tokenizer(smollm2):
    tok = AutoTokenizer.from_pretrained(smollm2)
    assert tok.eos_token == "<|im_end|>" and tok.eos_token_id == 2 and len(tok) == 49152
    for text in ["Hello, world! 1234", "  two spaces\n\ttab", "naïve café 你好 🙂", "it's I'll we've"]:
        assert tok.decode(tok.encode(text, add_special_tokens=False)) == text
