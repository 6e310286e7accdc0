#!/usr/bin/env python3
"""Golden file of SmolLM2-135M-Instruct from its GGUF, as transformers dequantises and runs it in fp32.

    python gen_smollm2.py       writes smollm2.json

Per tensor: shape, and sums that a wrong value or a wrong order changes (sum of x, sum of x * (1 + i mod 1009), in float64).
Per prompt: prompt ids, the 40 greedy tokens and their text, log-probs of the first ones, and the smallest gap between the
best two logits, which says how much rounding the tokens survive. Needs torch, transformers, gguf and make test-models.
"""
import json, os, sys
import numpy as np, torch, transformers
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "chat", "testdata"))
import gen_chat  # the tokenizer, built from the GGUF's metadata

PROMPTS = ["What is the capital of France?", "What colour is the sky?", "List three fruits and their colours."]
NEW = 40


def sums(x):
    x = x.detach().double().numpy().ravel()
    return [float(x.sum()), float((x * (1 + np.arange(x.size) % 1009)).sum())]


def main():
    torch.set_num_threads(1)
    tok = gen_chat.smollm2()
    model = AutoModelForCausalLM.from_pretrained(gen_chat.MODELS, gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf", dtype=torch.float32).eval()
    tensors = {n: dict(shape=list(p.shape), sums=sums(p)) for n, p in sorted(model.named_parameters())}
    prompts = []
    for text in PROMPTS:
        ids = tok.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False)
        seq, gaps, logprobs = torch.tensor([ids]), [], []
        with torch.no_grad():
            for _ in range(NEW):
                logits = model(seq).logits[0, -1]
                top = logits.topk(2)
                gaps.append((top.values[0] - top.values[1]).item())
                logprobs.append(logits.log_softmax(-1)[top.indices[0]].item())
                seq = torch.cat([seq, top.indices[:1][None]], 1)
        new = seq[0, len(ids):].tolist()
        prompts.append(dict(text=text, prompt=ids, tokens=new, completion=tok.decode(new), margin=min(gaps), logprobs=logprobs))
        print(text, "->", tok.decode(new), "margin", min(gaps))
    with open(os.path.join(HERE, "smollm2.json"), "w") as f:
        json.dump(dict(torch=torch.__version__, transformers=transformers.__version__, dtype="float32", tensors=tensors, prompts=prompts), f, ensure_ascii=False, indent=None, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
