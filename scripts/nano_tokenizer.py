"""Trains the nano model's tokenizer on its corpus: byte-level BPE, one token per tag, ChatML.

Usage: nano_tokenizer.py CORPUS.jsonl OUT_DIR [VOCABULARY]

Writes tokenizer.json and tokenizer_config.json. The result is a function of the corpus, the vocabulary and the pinned
version of `tokenizers` alone.
"""

import collections
import json
import re
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
# A number is cut into digits (a minus sign stays with its digit), a word keeps the space in front of it, ideographs
# stand apart from marks, a line break stands alone.
PIECES = r"-?\d| ?\p{Latin}+| ?\p{Han}+|\n| ?[^\s\p{L}\p{N}]|\s|."
TAG = re.compile(r"</?[a-z_]+>")
THOUGHT = re.compile(r"<user_think>(.*?)</user_think>")
# Bytes: long enough for every English word of the corpus and for four ideographs, too short for a sentence.
LONGEST = 13
# A piece seen n times counts n^DAMP times, and one seen less than RARE times not at all: the rarer words should not
# stay in bytes for the sake of longer pieces of the frequent ones.
DAMP, RARE = 0.6, 4
# A profile stands once in a dialogue, the words of thoughts are one token each, or the model's chain of thought breaks.
PROMPTS, THOUGHTS = 20, 20


def texts(path):
    """Everything a model reads and how often, tags cut out: they become tokens of their own."""
    seen = collections.Counter()
    with open(path, encoding="utf-8") as f:
        for line in f:
            for message in json.loads(line)["messages"]:
                seen[message["role"] + "\n"] += 1
                for piece in TAG.split(message["content"]):
                    seen[piece] += PROMPTS if message["role"] == "system" else 1
                for thought in THOUGHT.findall(message["content"]):
                    seen[thought] += THOUGHTS - 1
    return seen


def pieces(path, split):
    """The pieces the texts are cut into, each as often as it counts."""
    seen = collections.Counter()
    for text, n in texts(path).items():
        for piece, _ in split.pre_tokenize_str(text):
            seen[piece] += n
    for piece in sorted(seen):
        if seen[piece] >= RARE:
            yield from [piece] * round(seen[piece] ** DAMP)


def tags(path):
    seen = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            for message in json.loads(line)["messages"]:
                for tag in TAG.findall(message["content"]):
                    seen.setdefault(tag)
    return sorted(seen, key=lambda t: (t.strip("</>"), t.startswith("</")))


def main():
    corpus, out = sys.argv[1], sys.argv[2]
    vocabulary = int(sys.argv[3]) if len(sys.argv) > 3 else 1536
    own = tags(corpus)
    tok = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(PIECES), behavior="isolated")
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        split,
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(pieces(corpus, split), trainers.BpeTrainer(
        vocab_size=vocabulary - len(SPECIAL) - len(own),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=LONGEST,
        show_progress=False,
    ))
    # Added last, so that the byte-level vocabulary comes first, as in the Qwen family.
    tok.add_tokens([AddedToken(t, normalized=False, special=False) for t in own])
    tok.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in SPECIAL])
    size = tok.get_vocab_size()
    if size % 64:
        sys.exit(f"vocabulary of {size} is no multiple of 64: the corpus is too small for {vocabulary}")
    tok.save(f"{out}/tokenizer.json")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 2048,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "added_tokens_decoder": {
            str(tok.token_to_id(t)): {"content": t, "lstrip": False, "normalized": False, "rstrip": False,
                                      "single_word": False, "special": t in SPECIAL}
            for t in own + SPECIAL
        },
        "chat_template": TEMPLATE,
    }
    with open(f"{out}/tokenizer_config.json", "w", encoding="utf-8") as f:
        json.dump(config, f, ensure_ascii=False, indent=2)
        f.write("\n")
    print(f"{size} tokens, {len(own)} tags, <|im_end|> is {tok.token_to_id('<|im_end|>')}")


if __name__ == "__main__":
    main()
