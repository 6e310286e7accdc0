"""OpenVINO GenAI: ContinuousBatchingPipeline with prefix caching, the strongest settings found."""

import json
import os
import shutil
import time
from importlib.metadata import version

import numpy
import openvino
import openvino_genai

from serve import serve

TYPES = {"fp32": "f32", "bf16": "bf16", "int8": None}


class OpenVINO:
    def load(self, model, id, precision, threads, cache_tokens):
        with open(os.path.join(model, "config.json")) as f:
            config = json.load(f)
        if precision == "int8":  # weights alone; the rest in the type that the processor does best
            hint = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
            kind = "bf16" if "BF16" in hint else "f32"
        else:
            kind = TYPES[precision]
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.max_num_batched_tokens = 2048
        scheduler.enable_prefix_caching = True
        scheduler.dynamic_split_fuse = True
        scheduler.max_num_seqs = 1024
        heads = config["num_attention_heads"]
        width = config.get("head_dim") or config["hidden_size"] // heads
        token = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * width * (4 if kind == "f32" else 2)
        scheduler.cache_size = 1 + cache_tokens * token // 2**30  # GiB
        self.pipe = None
        self.pipe = openvino_genai.ContinuousBatchingPipeline(
            export(model, id, "int8" if precision == "int8" else "fp32"),
            scheduler,
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": kind,
                "KV_CACHE_PRECISION": kind,
                "INFERENCE_NUM_THREADS": threads,
                "PERFORMANCE_HINT": "LATENCY",
            },
        )
        return {"versions": f"openvino-genai {openvino_genai.__version__}, optimum-intel {version('optimum-intel')}"}

    def generate(self, prompts, tokens, greedy=True):
        """Draws exactly so many tokens for every prompt."""
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = tokens
        config.ignore_eos = True
        config.do_sample = not greedy
        ids = [openvino.Tensor(numpy.array([p], dtype=numpy.int64)) for p in prompts]
        out = [list(r.m_generation_ids[0]) for r in self.pipe.generate(ids, [config] * len(ids))]
        assert all(len(o) == tokens for o in out), "generation ended early"
        return out

    def prompts(self, prompts, room):
        self.held = prompts
        began = time.perf_counter()
        self.generate(prompts, 1)
        return {"seconds": time.perf_counter() - began, "tokens": sum(map(len, prompts))}

    def decode(self, n, tokens):
        """The prompts come from the prefix cache, but for their last block: what that takes is taken off."""
        seconds = []
        for more in (0, tokens):
            began = time.perf_counter()
            ids = self.generate(self.held[:n], 1 + more)
            seconds.append(time.perf_counter() - began)
        return {"seconds": seconds[1] - seconds[0], "tokens": n * tokens, "ids": [i[:tokens] for i in ids]}

    def rollout(self, script, how):
        n = len(script["prompts"][0])
        batch = how["batch"] or n
        began = time.perf_counter()
        for first in range(0, n, batch):
            ids = [[list(p) for p in prompts[first : first + batch]] for prompts in script["prompts"]]
            said = None
            for turn in range(2 * script["turns"]):
                role = turn % 2
                if said is not None:
                    for mine, other in zip(ids[role], said):
                        mine += script["before"] + other + script["after"]
                said = self.generate(ids[role], script["tokens"][role], greedy=False)
                for mine, words in zip(ids[role], said):
                    mine += words
        return {"seconds": time.perf_counter() - began, "tokens": n * script["turns"] * sum(script["tokens"])}


def export(model, id, kind):
    """Converts the model, once."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{id}-openvino-{kind}")
    if not os.path.isdir(folder):
        from optimum.exporters.openvino import main_export
        from optimum.intel import OVConfig, OVWeightQuantizationConfig

        config = OVConfig(quantization_config=OVWeightQuantizationConfig(bits=8)) if kind == "int8" else OVConfig(dtype="fp32")
        shutil.rmtree(folder + ".tmp", ignore_errors=True)
        main_export(model, folder + ".tmp", task="text-generation-with-past", ov_config=config)
        os.rename(folder + ".tmp", folder)
    return folder


serve(OpenVINO())
