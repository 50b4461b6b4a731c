"""Which sets the cost of a draft, its depth or its number of parameters? Models with random weights, timed for a token.

The step of each draft of two series (shapes.py) is given as a share c of the step of one fixed target, and with it the
most that any acceptance can gain, (k + 1) / (1 + k c), were a pass over k + 1 tokens as cheap as one over a single
token.
"""

from dataclasses import asdict
from statistics import median
from time import perf_counter

from . import grid
from .grid import DEPTH_CONTEXT as CONTEXT
from .shapes import VOCABULARY, all_shapes

REPEATS = 31


def measure(folder, lines, plan, report=print):
    """Time one token of each model after CONTEXT tokens; all models are there at once and take turns."""
    import numpy as np
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from specverify.adapters.transformers import Model

    shapes = all_shapes()
    (key,) = grid.depth_keys(plan)
    if key in lines:
        return
    torch.manual_seed(0)
    torch.set_num_threads(1)
    text = np.random.default_rng(0).integers(VOCABULARY, size=CONTEXT + 1).tolist()
    models = {}
    for where, shape in shapes.items():
        config = LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=shape.width,
            intermediate_size=shape.inner,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.width // 32,
            tie_word_embeddings=True,
            max_position_embeddings=2 * CONTEXT,
        )
        models[where] = Model(LlamaForCausalLM(config).eval())
        models[where].extend(text[:CONTEXT])
    times = {where: [] for where in models}
    for repeat in range(REPEATS):
        for where, model in models.items():
            for timed in (False, True):  # the first of the two brings the weights back into the cache
                model.truncate(CONTEXT)
                before = perf_counter()
                model.extend(text[CONTEXT:])
                if timed and repeat:
                    times[where].append(perf_counter() - before)
    rows = [
        {"series": name, **asdict(shapes[name, i]), "parameters": shapes[name, i].parameters, "seconds": median(found)}
        for (name, i), found in times.items()
    ]
    lines.add(key, rows=rows)
    report("depth: done")
