"""Shape-true giants: models with the exact tensors of a real one and planted weights.

They exist to measure with: a giant has the sizes, the quantisation mix, the routing locality and a
next-token structure like a real model's, and needs no download. It says nothing meaningful.
"""

from moestream.models.synth.giant import make_giant
from moestream.models.synth.shapes import SHAPES, GiantShape

__all__ = ["SHAPES", "GiantShape", "make_giant"]
