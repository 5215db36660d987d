"""One folder a device, loaded by name: `tinygrad.device` imports `tinygrad.backends.NAME` when NAME is first asked for."""

# devices that programs switch on by NAME=1 and that have no folder here: asking for one is an error, not the default
WITHOUT_BACKEND = ("AMD", "CL", "CUDA", "DSP", "METAL", "NV", "QCOM", "WEBGPU")
