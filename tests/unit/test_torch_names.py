"""What PyTorch scripts name besides tensors: devices, backends, switches, mixed precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import nn, optim

try:
    import torch
except ImportError:
    torch = None


def test_the_usual_head_of_a_script() -> None:
    import tinyt.backends.cudnn as cudnn

    device = tinyt.device("cuda" if tinyt.cuda.is_available() else "cpu")
    assert device.type == "cpu"
    assert not tinyt.backends.mps.is_available()
    assert tinyt.cuda.device_count() == 0
    cudnn.deterministic, cudnn.benchmark = True, False
    assert tinyt.backends.cudnn.deterministic
    tinyt.backends.cuda.matmul.allow_tf32 = True
    tinyt.cuda.manual_seed(1)
    tinyt.cuda.manual_seed_all(1)
    tinyt.cuda.empty_cache()
    assert tinyt.cuda.max_memory_allocated() == 0
    tinyt.use_deterministic_algorithms(True, warn_only=True)
    assert tinyt.are_deterministic_algorithms_enabled()
    assert tinyt.is_deterministic_algorithms_warn_only_enabled()
    tinyt.use_deterministic_algorithms(False)
    tinyt.set_float32_matmul_precision("high")
    assert tinyt.get_float32_matmul_precision() == "high"
    tinyt.set_float32_matmul_precision("highest")
    tinyt.set_default_device("cpu")
    assert tinyt.get_default_device() == device
    tinyt.set_num_interop_threads(2)
    assert tinyt.get_num_interop_threads() == 2
    with tinyt.device("cpu") as inside:
        assert inside.type == tinyt.ones(1).device.type
    assert tinyt.Generator(device="cpu").manual_seed(3).initial_seed() == 3
    assert tinyt.__version__ == tinyt.version.__version__
    assert tinyt.version.cuda is None
    assert tinyt.backends.cpu.get_cpu_capability()
    assert (tinyt.inf, tinyt.pi, tinyt.e) == (math.inf, math.pi, math.e)
    assert tinyt.ones(2)[tinyt.newaxis].shape == (1, 2)


def test_what_is_not_there_says_so() -> None:
    with pytest.raises(
        tinyt.DeviceError, match=r"cuda\.current_device: there is no CUDA device: .*driver"
    ):
        tinyt.cuda.current_device()
    for name in ("set_device", "get_device_name", "get_device_properties"):
        with pytest.raises(tinyt.DeviceError, match=name):
            getattr(tinyt.cuda, name)(0)
    with pytest.raises(AttributeError, match=r"no attribute 'sparse'.*strided"):
        _ = tinyt.sparse
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        _ = tinyt.nonsense
    with pytest.raises(ValueError, match="'low'"):
        tinyt.set_float32_matmul_precision("low")
    with pytest.raises(RuntimeError, match="got 0"):
        tinyt.set_num_interop_threads(0)


def test_older_constructors() -> None:
    assert tinyt.FloatTensor(2, 3).shape == (2, 3)
    assert tinyt.LongTensor([1, 2]).dtype == tinyt.int64
    assert tinyt.DoubleTensor(np.array([1.5])).tolist() == [1.5]
    assert tinyt.ByteTensor().shape == (0,)
    assert tinyt.BoolTensor([True]).dtype == tinyt.bool


def test_modules_that_scripts_import_from() -> None:
    from tinyt.nn.parameter import Parameter
    from tinyt.optim.optimizer import Optimizer
    from tinyt.utils.data.dataloader import DataLoader, default_collate
    from tinyt.utils.data.dataset import Dataset, random_split
    from tinyt.utils.data.sampler import Sampler, SubsetRandomSampler

    data = tinyt.utils.data
    assert (DataLoader, default_collate) == (data.DataLoader, data.default_collate)
    assert (Dataset, random_split) == (data.Dataset, data.random_split)
    assert (Sampler, SubsetRandomSampler) == (data.Sampler, data.SubsetRandomSampler)
    assert (Parameter, Optimizer) == (nn.Parameter, optim.Optimizer)


def test_where_a_tensor_is() -> None:
    x = tinyt.ones(2)
    assert x.pin_memory() is x
    assert (x.is_pinned(), x.is_shared(), x.is_inference(), x.get_device()) == (
        False,
        False,
        False,
        -1,
    )
    assert x.is_cpu
    assert not any([x.is_cuda, x.is_mps, x.is_meta, x.is_sparse, x.is_quantized, x.is_nested])
    assert tinyt.autograd.Variable(x).data_ptr() == x.data_ptr()
    assert tinyt.autograd.Variable(tinyt.ones(1), requires_grad=True).requires_grad


def test_autocast_that_there_is_not() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        tinyt.autocast("cuda")
    with pytest.warns(UserWarning, match="CUDA is not available"):
        tinyt.cuda.amp.autocast()
    with pytest.raises(RuntimeError, match="'tpu'"):
        tinyt.autocast("tpu")
    with (
        pytest.warns(UserWarning, match="only bfloat16 and float16"),
        tinyt.autocast("cpu", dtype=tinyt.float32),
    ):
        assert not tinyt.is_autocast_enabled("cpu")


def scaled_steps(tt: Any) -> list[Any]:
    """Five steps, one with an infinite gradient; the scale, parameters and state after each."""
    param = tt.nn.Parameter(tt.tensor([1.0, -2.0]))
    optimizer = tt.optim.SGD([param], lr=0.1)
    scaler = tt.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    seen = []
    for step in range(5):
        optimizer.zero_grad()
        factor = float("inf") if step == 2 else 1.0
        scaler.scale((param * param * factor).sum()).backward()
        if step == 1:
            scaler.unscale_(optimizer)
            tt.nn.utils.clip_grad_norm_([param], 0.5)
        scaler.step(optimizer)
        scaler.update()
        seen.append((scaler.get_scale(), param.tolist(), scaler.state_dict()))
    return seen


@pytest.mark.skipif(torch is None, reason="compares with PyTorch")
def test_grad_scaler_equals_pytorch() -> None:
    assert scaled_steps(tinyt) == scaled_steps(torch)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("bad", [None, float("inf"), float("nan")])
def test_grad_scaler_unscales_all_and_finds_what_is_not_finite(bad: Any, dtype: str) -> None:
    """Numbers whose squares overflow are finite."""
    values = [3e38, -3e38]
    params = [nn.Parameter(tinyt.zeros(2, dtype=getattr(tinyt, dtype))) for _ in range(3)]
    for param in params[:2]:
        param.grad = tinyt.tensor(values).to(param.dtype)
    if bad is not None:
        params[1].grad[1] = bad
    scaler, optimizer = tinyt.amp.GradScaler("cpu", init_scale=4.0), optim.SGD(params, lr=0.0)
    scaler.scale(params[2])
    scaler.unscale_(optimizer)
    assert params[0].grad.tolist() == (tinyt.tensor(values).to(params[0].dtype) / 4).tolist()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == (4.0 if bad is None else 2.0)


def test_grad_scaler_off_and_wrong_use() -> None:
    param = nn.Parameter(tinyt.ones(1))
    optimizer = optim.SGD([param], lr=0.5)
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = tinyt.cuda.amp.GradScaler()
    scaler.scale(param.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert (param.item(), scaler.state_dict(), scaler.get_scale()) == (0.5, {}, 1.0)
    scaler = tinyt.amp.GradScaler("cpu")
    scaler.scale(param)
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called since"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="empty"):
        scaler.load_state_dict({})
    other = tinyt.amp.GradScaler("cpu")
    other.load_state_dict({**scaler.state_dict(), "scale": 4.0})
    assert other.scale([tinyt.ones(1)])[0].item() == 4.0


def misuses(tt: Any) -> dict[str, Callable[[], Any]]:
    """Calls of a scaler that are refused."""

    def scaler(scaled: bool = True) -> Any:
        made = tt.amp.GradScaler("cpu")
        if scaled:
            made.scale(tt.ones(1))
        return made

    def optimizer(dtype: str | None) -> Any:
        param = tt.nn.Parameter(tt.ones(1, dtype=getattr(tt, dtype or "float32")))
        param.grad = None if dtype is None else tt.ones_like(param.detach())
        return tt.optim.SGD([param], lr=0.5)

    return {
        "step before scale": lambda: scaler(False).step(optimizer("float32")),
        "unscale_ before scale": lambda: scaler(False).unscale_(optimizer("float32")),
        "update before scale": lambda: scaler(False).update(),
        "update to a scale before scale": lambda: scaler(False).update(2.0),
        "update without a check": lambda: scaler().update(),
        "step without gradients": lambda: scaler().step(optimizer(None)),
        "float16": lambda: scaler().unscale_(optimizer("float16")),
        "step of float16": lambda: scaler().step(optimizer("float16")),
        "growth": lambda: tt.amp.GradScaler("cpu", growth_factor=1.0),
        "backoff": lambda: tt.amp.GradScaler("cpu", backoff_factor=1.0),
    }


@pytest.mark.skipif(torch is None, reason="compares with PyTorch")
@pytest.mark.parametrize("name", misuses(tinyt))
def test_grad_scaler_refuses_what_pytorch_refuses(name: str) -> None:
    raised = []
    for tt in (tinyt, torch):
        with pytest.raises((AssertionError, RuntimeError, ValueError)) as caught:
            misuses(tt)[name]()
        raised.append((caught.type, str(caught.value).split()[:4]))
    assert raised[0] == raised[1]


def test_grad_scaler_is_set() -> None:
    assert tinyt.amp.GradScaler("cpu", enabled=False, growth_factor=1.0).get_scale() == 1.0
    scaler = tinyt.amp.GradScaler("cpu")
    for name, value in (("growth_factor", 3.0), ("backoff_factor", 0.25), ("growth_interval", 7)):
        getattr(scaler, f"set_{name}")(value)
        assert getattr(scaler, f"get_{name}")() == value


def test_tensor_types_are_classes() -> None:
    x = tinyt.FloatTensor([1.0, 2.0])
    assert isinstance(x, tinyt.FloatTensor)
    assert not isinstance(x, tinyt.LongTensor)
    assert not isinstance(3, tinyt.LongTensor)
    assert x.type(tinyt.LongTensor).dtype == x.type("torch.LongTensor").dtype == tinyt.int64
    with pytest.raises(TypeError, match="type: expected a dtype"):
        x.type(int)


def test_set_default_tensor_type() -> None:
    try:
        tinyt.set_default_tensor_type(tinyt.DoubleTensor)
        assert tinyt.ones(1).dtype == tinyt.float64
        tinyt.set_default_tensor_type("torch.FloatTensor")
        assert tinyt.ones(1).dtype == tinyt.float32
    finally:
        tinyt.set_default_dtype(tinyt.float32)
    for wrong in ("torch.NoTensor", tinyt.LongTensor, 3):
        with pytest.raises(TypeError):
            tinyt.set_default_tensor_type(wrong)


def test_module_paths() -> None:
    from tinyt.nn.modules.conv import Conv2d
    from tinyt.nn.modules.utils import _pair

    assert Conv2d is nn.Conv2d is nn.modules.Conv2d
    assert _pair(3) == (3, 3) == _pair([3, 3])
    assert isinstance(nn.BatchNorm2d(3), nn.modules.batchnorm._BatchNorm)
    assert not isinstance(nn.LayerNorm(3), nn.modules.batchnorm._BatchNorm)
    assert isinstance(nn.ConvTranspose1d(1, 1, 1), nn.modules.conv._ConvTransposeNd)
    assert isinstance(nn.MSELoss(), nn.modules.loss._Loss)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        nn.Nothing  # noqa: B018


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
def test_layers_have_pytorchs_module_paths() -> None:
    for name in nn.__all__:
        theirs = getattr(getattr(torch.nn, name, None), "__module__", "")
        if theirs.startswith("torch.nn.modules."):
            module = getattr(nn.modules, theirs.removeprefix("torch.nn.modules."))
            assert getattr(module, name) is getattr(nn, name)


def test_data_parallel_calls_the_module() -> None:
    import tinyt.nn.parallel

    model = nn.DataParallel(nn.Linear(3, 2), device_ids=None)
    x = tinyt.ones(4, 3)
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    assert model(x).equal(model.module(x))
    assert tinyt.nn.parallel.data_parallel(model.module, x).equal(model(x))


def test_there_is_no_accelerator() -> None:
    assert not tinyt.accelerator.is_available()
    assert tinyt.accelerator.device_count() == 0
    assert tinyt.accelerator.current_accelerator() is None
