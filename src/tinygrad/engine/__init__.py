"""From a kernel graph to running programs: order, memory plan, compile, launch, capture and replay."""
