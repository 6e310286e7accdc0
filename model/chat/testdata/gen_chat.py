#!/usr/bin/env python3
"""Golden file of the chat templates: what transformers' apply_chat_template makes of conversations, as token ids.

    python gen_chat.py          writes chat.json

Needs transformers, gguf, jinja2, and the tokenizers and the GGUF in third_party/models (make test-models).
Contents hold no special tokens: there our result differs on purpose.
"""
import json, os
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "..", "..", "third_party", "models")
PLAIN = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
         "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def smollm2():
    r = GGUFReader(os.path.join(MODELS, "SmolLM2-135M-Instruct.Q4_1.gguf"))
    get = lambda key: r.fields[key].contents()
    tokens, types = get("tokenizer.ggml.tokens"), get("tokenizer.ggml.token_type")
    merges = [tuple(m.split(" ")) for m in get("tokenizer.ggml.merges")]
    t = Tokenizer(models.BPE({s: i for i, s in enumerate(tokens)}, merges))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s, k in zip(tokens, types) if k == 3])
    return PreTrainedTokenizerFast(tokenizer_object=t, chat_template=get("tokenizer.chat_template"))


S, U, A = ((lambda role: lambda text: {"role": role, "content": text})(r) for r in ("system", "user", "assistant"))
CONVERSATIONS = [
    [U("Hello!")],
    [S("You are a polite service agent."), U("Who is calling?")],
    [S("你是一名客服。"), U("你好,请问是哪位?"), A("您好,我是平台的客服小李。"), U("我现在很忙 🙂")],
    [U("one"), A("two"), U("three"), A("four")],
    [S(""), U("  leading and trailing spaces  ")],
    [U("\nbegins with a line break"), A("\n\ntwo of them\n"), U("tab\tand\r\nCRLF\n\n\n")],
    [S("a"), S("a second system turn"), U("1234567 + 0.5 = ?"), A("It's 1,234,567.5; don't you think?")],
    [S("tags"), U("<user_reply>no</user_reply>"), A("<response>yes</response><status>1</status>")],
    [U("q"), A("<think>\nsome thought\n</think>\n\nanswer"), U("again"), A("<think>\n\n</think>\n\nsecond")],
    [U("q"), A("first half"), A("<think>deep</think>second half"), A("third")],
    [U("q"), A("</think>\nopen end"), U("<tool_response>\n42\n</tool_response>")],
    [U("naïve café — “quotes” … ½ ﬁ Å e\u0301 한국어 العربية हिन्दी ไทย")],
    [A("the assistant speaks first"), U("then the user")],
    [S("no user at all")],
    [U("x" * 300), A(" "), U("\u00a0\u3000")],
]


def main():
    qwen25 = AutoTokenizer.from_pretrained(os.path.join(MODELS, "qwen2.5-tokenizer"))
    qwen3 = AutoTokenizer.from_pretrained(os.path.join(MODELS, "qwen3-tokenizer"))
    cases = []
    for name, tok, variants in (
        ("qwen2.5", qwen25, [{}]),
        ("qwen3", qwen3, [{"enable_thinking": False}, {"enable_thinking": True}]),
        ("smollm2", smollm2(), [{}]),
        ("plain", qwen25, [{"chat_template": PLAIN}]),
    ):
        for kw in variants:
            for generate in (False, True):
                ids = [tok.apply_chat_template(c, add_generation_prompt=generate, tokenize=True, return_dict=False, **kw) for c in CONVERSATIONS]
                cases.append(dict(template=name, thinking=kw.get("enable_thinking", False), generate=generate, ids=ids))
    with open(os.path.join(HERE, "chat.json"), "w") as f:
        json.dump(dict(plain=PLAIN, conversations=CONVERSATIONS, cases=cases), f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
