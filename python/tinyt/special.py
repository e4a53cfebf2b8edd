"""Special functions under PyTorch's names; many are those of the main namespace."""

from __future__ import annotations

from tinyt.ops import (
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    i0,
    log1p,
    log_softmax,
    logit,
    logsumexp,
    polygamma,
    round,
    sinc,
    softmax,
    xlogy,
)
from tinyt.ops import digamma as psi
from tinyt.ops import lgamma as gammaln
from tinyt.ops import mvlgamma as multigammaln
from tinyt.ops import sigmoid as expit
from tinyt.ops.elementwise.special import entr, ndtr
from tinyt.tensor import prim

i0e = prim.i0e
i1 = prim.i1
i1e = prim.i1e
gammainc = prim.gammainc
gammaincc = prim.gammaincc
erfcx = prim.erfcx
log_ndtr = prim.log_ndtr
ndtri = prim.ndtri
xlog1py = prim.xlog1py
zeta = prim.zeta

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
    "zeta",
]
