"""What ``specverify generate`` shows: a text while it grows, its figures, and the verdict of a comparison.

Holds no figure of its own: generation.py and adapters/comparison.py compute them.
"""

import re
from collections.abc import Iterator, Sequence

from ..adapters import CachedModel, TextStream
from ..adapters.comparison import Comparison
from ..generation import Report, Round
from ._terminal import MarkedText, Screen

_JOINERS = "\u200c\u200d"  # without which emoji and some scripts fall apart
_PROMPT_SHOWN = 200  # characters: enough to see what is continued
_BEFORE = 8  # tokens of the prompt that the first new one is decoded after
_ENDED = {"end": "an end token", "stop": "a stop text", "length": "the limit on new tokens"}


class ShownText:
    """The text on a screen, each token in the style of its kind; characters come whole."""

    def __init__(self, screen: Screen, model: CachedModel, prompt: list[int], prompt_text: str, chat: bool) -> None:
        kinds = ("accepted", "residual", "bonus")
        screen.print(f"{', '.join(map(screen.sample, kinds))}: kinds of tokens in this text;")
        screen.print(f"without {'a colour' if screen.colour else 'a mark'}: the target's, where nothing was drafted")
        screen.print()
        self._text = MarkedText(screen)
        self._stream = TextStream(model.decode, before(prompt, chat))
        self._style = "plain"
        cut = "..." if len(prompt_text) > _PROMPT_SHOWN else ""
        self._show(cut + prompt_text[-_PROMPT_SHOWN:] + ("\n" if chat else ""), "prompt")

    def add(self, one: Round) -> None:
        """Append the tokens of a round."""
        drafted = "residual" if one.n_accepted < one.n_drafted else "bonus"
        last = drafted if one.n_drafted else "plain"
        for i, token in enumerate(one.tokens):
            self._style = "accepted" if i < one.n_accepted else last
            self._show(self._stream.add(token), self._style)

    def end(self) -> None:
        """Show what waited for the rest of a character."""
        self._show(self._stream.flush(), self._style)
        self._text.end_line()

    def _show(self, text: str, style: str) -> None:
        for part in _cells(text):
            self._text.add(part, style)


def before(prompt: list[int], chat: bool) -> list[int]:
    """Give the tokens that the first new one is decoded after; in a chat it begins a text of its own."""
    return [] if chat else prompt[-_BEFORE:]


def _cells(text: str) -> Iterator[str]:
    """Split text at line ends, and write what could steer a terminal as an escape."""
    for part in re.findall(r"\n|[^\n]+", text):
        yield part if part == "\n" else "".join(map(_visible, part))


def _visible(character: str) -> str:
    return character if character.isprintable() or character in _JOINERS else ascii(character)[1:-1]


def summarize(screen: Screen, report: Report, compared: Comparison | None) -> None:
    """Print the figures of a text, and those of plain decoding if it was compared."""

    def line(name: str, value: float | None, form: str, meaning: str) -> None:
        screen.print(f"  {name:24}{'-' if value is None else format(value, form):>8}   {meaning}")

    screen.print()
    screen.print(f"{report.tokens} tokens in {report.rounds} rounds, ended by {_ENDED[report.finish_reason]}")
    line("tokens per target pass", report.tokens_per_target_pass, ".3f", "residual or bonus token included")
    line("tested acceptance", report.tested_acceptance, ".3f", "accepted / (accepted + first rejections)")
    line("draft utilisation", report.draft_utilisation, ".3f", "accepted / drafted")
    draft, target, verification = report.shares or (0.0, 0.0, 0.0)
    line("draft", report.draft_seconds, ".3f", f"s, {draft:.1%}")
    line("target", report.target_seconds, ".3f", f"s, {target:.1%} (reading the prompt included)")
    line("verification", report.verify_seconds, ".3f", f"s, {verification:.1%}")
    rest = max(0.0, report.seconds - report.draft_seconds - report.target_seconds - report.verify_seconds)
    share = rest / report.seconds if report.seconds else 0.0
    line("rest", rest, ".3f", f"s, {share:.1%} (the loop itself, looking for stop texts)")
    line("tokens per second", report.tokens_per_second, ".2f", f"in {report.seconds:.3f} s")
    if compared is not None:
        plain = compared.plain.report
        line(
            "plain decoding",
            plain.tokens_per_second,
            ".2f",
            f"tokens per second, {plain.tokens} in {plain.seconds:.3f} s",
        )
        line("speed-up", compared.speedup, ".2f", "of tokens per second")


def say_lengths(screen: Screen, requested: Sequence[int], drafted: Sequence[int]) -> None:
    """Print what draft lengths an adaptive one chose, and how often something was proposed."""
    asked = [k for k in requested if k]
    screen.print()
    if not asked:
        screen.paragraph(
            "auto asked for no draft: none was predicted to pay, or a rejected one would have lost more than it may."
        )
        return
    lengths = f"{min(asked)}" if min(asked) == max(asked) else f"{min(asked)} to {max(asked)}"
    screen.paragraph(
        f"auto asked for a draft in {len(asked)} of {len(requested)} rounds, k = {lengths}; in "
        f"{sum(n > 0 for n in drafted)} it was given one."
    )


def judge(screen: Screen, compared: Comparison) -> None:
    """Print whether a greedy text is that of plain decoding, and if not, whose doing it is."""
    screen.print()
    if compared.identical is None:
        screen.paragraph(
            "The texts are two draws from the same law, and are not compared; the speed-up is of different texts."
        )
        return
    if compared.identical:
        screen.verdict(True, "the text equals plain decoding of the target, token for token")
        return
    effect = compared.batch_effect
    text = f"the text DIFFERS FROM plain decoding of the target from its token {compared.first_difference} on. "
    if effect is None:
        text += "One of the two ended early."
    else:
        text += (
            "There the runtime's logits of a batch and of single tokens differ by up to "
            f"{effect.largest_difference:.2g}, "
        )
        if effect.explains:
            text += (
                f"and so do their most probable tokens, {effect.batched_token} and {effect.single_token}: the text "
                "follows the batched logits. Other formats or attention kernels give equal ones."
            )
        else:
            text += (
                f"but both have token {effect.single_token} as the most probable one: this is a fault of the "
                "draft/verify loop."
            )
    screen.verdict(False, text)
