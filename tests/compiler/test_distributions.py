"""Distributions in compiled functions: the bits of eager, draws included; no look at values."""

from __future__ import annotations

from typing import Any

import pytest

import tinyt
from distribution_samples import FAMILIES, Family, tensors
from drawn import same
from sampling import flat
from tinyt import Tensor
from tinyt import distributions as D
from tinyt.compiler import record

every_family = pytest.mark.parametrize("family", FAMILIES, ids=str)


def leaves_of(family: Family) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The parameters that are tensors, and the others."""
    given = tensors(tinyt, family.params)
    own = {k: v for k, v in given.items() if isinstance(v, Tensor)}
    return own, {k: v for k, v in given.items() if k not in own}


@every_family
def test_a_step_has_the_bits_of_eager(family: Family) -> None:
    """Drawing, the density of draw and value, and their gradients; three runs of one program."""
    own, rest = leaves_of(family)
    names = list(own)

    def step(value: Tensor, *params: Tensor) -> Any:
        params = tuple(p.detach().requires_grad_() for p in params)
        d = getattr(D, family.name)(**dict(zip(names, params, strict=True)), **rest)
        drawn = d.rsample((4,)) if d.has_rsample else d.sample((4,))
        log_prob = d.log_prob(value)
        loss = log_prob.sum()
        if drawn.requires_grad:
            loss = loss + drawn.sin().sum()
        grads = tinyt.autograd.grad(loss, params, allow_unused=True)
        found = [drawn.detach(), log_prob.detach(), *(g for g in grads if g is not None)]
        if family.scipy is not None:
            found.append(d.mean.detach())
        return found

    compiled = tinyt.compile(step)
    value = tinyt.tensor(family.values)
    found = []
    for function in (step, compiled):
        tinyt.manual_seed(5)
        found.append([list(flat(function(value, *own.values()))) for _ in range(3)])
    for want, got in zip(*found, strict=True):
        for a, b in zip(want, got, strict=True):
            same(a, b)


def test_values_are_not_looked_at_but_shapes_are() -> None:
    @tinyt.compile
    def log_prob(x: Tensor, scale: Tensor) -> Tensor:
        return D.Normal(tinyt.zeros(2), scale).log_prob(x)

    x, wrong = tinyt.tensor([0.5, 1.0]), tinyt.tensor([1.0, -1.0])
    with pytest.raises(ValueError, match="scale"):
        log_prob(x, wrong)  # the first call runs as written
    for _ in range(2):
        log_prob(x, tinyt.ones(2))
    assert log_prob(x, wrong).isnan().tolist() == [False, True]
    with pytest.raises(ValueError, match="not broadcastable"):
        log_prob(tinyt.zeros(3), tinyt.ones(2))


def test_a_distribution_from_outside() -> None:
    """What a recording computes of it is not kept in it."""
    d = D.Bernoulli(probs=tinyt.tensor([0.2, 0.8]))
    x = tinyt.tensor([1.0, 0.0])
    record(lambda x: d.log_prob(x) + d.entropy(), x)
    assert "logits" not in vars(d)
    want = d.log_prob(x) + d.entropy()
    compiled = tinyt.compile(lambda x: d.log_prob(x) + d.entropy())
    for _ in range(3):
        same(compiled(x), want)


def test_a_policy_gradient_step() -> None:
    """REINFORCE with a learned policy: parameters after ten compiled steps are eager's."""

    def train(compiled: bool) -> list[Tensor]:
        tinyt.manual_seed(0)
        policy = tinyt.nn.Linear(3, 4)
        optimiser = tinyt.optim.Adam(policy.parameters(), lr=0.05)

        def step(state: Tensor) -> Tensor:
            d = D.Categorical(logits=policy(state))
            action = d.sample()
            reward = (action == 2).float()
            loss = -(d.log_prob(action) * reward).mean() - 0.01 * d.entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            return loss.detach()

        run = tinyt.compile(step) if compiled else step
        states = tinyt.randn(10, 16, 3)
        losses = [run(s) for s in states]
        return [*losses, *(p.detach().clone() for p in policy.parameters())]

    for a, b in zip(train(False), train(True), strict=True):
        same(a, b)


def test_divergences() -> None:
    def step(loc: Tensor, scale: Tensor) -> Tensor:
        q = D.Independent(D.Normal(loc, scale), 1)
        p = D.Independent(D.Normal(tinyt.zeros_like(loc), tinyt.ones_like(scale)), 1)
        return (
            D.kl_divergence(q, p) + D.kl_divergence(D.Gamma(scale, scale), D.Exponential(1.0)).sum()
        )

    loc, scale = tinyt.randn(5, 3), tinyt.rand(5, 3) + 0.5
    same(tinyt.compile(step)(loc, scale), step(loc, scale))


def test_transforms_with_a_cache() -> None:
    def step(x: Tensor) -> Tensor:
        squash = D.TanhTransform(cache_size=1)
        d = D.TransformedDistribution(D.Normal(x, 1.0), [squash])
        action = d.rsample()
        return d.log_prob(action)

    x = tinyt.randn(7)
    tinyt.manual_seed(3)
    want = step(x)
    tinyt.manual_seed(3)
    same(tinyt.compile(step)(x), want)
