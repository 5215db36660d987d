"""One folder a device, loaded by name: `tinygrad.device` imports `tinygrad.backends.NAME` when NAME is first asked for."""
