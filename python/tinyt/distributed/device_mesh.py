"""`torch.distributed.device_mesh`, to be imported: one process makes no mesh."""

from __future__ import annotations

from tinyt.absent import refusing, refusing_class

_HINT = "there is one process; use its tensors as they are"

DeviceMesh = refusing_class("distributed.device_mesh", "DeviceMesh", _HINT)
init_device_mesh = refusing("distributed.device_mesh", "init_device_mesh", _HINT)

__all__ = ["DeviceMesh", "init_device_mesh"]
