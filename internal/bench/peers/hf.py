"""Hugging Face transformers: `generate`, with scaled dot-product attention."""

import copy
import time

import torch
import transformers
from transformers import AutoModelForCausalLM, DynamicCache, GenerationConfig

from serve import serve

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class HuggingFace:
    def load(self, model, id, precision, threads, cache_tokens):
        if precision not in DTYPES:
            raise ValueError(f"no {precision} weights on the CPU")
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=DTYPES[precision], attn_implementation="sdpa").eval()
        self.model.generation_config.eos_token_id = None  # lengths are given
        self.cache = None
        return {"versions": f"transformers {transformers.__version__}, torch {torch.__version__}"}

    def generate(self, ids, tokens, cache=None, greedy=False):
        config = GenerationConfig(
            max_new_tokens=tokens, do_sample=not greedy, temperature=1.0, top_k=0, top_p=1.0, pad_token_id=0, eos_token_id=None
        )
        out = self.model.generate(ids, attention_mask=torch.ones_like(ids), cache=cache, generation_config=config)
        assert out.shape[1] == ids.shape[1] + tokens, "generation ended early"
        return out

    def prompts(self, prompts, room):
        self.ids = torch.tensor(prompts)
        self.cache = DynamicCache(config=self.model.config)
        began = time.perf_counter()
        self.model(input_ids=self.ids, cache=self.cache, use_cache=True, logits_to_keep=1)
        seconds = time.perf_counter() - began
        self.cache.crop(-1)  # generate reads the last token itself
        return {"seconds": seconds, "tokens": self.ids.numel()}

    def decode(self, n, tokens):
        ids, cache = self.ids[:n], copy.deepcopy(self.cache)
        cache.batch_select_indices(torch.arange(n))
        began = time.perf_counter()
        out = self.generate(ids, tokens, cache, greedy=True)
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "tokens": tokens * n, "ids": out[:, ids.shape[1] :].tolist()}

    def rollout(self, script, how):
        self.cache = None
        n = len(script["prompts"][0])
        batch = how["batch"] or n
        began = time.perf_counter()
        for first in range(0, n, batch):
            self.play(script, slice(first, first + batch), how["keep"])
        return {"seconds": time.perf_counter() - began, "tokens": n * script["turns"] * sum(script["tokens"])}

    def play(self, script, dialogues, keep):
        """Plays one batch: by turns the agents' and the users' next message, each after what the other side said."""
        ids = [torch.tensor(p[dialogues]) for p in script["prompts"]]
        wrap = [torch.tensor(script[k]).expand(len(ids[0]), -1) for k in ("before", "after")]
        caches = [self.shared(x[:1, :k], len(x)) if keep else None for x, k in zip(ids, script["shared"])]
        said = None
        for turn in range(2 * script["turns"]):
            role = turn % 2
            if said is not None:
                ids[role] = torch.cat([ids[role], wrap[0], said, wrap[1]], dim=1)
            given = ids[role].shape[1]
            ids[role] = self.generate(ids[role], script["tokens"][role], caches[role])
            said = ids[role][:, given:]

    def shared(self, ids, n):
        """A cache that holds the tokens ids [1, k] for n sequences, computed once."""
        cache = DynamicCache(config=self.model.config)
        self.model(input_ids=ids[:, : max(1, ids.shape[1] - 1)], cache=cache, use_cache=True, logits_to_keep=1)
        cache.batch_repeat_interleave(n)
        return cache


serve(HuggingFace())
