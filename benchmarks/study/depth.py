"""Which sets the cost of a draft, its depth or its number of parameters? Models with random weights, timed for a token.

One series of drafts has equal parameters and more and more layers, each narrower; the other has equal depth and more
and more parameters. The step of each is given as a share c of the step of one fixed target, and with it the most that
any acceptance can gain, (k + 1) / (1 + k c), were a pass over k + 1 tokens as cheap as one over a single token.
"""

from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter

VOCABULARY = 8192
CONTEXT = 64
REPEATS = 31
K = 4


@dataclass(frozen=True)
class Shape:
    """A model like llama's: layers, width, width of the feed-forward part, heads of 32."""

    layers: int
    width: int
    inner: int

    @property
    def parameters(self):
        """Weights: the embedding, which is also the last layer, and those of each layer: seven matrices, two norms."""
        layer = 4 * self.width**2 + 3 * self.width * self.inner + 2 * self.width
        return VOCABULARY * self.width + self.layers * layer + self.width


TARGET = Shape(30, 576, 1536)
PARAMETERS, LAYERS = 12_000_000, 8  # what the other series holds fixed


def fitted(layers, parameters):
    """Give the shape of so many layers that comes closest to a number of parameters, its inner part 8/3 as wide."""
    shapes = []
    for width in range(32, 2048, 32):
        around = (parameters - VOCABULARY * width - width) / layers - 4 * width**2 - 2 * width
        inner = max(8, round(around / (3 * width) / 8) * 8)
        shapes.append(Shape(layers, width, inner))
    return min(
        (shape for shape in shapes if abs(shape.parameters / parameters - 1) < 0.02),
        key=lambda shape: abs(shape.inner / shape.width - 8 / 3),
    )


def series():
    """Give both series: name to shapes."""
    return {
        "depth": [fitted(layers, PARAMETERS) for layers in (2, 4, 8, 16, 32)],
        "parameters": [fitted(LAYERS, million * 1_000_000) for million in (4, 8, 16, 32, 64)],
    }


def all_shapes():
    """Give the target and both series by the name of the series and the place in it."""
    return {("target", 0): TARGET} | {
        (name, i): shape for name, found in series().items() for i, shape in enumerate(found)
    }


def keys(plan):
    """Give the one key of a line, the same for all plans."""
    return [{"shapes": [[*where, *asdict(shape).values()] for where, shape in all_shapes().items()]}]


def measure(folder, lines, plan, report=print):
    """Time one token of each model behind CONTEXT tokens; all models are there at once and take turns."""
    import numpy as np
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from specverify.adapters.transformers import Model

    shapes = all_shapes()
    (key,) = keys(plan)
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
