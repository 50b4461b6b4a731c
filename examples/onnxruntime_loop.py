"""Speculative decoding of ONNX models, without a cache of keys and values: two callbacks are all it takes.

    pip install onnxruntime onnx           # onnx only to build the toy models
    python examples/onnxruntime_loop.py    # toy models
    python examples/onnxruntime_loop.py --target large.onnx --draft small.onnx --prompt 1 15 27

A model takes ``input_ids`` [1, n] (and ``attention_mask`` [1, n], if it has such an input) and gives logits [1, n, V],
as decoders are exported without a cache; each pass reads the whole text anew. Prompt and output are token ids. The toy
draft costs as much as its target, so with it this shows the calls and not a speed-up.
"""

import argparse
from collections.abc import Sequence

import numpy as np
import onnxruntime

import specverify
from specverify import Sampling
from specverify.decoder import SpeculativeDecoder
from specverify.steps import Start


class Model:
    """A causal language model in an ONNX session."""

    def __init__(self, model: str | bytes, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._masked = "attention_mask" in {one.name for one in self._session.get_inputs()}

    def logits(self, tokens: Sequence[int], n_last: int) -> np.ndarray:
        """Give the rows [n_last, V] that predict what follows each of the last positions."""
        inputs = {"input_ids": np.array([tokens], np.int64)}
        if self._masked:
            inputs["attention_mask"] = np.ones_like(inputs["input_ids"])
        return self._session.run(["logits"], inputs)[0][0, -n_last:]


class TargetStep:
    """All proposed tokens in one pass: row 0 predicts the first of them, the last row what comes after them."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __call__(self, prefix: Sequence[int], proposed: Sequence[int]) -> np.ndarray:
        return self.model.logits([*prefix, *proposed], len(proposed) + 1)


class DraftStep:
    """One token after the other, drawn from the law that verification takes them to come from."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def begin(self, start: Start) -> None:
        """Take over the sampler and the random stream of the text; the decoder calls this."""
        self.start = start

    def __call__(self, prefix: Sequence[int], k: int) -> tuple[list[int], np.ndarray | None]:
        tokens: list[int] = []
        rows = []
        for _ in range(k):
            row = self.model.logits([*prefix, *tokens], 1)[0]
            if self.start.greedy:
                tokens.append(int(row.argmax()))
            else:
                tokens.append(specverify.sample(row, self.start.rng.random(), self.start.sampling))
                rows.append(row)
        # Tokens that were not drawn are certain: no rows. Drawn ones come with their logits; the decoder warps them.
        return tokens, np.stack(rows) if rows else None


def toy(context: float, vocab: int = 500, width: int = 64) -> bytes:
    """Build a small causal model: the last token's embedding, and with a weight `context` the sum of all before it.

    Two models that differ only in `context` are a target and a draft that mostly agrees.
    """
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    tensors = {
        "embedding": rng.normal(size=(vocab, width)),
        "mixing": rng.normal(size=(width, width)) / np.sqrt(width),
        "context": np.array(context),
        "head": rng.normal(size=(width, vocab)) * 3 / np.sqrt(width),
    }
    nodes = [
        helper.make_node("Gather", ["embedding", "input_ids"], ["embedded"]),
        helper.make_node("CumSum", ["embedded", "time"], ["summed"]),
        helper.make_node("Mul", ["summed", "context"], ["weighted"]),
        helper.make_node("Add", ["embedded", "weighted"], ["seen"]),
        helper.make_node("MatMul", ["seen", "mixing"], ["mixed"]),
        helper.make_node("Tanh", ["mixed"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "head"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "toy",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "n"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "n", vocab])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in tensors.items()]
        + [numpy_helper.from_array(np.array(1, np.int64), "time")],
    )
    # The oldest versions that have these operators, so that any onnxruntime of today reads them.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    return model.SerializeToString()


def main() -> None:
    """Decode greedily and by sampling, each with a draft and plainly, and print what the draft was worth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", help="an ONNX file (default: a toy model)")
    parser.add_argument("--draft", help="an ONNX file of the same vocabulary (default: a toy model)")
    parser.add_argument("--prompt", type=int, nargs="+", default=[1, 2, 3], help="token ids")
    parser.add_argument("--max-new", type=int, default=100)
    parser.add_argument("--k", type=int, default=4, help="drafted tokens in a round")
    options = parser.parse_args()
    if (options.target is None) != (options.draft is None):
        parser.error("--target and --draft: expected both or none, since their tokens must be the same")
    target = TargetStep(Model(options.target or toy(context=0.1)))
    draft = DraftStep(Model(options.draft or toy(context=0.08)))

    for sampling in (None, Sampling(temperature=0.8, top_k=40)):
        decoder = SpeculativeDecoder(draft, target, options.k, sampling=sampling, rng=0)
        tokens, report = decoder.generate(options.prompt, options.max_new)
        plain = SpeculativeDecoder(None, target, sampling=sampling, rng=0).generate(options.prompt, options.max_new)
        print("greedy" if sampling is None else sampling)
        print(f"  {tokens[:12]} ...")
        if sampling is None:
            same = tokens == plain.tokens
            print(f"  the text {'equals' if same else 'DIFFERS FROM'} plain decoding, token for token")
        print(f"  {report.tokens} tokens in {report.rounds} target passes", end=", ")
        print(f"{sum(report.accepted)} of {sum(report.drafted)} drafted ones accepted")
        print(f"  {report.seconds:.3f} s, verification {report.verify_seconds:.4f} of it", end="; ")
        print(f"plain {plain.report.seconds:.3f} s")


if __name__ == "__main__":
    main()
