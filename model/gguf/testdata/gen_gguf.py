#!/usr/bin/env python3
"""Golden files of the GGUF reader, by the gguf package.

    python gen_gguf.py

    dequant.safetensors     per format: raw bytes of some blocks, and what gguf.dequantize makes of them
    llama.gguf, qwen2.gguf  two of ../../testdata/tiny as llama.cpp's converter would write them (F32; q and k of llama
                            interleaved for its rotary embedding), with a small tokenizer

Needs numpy, gguf, safetensors.
"""
import json, os
import numpy as np
import gguf
from gguf import GGMLQuantizationType as Q, quants
from safetensors.numpy import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
TINY = os.path.join(HERE, "..", "..", "testdata", "tiny")
BLOCKS = 6


def dequant():
    rng = np.random.default_rng(7)
    out = {}
    x = rng.normal(size=(BLOCKS, 256)).astype(np.float32) * np.array([1, 1e-3, 30, 1, 0, 1], np.float32)[:, None]
    x[3] = np.abs(x[3])  # minimum far from zero
    for t in (Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1):
        raw = quants.quantize(x, t).view(np.uint8).reshape(-1)
        out[t.name + ".raw"], out[t.name + ".values"] = raw, quants.dequantize(raw.copy().view(np.float32) if t == Q.F32 else raw, t).astype(np.float32).reshape(-1)
    for t, where in ((Q.Q4_K, (0, 2)), (Q.Q6_K, (208,))):  # any bytes are a valid block, but the halves should be finite
        size = gguf.GGML_QUANT_SIZES[t][1]
        raw = rng.integers(0, 256, size=(BLOCKS, size), dtype=np.uint8)
        for at in where:
            raw[:, at:at + 2] = (rng.normal(size=BLOCKS) * 0.1).astype(np.float16)[:, None].view(np.uint8)
        out[t.name + ".raw"], out[t.name + ".values"] = raw.reshape(-1), quants.dequantize(raw, t).astype(np.float32).reshape(-1)
    path = os.path.join(HERE, "dequant.safetensors")
    save_file(out, path)
    os.chmod(path, 0o644)


def interleave(w, heads):
    """Rows (i, i + half) of a head become neighbours."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def model(name, arch):
    cfg = json.load(open(os.path.join(TINY, name, "config.json")))
    w = load_file(os.path.join(TINY, name, "model.safetensors"))
    out = gguf.GGUFWriter(os.path.join(HERE, arch + ".gguf"), arch)
    out.add_block_count(cfg["num_hidden_layers"])
    out.add_context_length(cfg["max_position_embeddings"])
    out.add_embedding_length(cfg["hidden_size"])
    out.add_feed_forward_length(cfg["intermediate_size"])
    out.add_head_count(cfg["num_attention_heads"])
    out.add_head_count_kv(cfg["num_key_value_heads"])
    out.add_rope_freq_base(cfg["rope_parameters"]["rope_theta"])
    out.add_layer_norm_rms_eps(cfg["rms_norm_eps"])
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("qwen2")
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tag>"] + [chr(c) for c in range(33, 33 + 90)] + ["ab", "[PAD95]"]
    out.add_token_list(tokens[:96])
    out.add_token_types([3, 3, 3, 4] + [1] * 91 + [5])
    out.add_token_merges(["a b"])
    for key, i in (("bos", 1), ("eos", 2), ("pad", 0)):
        getattr(out, f"add_{key}_token_id")(i)
    out.add_chat_template("{{ template }}")
    parts = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], cfg["num_hidden_layers"])
    for key, x in w.items():
        if arch == "llama" and ("q_proj" in key or "k_proj" in key):
            x = interleave(x, cfg["num_attention_heads" if "q_proj" in key else "num_key_value_heads"])
        out.add_tensor(parts.get_name(key, (".weight", ".bias")), np.ascontiguousarray(x))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    dequant()
    model("llama_tied", "llama")
    model("qwen2_untied", "qwen2")
