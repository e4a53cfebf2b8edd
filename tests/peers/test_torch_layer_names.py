"""Layers under all of PyTorch's names: what they print, their attributes, classes and modules."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
from types import ModuleType
from typing import Any

import pytest

import tinyt

torch = pytest.importorskip("torch")

# Every layer with arguments that are not the usual ones.
LAYERS = """
nn.Embedding(3,2,sparse=True)
nn.Embedding(3,2,padding_idx=-1,max_norm=1.,norm_type=1.,scale_grad_by_freq=True,sparse=True)
nn.EmbeddingBag(3,2,sparse=True)
nn.EmbeddingBag(3,2,max_norm=1.,norm_type=1.,scale_grad_by_freq=True,mode="sum",sparse=True,include_last_offset=True,padding_idx=1)
nn.Conv1d(2,4,3,2,1,2,2,False,"circular")
nn.Conv2d(2,4,3,padding="same",padding_mode="reflect")
nn.Conv2d(2,4,(3,1),padding="valid",dilation=2)
nn.Conv3d(2,4,(3,1,1))
nn.ConvTranspose2d(2,4,3,2,1,1,2,False,2)
nn.ConvTranspose1d(2,4,3)
nn.Linear(2,3,False)
nn.Bilinear(2,3,4,False)
nn.Identity(3)
nn.BatchNorm2d(3,1e-3,None,False,False)
nn.BatchNorm1d(3,bias=False)
nn.SyncBatchNorm(3,1e-3,.2)
nn.InstanceNorm2d(3,1e-3,.2,True,True)
nn.InstanceNorm1d(3,affine=True,bias=False)
nn.GroupNorm(2,4,1e-3,False)
nn.GroupNorm(2,4,bias=False)
nn.LayerNorm([2,3],1e-3,False)
nn.LayerNorm(3,bias=False)
nn.RMSNorm(3)
nn.RMSNorm([3],1e-3,False)
nn.LocalResponseNorm(2,1e-3,.5,2)
nn.CrossMapLRN2d(2,1e-3,.5,2)
nn.ReLU(True)
nn.ReLU6(True)
nn.RReLU(.2,.4,True)
nn.Hardtanh(-2,3,True)
nn.Hardtanh(min_val=-1.5,max_val=2.5)
nn.Hardsigmoid(True)
nn.Hardswish(True)
nn.SiLU(True)
nn.Mish(True)
nn.ELU(2.,True)
nn.CELU(2.,True)
nn.SELU(True)
nn.GLU(1)
nn.GELU("tanh")
nn.Hardshrink(.2)
nn.Softshrink(.2)
nn.LeakyReLU(.2,True)
nn.LogSigmoid()
nn.Softplus(2,3)
nn.PReLU(3,.1)
nn.Softmin(1)
nn.Softmax(1)
nn.Softmax2d()
nn.LogSoftmax(1)
nn.Softsign()
nn.Tanhshrink()
nn.Threshold(1.,2.,True)
nn.Sigmoid()
nn.MultiheadAttention(4,2,.1,False,True,True,3,5,True)
nn.Dropout(.1,True)
nn.Dropout1d(.1,True)
nn.Dropout2d(.1,True)
nn.Dropout3d(.1,True)
nn.AlphaDropout(.1,True)
nn.FeatureAlphaDropout(.1,True)
nn.Flatten(0,2)
nn.Unflatten(1,(2,3))
nn.Unflatten("a",(("b",2),("c",3)))
nn.Fold((4,4),2,2,1,2)
nn.Unfold(2,2,1,2)
nn.MaxPool1d(3,2,1,2,True,True)
nn.MaxPool2d((3,2),2,1,2,True,True)
nn.MaxPool3d(3)
nn.MaxUnpool1d(3,2,1)
nn.MaxUnpool2d((3,2))
nn.MaxUnpool3d(3)
nn.AvgPool1d(3,2,1,True,False)
nn.AvgPool2d((3,2),2,1,True,False,3)
nn.AvgPool3d(3)
nn.LPPool1d(2,3,2,True)
nn.LPPool2d(1.5,3)
nn.LPPool3d(2,(1,2,3))
nn.AdaptiveAvgPool1d(3)
nn.AdaptiveAvgPool2d((3,None))
nn.AdaptiveAvgPool3d((3,2,1))
nn.AdaptiveMaxPool1d(3,True)
nn.AdaptiveMaxPool2d((3,None))
nn.AdaptiveMaxPool3d(3)
nn.FractionalMaxPool2d(2,output_size=3)
nn.FractionalMaxPool3d(2,output_ratio=.5)
nn.ZeroPad1d(1)
nn.ZeroPad2d((1,2,3,4))
nn.ZeroPad3d(2)
nn.ConstantPad1d(1,2.5)
nn.ConstantPad2d(1,2)
nn.ConstantPad3d(1,2.)
nn.ReflectionPad1d(1)
nn.ReflectionPad2d((1,2,1,2))
nn.ReflectionPad3d(1)
nn.ReplicationPad1d(1)
nn.ReplicationPad2d(1)
nn.ReplicationPad3d(1)
nn.CircularPad1d(1)
nn.CircularPad2d((1,2,0,1))
nn.CircularPad3d(1)
nn.RNN(2,3,2,"relu",False,True,.1,True)
nn.LSTM(2,4,2,False,True,.1,True,3)
nn.LSTM(2,4)
nn.GRU(2,3,2,False,True,.1,True)
nn.RNNCell(2,3,False,"relu")
nn.LSTMCell(2,3,False)
nn.GRUCell(2,3)
nn.RNNCell(2,3)
nn.TransformerEncoderLayer(4,2,8,.2,"gelu",1e-3,True,True,False)
nn.TransformerEncoder(nn.TransformerEncoderLayer(4,2,8,batch_first=True),2)
nn.TransformerDecoderLayer(4,2,8,.2,norm_first=True)
nn.TransformerDecoder(nn.TransformerDecoderLayer(4,2,8),2,nn.LayerNorm(4))
nn.Transformer(4,2,1,1,8)
nn.Upsample(3,mode="bilinear",align_corners=True)
nn.Upsample(scale_factor=2.)
nn.Upsample(scale_factor=(2,3),mode="bicubic",recompute_scale_factor=True)
nn.UpsamplingNearest2d(scale_factor=2)
nn.UpsamplingBilinear2d(size=(2,3))
nn.PixelShuffle(2)
nn.PixelUnshuffle(2)
nn.ChannelShuffle(2)
nn.CosineSimilarity(2,1e-3)
nn.PairwiseDistance(1.,1e-3,True)
nn.AdaptiveLogSoftmaxWithLoss(4,10,[3,6],2.,True)
nn.L1Loss(reduction="sum")
nn.NLLLoss(torch.ones(3),reduction="none")
nn.NLLLoss2d(reduction="none")
nn.PoissonNLLLoss(False,True,eps=1e-3)
nn.GaussianNLLLoss(full=True)
nn.MSELoss(reduction="sum")
nn.BCELoss(torch.ones(2))
nn.BCEWithLogitsLoss(pos_weight=torch.ones(2))
nn.HingeEmbeddingLoss(2.)
nn.MultiLabelMarginLoss()
nn.SmoothL1Loss(beta=.5)
nn.HuberLoss("sum",.5)
nn.SoftMarginLoss()
nn.CrossEntropyLoss(torch.ones(2),label_smoothing=.1,ignore_index=3)
nn.MultiLabelSoftMarginLoss()
nn.CosineEmbeddingLoss(.2)
nn.MarginRankingLoss(.2)
nn.MultiMarginLoss(2,.5)
nn.TripletMarginLoss(2.,1.,swap=True)
nn.TripletMarginWithDistanceLoss(margin=2.)
nn.CTCLoss(2,zero_infinity=True)
nn.LazyLinear(3,False)
nn.LazyConv2d(3,2,padding=1,bias=False)
nn.LazyConvTranspose1d(3,2)
nn.LazyBatchNorm2d(1e-3)
nn.LazyInstanceNorm1d()
nn.RNNCellBase(2,3,True,4)
nn.RNNBase("GRU",2,3)
nn.DataParallel(nn.ReLU())
nn.modules.conv._ConvNd(1,1,(1,),(1,),(0,),(1,),False,(0,),1,True,"zeros")
nn.modules.batchnorm._NormBase(3)
nn.modules.batchnorm._BatchNorm(3)
nn.modules.linear.NonDynamicallyQuantizableLinear(2,3)
nn.KLDivLoss(reduction="sum", log_target=True)
nn.Sequential(nn.Linear(1, 2), nn.ReLU())
"""
# Caches of PyTorch's, and what it keeps of hooks.
OF_PYTORCH = {
    "_flat_weights",
    "_flat_weights_names",
    "_flat_weight_refs",
    "_compiled_call_impl",
    "_is_full_backward_hook",
}
OURS = {"_call_hooks", "_state_hooks", "_output_device"}


def made(tt: Any, line: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(line, {"nn": tt.nn, "tt": tt, "torch": tt})


def attributes(layer: Any) -> dict[str, str]:
    """What is no table, hook or function, as text."""
    found = {}
    for name in sorted({*vars(layer), *(n for n in ("_all_weights",) if hasattr(layer, n))}):
        value = getattr(layer, name)
        is_table = name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
        if is_table or "hook" in name or callable(value) or name in OF_PYTORCH | OURS:
            continue
        found[name] = repr(list(value) if isinstance(value, (list, tuple)) else value)
    return found


@pytest.mark.parametrize("line", LAYERS.strip().splitlines())
def test_layers(line: str) -> None:
    try:
        theirs = made(torch, line)
    except TypeError:
        with pytest.raises(TypeError):
            made(tinyt, line)
        return
    ours = made(tinyt, line)
    assert repr(ours).replace("tinyt.", "torch.") == repr(theirs)
    wanted, found = attributes(theirs), attributes(ours)
    # As PyTorch's constructor ends early where there is no device.
    if "DataParallel" in line:
        del found["dim"]
    assert found == wanted
    assert getattr(ours, "__constants__", None) == getattr(theirs, "__constants__", None)


def bases(kind: type) -> set[str]:
    return {c.__name__ for c in kind.__mro__ if c.__module__.startswith(("torch.nn", "tinyt.nn"))}


# Mixins of PyTorch's typing, and its lazy layers, of which each names its bases otherwise.
NO_BASES = {"_LazyConvXdMixin", "_LazyNormBase", "_ConvTransposeMixin", "MutableMapping"}


@pytest.mark.parametrize("name", [n for n in tinyt.nn.__all__ if n[0].isupper()])
def test_kinds_of_layers(name: str) -> None:
    """`isinstance` with the bases that PyTorch's layers have."""
    ours, theirs = getattr(tinyt.nn, name), getattr(torch.nn, name)
    if not (inspect.isclass(theirs) and issubclass(theirs, torch.nn.Module)):
        return
    for base in theirs.__mro__:
        home = base.__module__
        if home.startswith("torch.nn.modules.") and base.__name__ not in NO_BASES:
            module = importlib.import_module(home.replace("torch", "tinyt", 1))
            assert issubclass(ours, getattr(module, base.__name__)), base


MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(torch.nn.__path__, "torch.nn.")
    if not name.startswith(
        (
            "torch.nn.attention",
            "torch.nn.intrinsic",
            "torch.nn.qat",
            "torch.nn.quantiz",
            "torch.nn.backends",
            "torch.nn.cpp",
        )
    )
    and "linear_cross_entropy" not in name
    and not name.rpartition(".")[2].startswith("_")
    and "._" not in name
]
NOT_THERE = {
    "LinearCrossEntropyLoss",
    "LinearCrossEntropyOptions",
    "linear_cross_entropy",
    "grouped_mm",
    "scaled_mm",
    "scaled_grouped_mm",
    "ScalingType",
    "SwizzleType",
    "SpectralNormLoadStateDictPreHook",
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    theirs = importlib.import_module(name)
    ours = importlib.import_module(name.replace("torch", "tinyt", 1))
    own = [
        key
        for key, value in vars(theirs).items()
        if getattr(value, "__module__", None) == name and not key.startswith("_")
    ]
    names = set(getattr(theirs, "__all__", own)) - NOT_THERE
    typing = {"T", "is_namedtuple", "T_module", "LazyModuleMixin"} - set(dir(ours))
    assert {n for n in names if not hasattr(ours, n)} <= typing


PRIVATE = {
    "functional": "_Reduction _list_with_default _pair _single _triple _threshold grad Tensor "
    "_max_pool1d _max_pool2d _max_pool3d _adaptive_max_pool2d _fractional_max_pool2d "
    "_unpool_output_size _get_softmax_dim _no_grad_embedding_renorm_ _verify_batch_size "
    "_verify_spatial_size _is_integer assert_int_or_pair _in_projection_packed _in_projection "
    "_mha_shape_check _canonical_mask _none_or_dtype _check_key_padding_mask boolean_dispatch "
    "has_torch_function has_torch_function_unary has_torch_function_variadic "
    "handle_torch_function",
    "init": "_no_grad_uniform_ _no_grad_normal_ _no_grad_trunc_normal_ _no_grad_fill_ "
    "_no_grad_zero_ _calculate_fan_in_and_fan_out _calculate_correct_fan _make_deprecate",
    "modules.activation": "NonDynamicallyQuantizableLinear F Tensor Parameter xavier_uniform_",
    "modules.adaptive": "AdaptiveLogSoftmaxWithLoss F Linear ModuleList Sequential",
    "modules.batchnorm": "_NormBase _BatchNorm _LazyNormBase LazyBatchNorm2d F init Parameter "
    "UninitializedParameter UninitializedBuffer SyncBatchNorm",
    "modules.container": "_addindent Container Parameter",
    "modules.conv": "_ConvNd _ConvTransposeNd _LazyConvXdMixin LazyConv2d _pair _single _triple "
    "_reverse_repeat_tuple F init Parameter Tensor",
    "modules.dropout": "_DropoutNd F Tensor",
    "modules.instancenorm": "_InstanceNorm _NormBase LazyInstanceNorm1d F",
    "modules.lazy": "LazyModuleMixin is_lazy",
    "modules.linear": "NonDynamicallyQuantizableLinear LazyLinear Parameter init F",
    "modules.loss": "_Loss _WeightedLoss NLLLoss2d _Reduction F",
    "modules.module": "_addindent _IncompatibleKeys Module Tensor Parameter RemovableHandle "
    "_has_any_global_hook _forward_unimplemented",
    "modules.normalization": "CrossMapLRN2d LocalResponseNorm LayerNorm RMSNorm GroupNorm F init",
    "modules.padding": "_ConstantPadNd _ReflectionPadNd _ReplicationPadNd _CircularPadNd _pair "
    "_ntuple _quadruple",
    "modules.pooling": "_MaxPoolNd _AvgPoolNd _LPPoolNd _AdaptiveMaxPoolNd _AdaptiveAvgPoolNd "
    "_MaxUnpoolNd FractionalMaxPool2d FractionalMaxPool3d _pair F",
    "modules.rnn": "RNNBase RNNCellBase PackedSequence apply_permutation _apply_permutation init",
    "modules.transformer": "_get_clones _get_activation_fn _generate_square_subsequent_mask "
    "_get_seq_len _detect_is_causal_mask F ModuleList MultiheadAttention xavier_uniform_",
    "modules.utils": "_ntuple _single _pair _triple _quadruple _reverse_repeat_tuple "
    "_list_with_default consume_prefix_in_state_dict_if_present",
    "parallel": "parallel_apply replicate scatter_gather distributed comm data_parallel gather "
    "scatter",
    "parallel.scatter_gather": "scatter scatter_kwargs gather _is_namedtuple",
    "parameter": "UninitializedParameter UninitializedBuffer UninitializedTensorMixin is_lazy",
    "utils.rnn": "unpack_sequence invert_permutation",
    "_reduction": "get_enum legacy_get_string legacy_get_enum",
    "common_types": "_size_any_t _size_1_t _size_2_t _size_3_t _size_2_opt_t _size_3_opt_t "
    "_ratio_2_t _ratio_3_t _ratio_any_t _tensor_list_t _maybe_indices_t _scalar_or_tuple_any_t "
    "_scalar_or_tuple_2_t _scalar_or_tuple_4_t",
}


@pytest.mark.parametrize("module", PRIVATE)
def test_names_that_programs_copy(module: str) -> None:
    theirs = importlib.import_module(f"torch.nn.{module}")
    ours = importlib.import_module(f"tinyt.nn.{module}")
    for name in PRIVATE[module].split():
        assert hasattr(theirs, name)
        assert hasattr(ours, name), name
    assert isinstance(ours, ModuleType)
    with pytest.raises(AttributeError, match="_nothing"):
        ours._nothing  # noqa: B018


MODULE_NAMES = [
    *["_call_impl", "_wrapped_call_impl", "__setstate__", "_named_members", "_forward_hooks"],
    *["_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks"],
    *["_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"],
    *["_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_get_backward_hooks"],
    *["_forward_pre_hooks_with_kwargs", "call_super_init", "dump_patches", "T_destination"],
    *["_replicate_for_data_parallel", "_get_backward_pre_hooks"],
]


@pytest.mark.parametrize("name", MODULE_NAMES)
def test_attributes_of_modules(name: str) -> None:
    assert hasattr(torch.nn.Linear(1, 1), name)
    assert hasattr(tinyt.nn.Linear(1, 1), name)


METHODS = {
    "Conv2d": "_conv_forward transposed output_padding _reversed_padding_repeated_twice",
    "ConvTranspose2d": "_output_padding transposed _reversed_padding_repeated_twice",
    "BatchNorm2d": "_check_input_dim reset_running_stats _version",
    "InstanceNorm2d": "_check_input_dim _get_no_batch_dim _handle_no_batch_input "
    "_apply_instance_norm",
    "LSTM": "check_input check_hidden_size check_forward_args get_expected_hidden_size "
    "get_expected_cell_size permute_hidden _all_weights _flat_weights _flat_weights_names",
    "Embedding": "_fill_padding_idx_with_zero",
    "CircularPad1d": "_check_input_dim",
    "Transformer": "_reset_parameters generate_square_subsequent_mask",
    "TransformerEncoderLayer": "_sa_block _ff_block activation_relu_or_gelu",
    "TransformerDecoderLayer": "_sa_block _mha_block _ff_block",
    "MultiheadAttention": "merge_masks _qkv_same_embed_dim",
    "Unflatten": "_require_tuple_int",
}
ARGUMENTS = {
    "Conv2d": (1, 1, 1), "ConvTranspose2d": (1, 1, 1), "BatchNorm2d": (1,), "InstanceNorm2d": (1,),
    "LSTM": (1, 1), "Embedding": (1, 1), "CircularPad1d": (1,), "Transformer": (2, 1, 1, 1, 2),
    "TransformerEncoderLayer": (2, 1), "TransformerDecoderLayer": (2, 1),
    "MultiheadAttention": (2, 1), "Unflatten": (1, (1, 1)),
}  # fmt: skip


@pytest.mark.parametrize("layer", METHODS)
def test_methods_of_layers(layer: str) -> None:
    for tt in (torch, tinyt):
        found = made(tt, f"nn.{layer}(*{ARGUMENTS[layer]})")
        assert [n for n in METHODS[layer].split() if not hasattr(found, n)] == []
