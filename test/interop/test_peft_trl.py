"""What the trainer wrote is a starting point for others: PEFT adapts a checkpoint, TRL trains it further."""
import os
import subprocess

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

torch.set_num_threads(1)
ROOT = os.path.join(os.path.dirname(__file__), "..", "..")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """The checkpoint of one GRPO step on the nano model: weights, tokenizer, chat template."""
    run = tmp_path_factory.mktemp("run") / "run"
    small = ["eval.profiles=0", "curriculum.profiles=2", "group=2", "rollout.max_turns=2", "checkpoint.dtype=fp32"]
    subprocess.run([os.environ["SEADTRAIN"], "run", "configs/nano.toml", "--run-dir", str(run), "--max-steps", "1",
                    *(word for s in small for word in ("--set", s))], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return str(run / "checkpoints" / "step-1")


def load(directory):
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)


def logits(model, tok):
    ids = tok.apply_chat_template([{"role": "user", "content": "Good morning."}], add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.no_grad():
        return model.eval()(**ids).logits


def moved(directory, model):
    """The parameters that training has changed."""
    return [n for (n, a), b in zip(load(directory).named_parameters(), model.parameters(), strict=True) if not torch.equal(a, b.detach().float())]


def trainer_args(tmp_path):
    return dict(output_dir=str(tmp_path / "out"), max_steps=2, use_cpu=True, bf16=False, report_to=[], save_strategy="no", logging_steps=1,
                learning_rate=1e-3, per_device_train_batch_size=4, disable_tqdm=True, dataloader_pin_memory=False)


def test_peft_adapts_a_checkpoint(checkpoint, tmp_path):
    tok = AutoTokenizer.from_pretrained(checkpoint)
    before = logits(load(checkpoint), tok)
    torch.manual_seed(1)
    model = get_peft_model(load(checkpoint), LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM"))
    assert torch.equal(logits(model, tok), before)  # an adapter begins as nothing
    ids = tok("<say>Good morning, how can I help?</say>", return_tensors="pt")
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
    for _ in range(2):  # the first step moves B alone, since B is zero
        optimizer.zero_grad()
        loss = model.train()(**ids, labels=ids["input_ids"]).loss
        loss.backward()
        optimizer.step()
    after = logits(model, tok)
    assert (after - before).abs().max() > 1e-3

    model.save_pretrained(tmp_path / "adapter")
    again = PeftModel.from_pretrained(load(checkpoint), tmp_path / "adapter")
    assert torch.equal(logits(again, tok), after)
    model.merge_and_unload().save_pretrained(tmp_path / "merged")
    assert (logits(load(tmp_path / "merged"), tok) - after).abs().max() < 1e-4


def test_trl_fine_tunes_a_checkpoint(checkpoint, tmp_path):
    lines = [{"messages": [{"role": "user", "content": f"Good morning, {i}."}, {"role": "assistant", "content": "How can I help?"}]} for i in range(8)]
    t = SFTTrainer(checkpoint, SFTConfig(**trainer_args(tmp_path), max_length=128, model_init_kwargs={"dtype": "float32"}), train_dataset=Dataset.from_list(lines))
    t.train()
    losses = [h["loss"] for h in t.state.log_history if "loss" in h]
    assert len(losses) == 2 and losses[1] < losses[0] and len(moved(checkpoint, t.model)) > 10


def test_trl_goes_on_with_grpo(checkpoint, tmp_path):
    """TRL's GRPO takes our directory as policy and reference, its tokenizer and chat template with it."""
    lines = [{"prompt": [{"role": "user", "content": f"Good morning, {i}."}]} for i in range(8)]
    texts = []

    def reward(completions, **_):
        texts.extend(c[0]["content"] for c in completions)
        return [float(i % 2) for i in range(len(completions))]

    config = GRPOConfig(**trainer_args(tmp_path), num_generations=4, max_completion_length=24, beta=0.01, model_init_kwargs={"dtype": "float32"})
    t = GRPOTrainer(checkpoint, reward, config, train_dataset=Dataset.from_list(lines))
    t.train()
    norms = [h["grad_norm"] for h in t.state.log_history if "grad_norm" in h]
    assert len(texts) == 8 and any(texts) and len(norms) == 2 and all(n > 0 for n in norms)
    assert len(moved(checkpoint, t.model)) > 10
