"""`tinyt generate RUN PROMPT`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from tinyt import ops
from tinyt.autograd import no_grad
from tinyt.cli.chars.data import Vocabulary
from tinyt.cli.chars.task import Chars, CharsConfig, make_model
from tinyt.cli.errors import CommandError, at_least, number
from tinyt.cli.place import add_device, find_device
from tinyt.cli.runs import Run
from tinyt.cli.task import UNFIT, unfit
from tinyt.models import CharTransformer
from tinyt.random import Generator
from tinyt.tensor import Tensor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `tinyt generate`."""
    parser.add_argument("run", metavar="RUN", help="run folder that `tinyt train chars` made")
    parser.add_argument("prompt", metavar="PROMPT", help="text to continue")
    parser.add_argument(
        "--length", type=at_least(1), default=400, metavar="N", help="characters (default: 400)"
    )
    parser.add_argument(
        "--temperature",
        type=number(0),
        default=0.8,
        metavar="X",
        help="0 takes the likeliest character, more takes more chances (default: 0.8)",
    )
    parser.add_argument(
        "--top-k", type=at_least(1), metavar="N", help="choose among the N likeliest characters"
    )
    parser.add_argument(
        "--seed", type=at_least(0), default=0, metavar="N", help="of the choices (default: 0)"
    )
    add_device(parser)
    parser.set_defaults(command=generate)


def generate(args: argparse.Namespace) -> int:
    """Prints the prompt and how the network goes on, character by character."""
    place = find_device(args.device)
    model, vocabulary = _open(Path(args.run))
    model.to(place)
    if not args.prompt:
        raise CommandError("the prompt must have at least one character")
    prompt = vocabulary.encode(args.prompt).to(place)
    generator = Generator()
    generator.manual_seed(args.seed)
    print(args.prompt, end="", flush=True)
    for character in continuation(
        model, prompt, args.length, args.temperature, args.top_k, generator
    ):
        print(vocabulary.decode([character]), end="", flush=True)
    print()
    return 0


def _open(folder: Path) -> tuple[CharTransformer, Vocabulary]:
    """The network of a run; its text is not needed."""
    run, task, config = Run.open(folder)
    if task is not Chars or not isinstance(config, CharsConfig):
        raise CommandError(f"{folder} is a run of {task.name}; `tinyt train chars` makes one")
    state = run.load_checkpoint()
    try:
        vocabulary = Vocabulary(state["vocabulary"])
        model = make_model(config, vocabulary)
        model.load_state_dict(state["model"])
    except UNFIT as error:
        raise unfit(error) from None
    model.eval()
    return model, vocabulary


def continuation(
    model: CharTransformer,
    prompt: Tensor,
    length: int,
    temperature: float,
    top_k: int | None,
    generator: Generator,
) -> Iterator[int]:
    """The numbers of the next characters, each drawn from the network's distribution.

    Args:
        model: in evaluation mode.
        prompt: the numbers of the characters so far: int64 (T,), T >= 1.
        length: how many to give.
        temperature: divides the logits; 0 takes the largest.
        top_k: how many of the largest logits stay; all for None.
        generator: source of randomness.
    """
    window = prompt[-model.context :]
    for _ in range(length):
        with no_grad():
            logits = model(window.unsqueeze(0))[0, -1]
            chosen = _choose(logits, temperature, top_k, generator)
        yield int(chosen.item())
        window = ops.cat([window, chosen])[-model.context :]


def _choose(logits: Tensor, temperature: float, top_k: int | None, generator: Generator) -> Tensor:
    if temperature == 0:
        return logits.argmax(dim=0, keepdim=True)
    if top_k is not None and top_k < len(logits):
        last = logits.topk(top_k).values[-1]
        logits = logits.masked_fill(logits < last, float("-inf"))
    # Shifted first, so that a small temperature does not overflow.
    chances = ((logits - logits.max()) / temperature).softmax(dim=0)
    return ops.multinomial(chances, 1, generator=generator)
