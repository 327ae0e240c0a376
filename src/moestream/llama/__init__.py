"""The seam: the only package that imports ``llama_cpp``.

Everything above it works with the small classes here and never sees a pointer. What is relied on
in llama.cpp is checked once, when the runtime is first needed (:mod:`moestream.llama.runtime`).
"""
