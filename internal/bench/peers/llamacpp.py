"""llama.cpp through llama-cpp-python's low-level interface: several sequences in one llama_decode."""

import ctypes
import time

import llama_cpp as ll
import numpy

from serve import serve

KV_TYPES = {"fp32": ll.GGML_TYPE_F32, "bf16": 30, "int8": ll.GGML_TYPE_F16}  # 30: GGML_TYPE_BF16, which the module lacks
BATCH = 2048


class LlamaCpp:
    def load(self, model, id, precision, threads, cache_tokens):
        self.threads, self.kv_type, self.context = threads, KV_TYPES[precision], None
        ll.llama_backend_init()
        params = ll.llama_model_default_params()
        params.n_gpu_layers = 0
        with open("/proc/cpuinfo") as f:
            params.use_extra_bufts = "amx" not in f.read()  # its repacking for AMX crashes
        self.model = ll.llama_model_load_from_file(model.encode(), params)
        if not self.model:
            raise ValueError(f"cannot load {model}")
        self.vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(self.model))
        self.batch = ll.llama_batch_init(BATCH, 0, 1)
        return {"versions": f"llama-cpp-python {ll.__version__}"}

    def open(self, sequences, tokens):
        if self.context:
            ll.llama_free(self.context)
        params = ll.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = sequences * tokens, BATCH, 512
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = self.threads
        params.type_k = params.type_v = self.kv_type
        self.context = ll.llama_init_from_model(self.model, params)
        if not self.context:
            raise ValueError(f"no context for {sequences} × {tokens} tokens")

    def feed(self, rows):
        """Reads rows of (sequence, position, token, whether logits are wanted)."""
        for first in range(0, len(rows), BATCH):
            part = rows[first : first + BATCH]
            for i, (seq, pos, token, wanted) in enumerate(part):
                self.batch.token[i], self.batch.pos[i], self.batch.n_seq_id[i], self.batch.logits[i] = token, pos, 1, wanted
                self.batch.seq_id[i][0] = seq
            self.batch.n_tokens = len(part)
            if code := ll.llama_decode(self.context, self.batch):
                raise RuntimeError(f"llama_decode gives {code}")

    def prompts(self, prompts, room):
        self.held = prompts
        self.open(len(prompts), (max(map(len, prompts)) + room + 255) // 256 * 256)
        began = time.perf_counter()
        self.feed([(s, i, token, i == len(p) - 1) for s, p in enumerate(prompts) for i, token in enumerate(p)])
        seconds = time.perf_counter() - began
        self.forget()
        return {"seconds": seconds, "tokens": sum(map(len, prompts))}

    def forget(self):
        """Holds the prompts alone, without their last token, which decoding reads itself."""
        for s, p in enumerate(self.held):
            ll.llama_memory_seq_rm(ll.llama_get_memory(self.context), s, len(p) - 1, -1)

    def decode(self, n, tokens):
        ids = [[p[-1]] for p in self.held[:n]]
        began = time.perf_counter()
        for step in range(tokens):
            self.feed([(s, len(self.held[s]) - 1 + step, ids[s][-1], True) for s in range(n)])
            for s in range(n):
                row = ctypes.cast(ll.llama_get_logits_ith(self.context, s), ctypes.POINTER(ctypes.c_float))
                ids[s].append(int(numpy.ctypeslib.as_array(row, (self.vocab,)).argmax()))
        seconds = time.perf_counter() - began
        self.forget()
        return {"seconds": seconds, "tokens": n * tokens, "ids": [i[1:] for i in ids]}


serve(LlamaCpp())
