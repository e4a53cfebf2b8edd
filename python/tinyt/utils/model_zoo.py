"""PyTorch's `torch.utils.model_zoo`: older names of `tinyt.hub`."""

from __future__ import annotations

from tinyt.hub import load_state_dict_from_url

__all__ = ["load_state_dict_from_url", "load_url"]

load_url = load_state_dict_from_url
