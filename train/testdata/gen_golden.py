#!/usr/bin/env python3
"""Golden files of the GRPO loss.

    python gen_golden.py [loss] [advantages] [gradients]        (default: all)

needs torch 2.11.0, transformers 5.x, trl 1.16.0, safetensors. Seeded, one CPU thread.

    loss.json            TRL's own loss function in fp64: loss, dloss/dlog-prob, dloss/dentropy, KL, share of clipped tokens
    advantages.json      TRL's own lines from rewards to advantages, in fp64
    gradients.json       dialogues, allowed sets, options and metrics of three GRPO steps on the tiny models of
    gradients_*.safetensors   model/testdata, and the gradient of every parameter: Hugging Face's forward in double and the
                         formula below, differentiated by torch
"""
import inspect, json, os, re, sys, textwrap
os.environ["OMP_NUM_THREADS"] = "1"
from collections import defaultdict
from types import SimpleNamespace
import torch
from safetensors.torch import save_file
import transformers
from transformers import AutoModelForCausalLM
import trl
from trl.trainer import grpo_trainer
from trl.trainer.grpo_trainer import GRPOTrainer

HERE = os.path.dirname(os.path.abspath(__file__))
TINY = os.path.join(HERE, "../../model/testdata/tiny")
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
F64 = torch.float64
VERSIONS = dict(torch=torch.__version__, transformers=transformers.__version__, trl=trl.__version__)


def write(name, data):
    with open(os.path.join(HERE, name), "w") as f:
        json.dump(data, f, indent=None, separators=(",", ":"), sort_keys=True)
        f.write("\n")


def f32(x):
    """Values that fp32 holds exactly: what the engine captures."""
    return x.float().double()


def loss():
    g = torch.Generator().manual_seed(7)
    B, T = 6, 16
    rand = lambda *s: torch.randn(*s, generator=g, dtype=F64)
    old = f32(-(rand(B, T).abs() * 2 + 0.05))
    lp = (old + 0.5 * rand(B, T)).clamp(max=-1e-3)
    ref = lp + 0.4 * rand(B, T)
    ent = rand(B, T).abs() + 0.1
    mask = (torch.rand(B, T, generator=g) < 0.6).long()
    mask[:, 3] = 1  # no row is empty
    mask[5] = 0
    mask[5, 7] = 1  # one token
    adv = torch.tensor([0.75, -0.25, -0.25, 0.5, -1.3, 0.0], dtype=F64)
    length = 15

    def case(kind, low, high, beta, coef):
        a, b = lp.clone().requires_grad_(), ent.clone().requires_grad_()
        t = GRPOTrainer.__new__(GRPOTrainer)
        t.__dict__.update(
            model=SimpleNamespace(training=True), loss_type=kind, epsilon_low=low, epsilon_high=high, beta=beta, entropy_coef=coef,
            args=SimpleNamespace(use_bias_correction_kl=False, delta=None, steps_per_generation=1),
            accelerator=SimpleNamespace(num_processes=1, sync_gradients=True, reduce=lambda x, reduction: x, gather=lambda x: x),
            aux_loss_enabled=False, top_entropy_quantile=1.0, off_policy_mask_threshold=None, importance_sampling_level="token",
            use_vllm=False, current_gradient_accumulation_steps=1, max_completion_length=length, use_adaptive_entropy=False,
            _entropy_bonus_enabled=coef != 0, _metrics=dict(train=defaultdict(list)),
            _get_per_token_logps_and_entropies=lambda *x, **k: (a, b, None))
        out = t._compute_loss(None, dict(
            prompt_ids=torch.zeros(B, 1, dtype=torch.long), prompt_mask=torch.ones(B, 1, dtype=torch.long),
            completion_ids=torch.zeros(B, T, dtype=torch.long), completion_mask=mask, advantages=adv,
            old_per_token_logps=old, ref_per_token_logps=ref, num_items_in_batch=mask.sum()))
        out.backward()
        m = {k: v[0] for k, v in t._metrics["train"].items()}
        return dict(loss_type=kind, low=low, high=high, beta=beta, entropy=coef, loss=out.item(), dlp=a.grad.tolist(),
                    dent=(torch.zeros_like(b) if b.grad is None else b.grad).tolist(), kl=m.get("kl", 0.0),
                    mean_entropy=m["entropy"], clipped=m["clip_ratio/region_mean"])

    cases = [case(k, lo, hi, beta, 0.0) for k in ("grpo", "bnpo", "dapo", "dr_grpo")
             for lo, hi in ((0.2, 0.2), (0.2, 0.28), (0.1, 0.5)) for beta in (0.0, 0.04, 1.0)]
    # TRL's entropy bonus is a mean over tokens whatever the loss type: ours is that under norm "token" alone.
    cases += [case(k, 0.2, 0.2, beta, 0.01) for k in ("bnpo", "dapo") for beta in (0.0, 0.04)]
    r = torch.exp(lp - old)
    hit = lambda x: int((x & mask.bool()).sum())
    assert hit((r > 1.28) & (adv[:, None] > 0)) > 1 and hit((r < 0.8) & (adv[:, None] < 0)) > 1  # clipped both ways
    assert hit((r > 1.28) & (adv[:, None] < 0)) > 1 and hit((r < 0.8) & (adv[:, None] > 0)) > 1  # outside and not clipped
    write("loss.json", dict(versions=VERSIONS, length=length, old=old.tolist(), lp=lp.tolist(), ref=ref.tolist(),
                            entropy=ent.tolist(), mask=mask.tolist(), advantages=adv.tolist(), cases=cases))


def advantages():
    """Runs TRL's own lines: they stand in the middle of a long method, so they are cut out of its source."""
    src = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    code = re.search(r'( +)if self\.multi_objective_aggregation == "sum_then_normalize":\n(.*?is_std_zero[^\n]*\n)', src, re.S)
    block = compile(textwrap.dedent(code.group(2)), "trl", "exec")
    g = torch.Generator().manual_seed(11)
    sets = [[0, 0, 1, 0] + [1, 1, 1, 1] + [1, 0, 0, 1], [0.25, -1, 3.5, 0.1, 0.2, 0.3], [1.0, 0.0], [0.0] * 8,
            torch.rand(24, generator=g, dtype=F64).tolist()]
    out = []
    for rewards, n in zip(sets, (4, 3, 2, 8, 8)):
        for scale in ("none", "group", "batch"):
            r = torch.tensor(rewards, dtype=F64)
            ns = dict(torch=torch, nanstd=grpo_trainer.nanstd, rewards_per_func=r[:, None], unscorable_mask=torch.zeros(len(r), dtype=torch.bool),
                      device="cpu", num_generations=n, self=SimpleNamespace(reward_weights=torch.ones(1, dtype=F64), scale_rewards=scale))
            exec(block, ns)
            out.append(dict(rewards=rewards, group=n, scale=scale, advantages=ns["advantages"].tolist()))
    write("advantages.json", dict(versions=VERSIONS, cases=out))


VOCAB = 96
SHRINK = 0.9375  # the reference is the policy with every weight multiplied by this, exactly in fp32
STEPS = [  # policy, options
    ("qwen2_tied", dict(norm="token", length=0, low=0.2, high=0.28, kl=0.05, entropy=0.02, scale="none", leave_one_out=False)),
    ("qwen3_untied", dict(norm="sequence", length=0, low=0.2, high=0.2, kl=0.1, entropy=0.0, scale="group", leave_one_out=False)),
    ("llama_untied", dict(norm="fixed", length=20, low=0.1, high=0.1, kl=0.0, entropy=0.01, scale="none", leave_one_out=True)),
]


def dialogues(g):
    """Random dialogues: tokens, which are trained, from which allowed set each was drawn, temperature, reward, group."""
    # Never id 0: it is these models' padding, whose row of the embedding Hugging Face gives no gradient.
    sets = [sorted((1 + torch.randperm(VOCAB - 1, generator=g)[:n]).tolist()) for n in (10, 40, 1)]  # numbers 1, 2, 3; 0 is everything
    out = []
    for i, (n, group, reward) in enumerate([(9, 0, 1), (24, 0, 0), (17, 0, 0), (12, 0, 1), (20, 1, 0), (2, 1, 1), (31, 1, 0), (14, 2, 1), (11, 3, 1), (13, 3, 1)]):
        pick = lambda k: int(torch.randint(0, k, (1,), generator=g))
        tokens, mask, ids = [1 + pick(VOCAB - 1)], [0], [0]
        for j in range(1, n):
            on = int(j == 1 or pick(10) < 6)
            s = pick(4) if on else 0
            tokens.append(1 + pick(VOCAB - 1) if s == 0 else sets[s - 1][pick(len(sets[s - 1]))])
            mask.append(on)
            ids.append(s)
        out.append(dict(tokens=tokens, mask=mask, sets=ids, temperature=[0.7, 1.0, 1.2][i % 3], group=group, reward=reward))
    return sets, out


def policy(model, d, sets):
    """log π(token) and entropy of every token but the first: softmax(logits / T) over the allowed set."""
    ids = torch.tensor([d["tokens"]])
    z = model(input_ids=ids).logits[0, :-1] / d["temperature"]
    allowed = torch.ones_like(z, dtype=torch.bool)
    for j, s in enumerate(d["sets"][1:]):
        if s:
            allowed[j] = False
            allowed[j, sets[s - 1]] = True
    lp = torch.log_softmax(z.masked_fill(~allowed, -torch.inf), -1)
    p = lp.exp()
    h = -(p * lp.masked_fill(~allowed, 0.0)).sum(-1)
    return lp.gather(1, ids[0, 1:, None])[:, 0], h


def advantage(ds, o):
    out = []
    for d in ds:
        r = [e["reward"] for e in ds if e["group"] == d["group"]]
        n, mean = len(r), sum(r) / len(r)
        a = d["reward"] - mean
        if o["leave_one_out"] and n > 1:
            a = d["reward"] - (sum(r) - d["reward"]) / (n - 1)
        if o["scale"] == "group" and n > 1:
            a /= (sum((x - mean) ** 2 for x in r) / (n - 1)) ** 0.5 + 1e-4
        out.append(a if n > 1 else 0.0)
    return out


def gradients():
    load = lambda name: AutoModelForCausalLM.from_pretrained(os.path.join(TINY, name), attn_implementation="eager", dtype=torch.float32).eval()
    out = []
    for k, (name, o) in enumerate(STEPS):
        g = torch.Generator().manual_seed(20 + k)
        sets, ds = dialogues(g)
        model, reference = load(name).double(), load(name)
        with torch.no_grad():
            for p in reference.parameters():
                p.mul_(SHRINK)
        reference.double()
        tokens = sum(sum(d["mask"]) for d in ds)
        total = torch.zeros((), dtype=F64)
        sums = defaultdict(float)
        for d, adv in zip(ds, advantage(ds, o)):
            lp, h = policy(model, d, sets)
            mask = torch.tensor(d["mask"][1:], dtype=F64)
            old = f32((lp.detach() + 0.3 * torch.randn(lp.shape, generator=g, dtype=F64)).clamp(max=-1e-4)) * mask
            d["old"] = [0.0] + old.tolist()
            ratio = torch.exp(lp - old)
            loss = -torch.minimum(ratio * adv, ratio.clamp(1 - o["low"], 1 + o["high"]) * adv) - o["entropy"] * h
            sums["clipped"] += float((mask * (((ratio < 1 - o["low"]) & (adv < 0)) | ((ratio > 1 + o["high"]) & (adv > 0)))).sum())
            sums["entropy"] += float((mask * h.detach()).sum())
            sums["ratio"] += float((mask * ratio.detach()).sum())
            if o["kl"]:
                with torch.no_grad():
                    ref, _ = policy(reference, d, sets)
                kl = torch.exp(ref - lp) - (ref - lp) - 1
                loss = loss + o["kl"] * kl
                sums["kl"] += float((mask * kl.detach()).sum())
            per = {"token": tokens, "sequence": len(ds) * sum(d["mask"]), "fixed": len(ds) * o["length"]}[o["norm"]]
            total = total + (loss * mask).sum() / per
        total.backward()
        grads = {n: p.grad for n, p in model.named_parameters()}
        norm = sum(float((x ** 2).sum()) for x in grads.values()) ** 0.5
        save_file({n: x.float().contiguous() for n, x in grads.items()}, os.path.join(HERE, f"gradients_{name}.safetensors"), {"format": "pt"})
        os.chmod(os.path.join(HERE, f"gradients_{name}.safetensors"), 0o644)
        out.append(dict(policy=name, shrink=SHRINK, options=o, sets=sets, dialogues=ds, loss=total.item(), grad_norm=norm,
                        kl=sums["kl"] / tokens, entropy=sums["entropy"] / tokens, clipped=sums["clipped"] / tokens, ratio=sums["ratio"] / tokens))
        print(name, "loss", total.item(), "norm", norm, "clipped", sums["clipped"] / tokens)
    write("gradients.json", dict(versions=VERSIONS, steps=out))


if __name__ == "__main__":
    for what in sys.argv[1:] or ["loss", "advantages", "gradients"]:
        globals()[what]()
