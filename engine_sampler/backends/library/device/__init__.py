"""Steps whose logits stay on a device: what the header's functions for devices need of the host."""

from .backend import DeviceSteps
from .logits import DeviceTensor
from .steps import DeviceHost, StepOnDevice
