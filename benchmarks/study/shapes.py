"""Shapes of models with random weights, in two series. Times and makes none (depth.py).

One series of drafts has equal parameters and more and more layers, each narrower; the other has equal depth and more
and more parameters.
"""

from dataclasses import dataclass

VOCABULARY = 8192


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
